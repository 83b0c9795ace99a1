"""What the streams of a population have drawn, each by itself: charges come in, and what windows pay is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from veilstream.privacy.charge import Charge
from veilstream.privacy.population import Cost
from veilstream.privacy.population_profile import Cells, Profile, Usage


class Drawn(NamedTuple):
    """What a population counts of a charge: the steps ``first..last`` that it reads, its cost and its block."""

    first: int
    last: int
    cost: Cost
    block: int | None = None

    @classmethod
    def of(cls, charge: Charge) -> Drawn:
        return cls(charge.span.first, charge.span.last, Cost(charge.epsilon, charge.mu_squared), charge.block)


class Block(NamedTuple):
    """The charges of a block so far: the largest cost, and the steps that any of them reads."""

    cost: Cost
    spans: Cells

    def with_more(self, drawn: Iterable[Drawn]) -> Block:
        """The block with further charges."""
        pure, squared, spans = self.cost.pure, self.cost.mu_squared, list(self.spans)
        for one in drawn:
            pure, squared = max(pure, one.cost.pure), max(squared, one.cost.mu_squared)
            spans.append((one.first, one.last))
        return Block(Cost(pure, squared), _joined(tuple(sorted(spans))))


@dataclass(frozen=True, slots=True)
class Member:
    """A stream of a population: its name, its own window, and which cells its steps cover."""

    name: str
    w: int | None
    cells_at: Callable[[int], tuple[int, int]] | None
    """The first and last cell of a step; None for a stream without time, which counts in every window."""

    def usage(self, cost: Cost, spans: Cells) -> Usage:
        """What it costs windows to read all steps of some ``spans``."""
        cells = self.cells_at
        read = sum(last - first + 1 for first, last in spans)
        if cells is None:
            times = -(-read // self.w) if self.w else 1
            return Usage(Cost(times * cost.pure, times * times * cost.mu_squared))
        if read == 1:
            return Usage(cost, (cells(spans[0][0]),))
        if self.w is None or read <= self.w:
            return Usage(cost, _joined(tuple((cells(first)[0], cells(last)[1]) for first, last in spans)))
        return Usage(cost, tuple(cells(t) for first, last in spans for t in range(first, last + 1)), self.w)


@dataclass(frozen=True, slots=True)
class Change:
    """What windows pay more, and what they pay no more, because of some charges; and the blocks that these made."""

    added: Sequence[Usage]
    removed: Sequence[Usage]
    blocks: dict[int, Block]

    @property
    def reach(self) -> tuple[int, int] | None:
        """The first and the last cell that is touched; None if that is all of time."""
        usages = [*self.added, *self.removed]
        if not all(usage.steps for usage in usages):
            return None
        return min(usage.steps[0][0] for usage in usages), max(usage.steps[-1][1] for usage in usages)


@dataclass(slots=True)
class StreamDraws:
    """What one stream has drawn: what windows pay for it, all of it together, and its blocks, which may still grow."""

    member: Member
    profile: Profile
    ever: Profile = field(default_factory=lambda: Profile([], None))
    """What one window costs that holds all of time."""
    blocks: dict[int, Block] = field(default_factory=dict[int, Block])

    def change(self, drawn: Iterable[Drawn]) -> Change:
        """What further charges change; those of one block are one, of the largest, for all that any of them reads."""
        added: list[Usage] = []
        removed: list[Usage] = []
        grown: defaultdict[int, list[Drawn]] = defaultdict(list)
        for one in drawn:
            if not one.cost.pure and not one.cost.mu_squared:
                continue
            if one.block is None:
                added.append(self.member.usage(one.cost, ((one.first, one.last),)))
            else:
                grown[one.block].append(one)
        blocks: dict[int, Block] = {}
        for number, more in grown.items():
            known = self.blocks.get(number, Block(Cost(), ()))
            if known.spans:
                removed.append(self.member.usage(*known))
            blocks[number] = known.with_more(more)
            added.append(self.member.usage(*blocks[number]))
        return Change(added, removed, blocks)

    def count(self, drawn: Iterable[Drawn]) -> Change:
        """Count further charges; what they changed."""
        change = self.change(drawn)
        for profile in (self.profile, self.ever):
            profile.change(change.added, change.removed)
        self.blocks |= change.blocks
        return change

    def to_fields(self, open_blocks: Iterable[int]) -> dict[str, Any]:
        """All of it as whole numbers and exact fractions, for a file; of blocks those that may still grow.

        Profiles add, so that nothing that is asked later depends on which charges they came from (PROOF.md,
        "Populations").
        """
        kept = {number: self.blocks[number] for number in open_blocks if number in self.blocks}
        return {
            "profile": self.profile.to_fields(),
            "ever": self.ever.to_fields(),
            "blocks": {
                str(number): [str(block.cost.pure), str(block.cost.mu_squared), block.spans]
                for number, block in kept.items()
            },
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any], member: Member, w: int | None) -> StreamDraws:
        """What ``to_fields`` wrote."""
        blocks = {
            int(number): Block(Cost(Fraction(pure), Fraction(squared)), tuple((first, last) for first, last in spans))
            for number, (pure, squared, spans) in fields["blocks"].items()
        }
        profile, ever = Profile.from_fields(fields["profile"], w), Profile.from_fields(fields["ever"], None)
        return cls(member, profile, ever, blocks)


def _joined(steps: Cells) -> Cells:
    """The same numbers with neighbours joined."""
    joined: list[tuple[int, int]] = []
    for first, last in steps:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return tuple(joined)
