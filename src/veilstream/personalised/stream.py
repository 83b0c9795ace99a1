"""Streams of counts about people with personal budgets, on one durable ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from veilstream.data import Calendar
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.traits import Traits
from veilstream.personalised.counts import SPREAD, Partitioned
from veilstream.personalised.ensemble import combine_counts
from veilstream.personalised.partition import Group
from veilstream.personalised.people import PeopleCounts
from veilstream.personalised.roster import Roster
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership
from veilstream.privacy.windows import fullest_window
from veilstream.release.publisher import Publisher
from veilstream.storage.holder import LedgerHolder
from veilstream.storage.ledger import Ledger
from veilstream.trusted.frames import hide_frames
from veilstream.values.release import Release
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True, eq=False)
class GroupedRelease:
    """Estimates for everybody on the roster at one timestamp, and the committed release of each group behind them."""

    t: int
    values: Values
    releases: Sequence[Release]


class PersonalisedPublisher(LedgerHolder):
    """One stream per group of similar budgets, each under its own Guarantee, on one ledger.

    A person is in one group of the public roster for ever, so they meet one stream, and inside any w successive
    timestamps (None: for ever) it costs them at most the lowest budget of their group, which is not above their own. A
    ledger refuses the stream with other people or other groups.
    Of ``population`` it reserves what the group of the largest epsilon needs.
    Any stream mechanism serves; ``values`` combines the groups' counts by ``frequency_weights`` and costs nothing.

    Each group commits by itself. After a crash in the middle of a step, feed the step again: groups that had committed
    return what they released, the others go on.

    >>> from veilstream import STREAMS
    >>> from veilstream.personalised import Roster, count_levels
    >>> roster = Roster.of_budgets([0.1] * 50 + [1] * 950)
    >>> publisher = PersonalisedPublisher(roster, bins=2, w=10, mechanism=STREAMS["uniform"]())
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 2, bins=2, t=0)
    >>> release = publisher.feed(x)
    >>> release.values.numbers.shape, [str(one.spent) for one in release.releases]
    ((2,), ['1677721/167772160', '1/10'])
    """

    def __init__(
        self,
        roster: Roster,
        bins: int,
        w: int | None,
        mechanism: StreamMechanism[Any],
        ledger: str | Path | Ledger | None = None,
        *,
        stream: str = "default",
        groups: Sequence[Group] | None = None,
        spread: float = SPREAD,
        calendar: Calendar | None = None,
        population: str | None = None,
    ) -> None:
        self.roster = roster
        self.bins = bins
        self.groups = list(Partitioned(spread=spread).groups(roster) if groups is None else groups)
        self._check_groups()
        self._spread = spread
        super().__init__(ledger)
        self._turn = self.ledger.turn()
        name = f"{stream}/{self._fingerprint()}"
        with self._closing_on_error():
            others = [one.name for one in self.ledger.streams() if one.name.startswith(f"{stream}/")]
            foreign = [one for one in others if not one.startswith(f"{name}/")]
            if foreign:
                raise LedgerMismatchError(
                    name="stream",
                    value=stream,
                    limit=f"{foreign[0]!r} is of other people or groups; who changed groups would pay twice",
                )
            self.publishers: list[Publisher[Any]] = [
                Publisher(
                    bins,
                    Guarantee(group.epsilon, w),
                    mechanism,
                    self.ledger,
                    stream=f"{name}/group {number + 1} of {len(self.groups)}",
                    calendar=calendar,
                    # Nobody is in two groups: of what they reserve the largest counts.
                    population=None if population is None else Membership(population, "reserved", apart=name),
                )
                for number, group in enumerate(self.groups)
            ]

    def _fingerprint(self) -> str:
        """A short text by which a ledger knows the same people in the same groups again."""
        digest = hashlib.sha256(self.roster.fingerprint().encode())
        for group in self.groups:
            digest.update(f"{group.epsilon} {group.levels.tolist()};".encode())
        return digest.hexdigest()[:12]

    def _check_groups(self) -> None:
        met = np.zeros(self.roster.levels, dtype=np.int64)
        for number, group in enumerate(self.groups):
            met[group.levels] += 1
            lowest = self.roster.budgets[int(group.levels.min())]
            if group.epsilon > lowest:
                raise InvalidInputError(
                    f"group {number + 1} at epsilon {group.epsilon}: one of its people has {lowest}"
                )
        if int(met.max(initial=0)) > 1 or not self.groups:
            raise InvalidInputError("groups: a level of budgets is in two of them, or there are none")

    @hide_frames
    def feed(self, x: PeopleCounts) -> GroupedRelease:
        """Publish the counts of one timestamp, group by group."""
        if x.roster is not self.roster or x.bins != self.bins:
            raise InvalidInputError(
                f"counts of {x.bins} bins and perhaps another roster: the stream has {self.bins} bins"
            )
        pairs = zip(self.publishers, self.groups, strict=True)
        with self._turn:
            releases = [publisher.feed(x.of_group(group)) for publisher, group in pairs]
        values = [Values(one.values, one.std, one.law, one.fresh) for one in releases]
        combined = combine_counts(self.roster, self.groups, values, self._spread)
        return GroupedRelease(x.table.span.last, combined, releases)

    def spent(self) -> list[Fraction]:
        """What the ledger's charges cost a person of each level in the fullest window so far."""
        totals = np.zeros(self.roster.levels, dtype=object)
        for publisher, group in zip(self.publishers, self.groups, strict=True):
            charges = [row.charge for row in publisher.ledger.charges(publisher.stream)]
            per_timestamp = Traits.of(publisher.mechanism).per_timestamp
            pure, _ = fullest_window(charges, publisher.guarantee.w, self.bins, per_timestamp=per_timestamp)
            totals[group.levels] = pure
        return [Fraction(total) for total in totals.tolist()]
