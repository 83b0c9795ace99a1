"""What is left of a population for the streams that share it: a charge is admitted before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from veilstream.errors import BudgetExceededError, ChargeError
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.population import Cost
from veilstream.privacy.population_pool import Drawn, Member, StreamDraws
from veilstream.privacy.population_profile import Profile

NEVER: Final = "ask for less epsilon, or define another population with more; what counts for ever never comes back"
ALL_OF_TIME: Final = 1 << 62
"""No cell is later."""
FIRST_SPENDERS: Final = 5
"""So many streams are named that spend most."""


class ChargeLimit(Protocol):
    """What else than a stream's own guarantee limits its charges."""

    def check(self, charges: Sequence[Charge]) -> None:
        """Refuse charges that would pass it."""
        ...

    def count(self, charges: Sequence[Charge]) -> None:
        """Count charges that were checked and made."""
        ...


@dataclass(slots=True)
class PoolDraws:
    """What the streams of a pool have drawn, each by itself and all together."""

    streams: dict[str, StreamDraws]
    together: Profile

    @classmethod
    def of(cls, streams: Iterable[StreamDraws], w: int | None) -> PoolDraws:
        """What some streams have drawn on windows of ``w`` cells."""
        named = {one.member.name: one for one in streams}
        together = Profile([], w)
        for one in named.values():
            together.merge(one.profile)
        return cls(named, together)

    def include(self, member: Member) -> None:
        """Let there be a stream that has drawn nothing, if it is new."""
        if member.name not in self.streams:
            self.streams[member.name] = StreamDraws(member, Profile([], self.together.w))

    def count(self, stream: str, drawn: Iterable[Drawn]) -> None:
        """Count further charges of a stream."""
        change = self.streams[stream].count(drawn)
        self.together.change(change.added, change.removed)


Fetch: TypeAlias = Callable[[Span | None, Collection[int]], PoolDraws]
"""Reads all that may touch some cells (None: all that there is), and some whole blocks of the stream that asks."""


class Pool:
    """What is left of a population for the streams that share it, as one of them sees it while it makes a step.

    Whether a charge fits is decided by public numbers alone: the recorded charges of all and those of the step so far.
    ``date_of`` tells when a cell begins. Windows that hold a cell up to ``full_until`` count as full.
    """

    def __init__(
        self,
        name: str,
        limit: Cost,
        w: int | None,
        member: Member,
        fetch: Fetch,
        date_of: Callable[[int], str] = str,
        full_until: int | None = None,
    ) -> None:
        self._name = name
        self._limit = limit
        self._w = w
        self._member = member
        self._fetch = fetch
        self._date_of = date_of
        self._full_until = full_until
        self._made: list[Charge] = []

    def check(self, charges: Sequence[Charge]) -> None:
        """Refuse ``charges`` if a window would pass the pool with them and all that were counted."""
        self._check([*self._made, *charges], charges)

    def count(self, charges: Sequence[Charge]) -> None:
        """Count charges that were checked."""
        self._made += charges

    def confirm(self, charges: Sequence[Charge]) -> None:
        """Refuse to record all ``charges`` of a step together, whatever was checked before."""
        self._check(charges, charges)

    def _check(self, new: Sequence[Charge], asked: Sequence[Charge]) -> None:
        for charge in asked:
            if charge.profile is not None:
                raise ChargeError(
                    name=f"charge for {charge.purpose!r}",
                    value=charge.mu_squared,
                    limit=f"rows of running sums are not counted in the pool of population {self._name!r}",
                    next_step="register the stream with a share of its own (draw 'reserved')",
                )
        drawn = [one for one in map(Drawn.of, new) if one.cost != Cost()]
        if not drawn:
            return
        more, draws = self._more(drawn)
        lost = self._holds_lost_steps(more)
        cost = self._limit + more.peak() if lost else draws.together.peak_with(more)
        if not cost.fits(self._limit):
            raise self._refusal(asked, more, draws, cost)

    def _more(self, drawn: Sequence[Drawn]) -> tuple[Profile, PoolDraws]:
        """What charges of the step add to windows, and what those windows hold."""
        blocks = {one.block for one in drawn if one.block is not None}
        alone = StreamDraws(self._member, Profile([], self._w)).change(drawn)
        wanted = _reach(Profile(alone.added, self._w))
        draws = self._fetch(wanted, blocks)
        change = draws.streams[self._member.name].change(drawn)
        more = Profile(change.added, self._w, change.removed)
        needed = _reach(more)
        if not covers(wanted, needed):
            # The block has grown dearer, for all that it read before.
            draws = self._fetch(None if wanted is None or needed is None else wanted | needed, blocks)
        return more, draws

    def _holds_lost_steps(self, more: Profile) -> bool:
        if self._full_until is None:
            return False
        return any(more.timeless) or (bool(more.ends) and more.ends[0] < self._full_until + (self._w or 1))

    def _refusal(self, asked: Sequence[Charge], more: Profile, draws: PoolDraws, cost: Cost) -> BudgetExceededError:
        amount = sum((Cost(charge.epsilon, charge.mu_squared) for charge in asked), Cost())
        purpose = asked[0].purpose
        return BudgetExceededError(
            f"charge {amount} for {purpose!r} of stream {self._member.name!r}: a window of population {self._name!r} "
            f"would cost {cost} of the {self._limit} that its streams share; {self._spenders(more, draws)}",
            name=purpose,
            value=cost.pure,
            limit=str(self._limit),
            next_step=self._advice(amount, more, draws),
        )

    def _spenders(self, more: Profile, draws: PoolDraws) -> str:
        """Who spends the fullest window of those that are asked for."""
        if self._holds_lost_steps(more):
            return "steps that an old copy of the ledger had forgotten count as all of it there"
        touched = (None, None) if not more.ends or any(more.timeless) else (more.ends[0], more.ends[-1] - 1)
        end, full = draws.together.fullest(*touched)
        if full == Cost():
            return "nothing was drawn yet"
        spent = {
            name: one.profile.always if end is None else one.profile.at(end) for name, one in draws.streams.items()
        }
        listed = sorted(((cost.pure, name, cost) for name, cost in spent.items() if cost != Cost()), reverse=True)
        others = f" and {len(listed) - FIRST_SPENDERS} more" if len(listed) > FIRST_SPENDERS else ""
        return "spent there by " + ", ".join(f"{name!r} {cost}" for _, name, cost in listed[:FIRST_SPENDERS]) + others

    def _advice(self, amount: Cost, more: Profile, draws: PoolDraws) -> str:
        room = None
        if self._w is not None and more.ends and not any(more.timeless) and self._full_until != ALL_OF_TIME:
            first, last = more.ends[0], more.ends[-1] - self._w
            later = last + 1 if self._full_until is None else max(last + 1, self._full_until + self._w)
            room = draws.together.room_from(amount, self._limit, later, last - first + 1)
        if room is None:
            return NEVER
        return (
            f"ask for less epsilon, or about data from {self._date_of(room)} on; a stream can repeat its last "
            "release until then (--exhausted repeat)"
        )


def _reach(more: Profile) -> Span | None:
    """The cells of all windows that some charges touch; None if that is all of time."""
    if more.w is None or any(more.timeless):
        return None
    return Span(more.ends[0] - more.w + 1, more.ends[-1] - 1) if more.ends else Span(0, 0)


def covers(known: Span | None, wanted: Span | None) -> bool:
    """Whether all ``wanted`` cells are ``known``; None is all of time."""
    if known is None or wanted is None:
        return known is None
    return known.first <= wanted.first and wanted.last <= known.last
