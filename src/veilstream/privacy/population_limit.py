"""What is left of a population for the streams that share it: a charge is admitted before anything is drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from veilstream.errors import BudgetExceededError, ChargeError
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.population import Cost
from veilstream.privacy.population_pool import Cells, Member, Profile, Usage

NEVER: Final = "ask for less epsilon, or define another population with more; what counts for ever never comes back"


END_OF_TIME: Final = 1 << 62
"""A cell after all others."""


class ChargeLimit(Protocol):
    """What else than a stream's own guarantee limits its charges."""

    def check(self, charges: Sequence[Charge]) -> None:
        """Refuse charges that would pass it."""
        ...

    def count(self, charges: Sequence[Charge]) -> None:
        """Count charges that were checked and made."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """What was drawn from a pool before the present step: by other streams, and by this one."""

    others: Sequence[Usage] = ()
    own: Sequence[Charge] = ()
    full_through: int | None = None
    """Windows that touch this cell or an earlier one have nothing left: what they cost was lost with an old ledger."""


Fetch: TypeAlias = Callable[[Span | None], Spent]
"""Reads all that may touch some cells (None: all that there is)."""


class Pool:
    """What is left of a population for the streams that share it, as one of them sees it while it makes a step.

    Whether a charge fits is decided by public numbers alone: the recorded charges of all and those of the step so far.
    ``date_of`` tells when a cell begins.
    """

    def __init__(
        self, name: str, limit: Cost, w: int | None, member: Member, fetch: Fetch, date_of: Callable[[int], str] = str
    ) -> None:
        self._name = name
        self._limit = limit
        self._w = w
        self._member = member
        self._fetch = fetch
        self._date_of = date_of
        self._made: list[Charge] = []
        self._known: Span | None = None
        self._spent: Spent | None = None
        self._before = Profile([], w)

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
        usages = self._member.usages(new)
        if not usages:
            return
        self._load(usages)
        self._refuse_full(usages, asked)
        cost = self._with(new, usages)
        if not cost.fits(self._limit):
            raise self._refusal(asked, cost)

    def _refuse_full(self, usages: Sequence[Usage], asked: Sequence[Charge]) -> None:
        """Refuse what touches windows of which nobody knows what they cost."""
        assert self._spent is not None
        full, reach = self._spent.full_through, _reach(usages, self._w)
        if full is None or (reach is not None and reach.first > full):
            return
        room = None if self._w is None or full == END_OF_TIME else self._date_of(full + self._w)
        raise BudgetExceededError(
            f"charge for {asked[0].purpose!r} of stream {self._member.name!r}: steps of population {self._name!r} were "
            "lost with an old copy of the ledger, and windows that touch them count as full",
            name=asked[0].purpose,
            limit="0",
            next_step=NEVER if room is None else f"ask about data from {room} on",
        )

    def _load(self, usages: Sequence[Usage]) -> None:
        """Read what the windows that charges touch may hold, unless it was."""
        wanted = _reach(usages, self._w)
        if self._spent is not None and _covers(self._known, wanted):
            return
        if wanted is not None and self._known is not None:
            wanted |= self._known
        self._known, self._spent = wanted, self._fetch(wanted)
        self._before = Profile([*self._spent.others, *self._member.usages(self._spent.own)], self._w)

    def _with(self, new: Sequence[Charge], usages: Sequence[Usage]) -> Cost:
        """The largest cost of the windows that ``new`` charges touch, with them."""
        assert self._spent is not None
        places = {usage.steps for usage in usages}
        if len(places) == 1 and all(c.block is None for c in new) and all(usage.w is None for usage in usages):
            # The common case: all charges of the step read the same cells.
            (cells,) = places
            if len(cells) <= 1:
                return sum((usage.cost for usage in usages), self._peak_around(cells))
        own = self._member.usages([*self._spent.own, *new])
        return Profile([*self._spent.others, *own], self._w).peak()

    def _peak_around(self, cells: Cells) -> Cost:
        if not cells or self._w is None:
            return self._before.peak()
        return self._before.peak(cells[0][0], cells[-1][1] + self._w - 1)

    def _refusal(self, asked: Sequence[Charge], cost: Cost) -> BudgetExceededError:
        amount = sum((usage.cost for usage in self._member.usages(asked)), Cost())
        purpose = asked[0].purpose
        return BudgetExceededError(
            f"charge {amount} for {purpose!r} of stream {self._member.name!r}: a window of population {self._name!r} "
            f"would cost {cost} of the {self._limit} that its streams share; {self._spenders()}",
            name=purpose,
            value=cost.pure,
            limit=str(self._limit),
            next_step=self._advice(asked, amount),
        )

    def _all(self) -> list[Usage]:
        assert self._spent is not None
        return [*self._spent.others, *self._member.usages([*self._spent.own, *self._made])]

    def _spenders(self) -> str:
        """Who spends the fullest window."""
        usages = self._all()
        end, full = Profile(usages, self._w).fullest()
        if full == Cost():
            return "nothing was drawn yet"
        spent: defaultdict[str, Cost] = defaultdict(Cost)
        for usage in usages:
            spent[usage.stream] += usage.cost if end is None else usage.in_window(end - (self._w or 1) + 1, end)
        listed = sorted(((cost.pure, name, cost) for name, cost in spent.items() if cost != Cost()), reverse=True)
        return "spent there by " + ", ".join(f"{name!r} {cost}" for _, name, cost in listed[:5])

    def _advice(self, asked: Sequence[Charge], amount: Cost) -> str:
        cells = [cell for usage in self._member.usages(asked) for step in usage.steps for cell in step]
        room = None
        if cells and self._w is not None:
            wide = max(cells) - min(cells) + 1
            room = Profile(self._all(), self._w).room_from(amount, self._limit, max(cells) + 1, wide)
        if room is None:
            return NEVER
        return (
            f"ask for less epsilon, or about data from {self._date_of(room)} on; a stream can repeat its last "
            "release until then (--exhausted repeat)"
        )


def _reach(usages: Sequence[Usage], w: int | None) -> Span | None:
    """The cells of all windows that some usages touch; None if that is all of time."""
    if w is None or not all(usage.steps for usage in usages):
        return None
    first = min(usage.steps[0][0] for usage in usages)
    last = max(usage.steps[-1][1] for usage in usages)
    return Span(first - w + 1, last + w - 1)


def _covers(known: Span | None, wanted: Span | None) -> bool:
    if known is None or wanted is None:
        return known is None
    return known.first <= wanted.first and wanted.last <= known.last
