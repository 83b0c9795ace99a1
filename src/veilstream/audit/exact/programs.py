"""Random programs, small or long: questions to a Meter about tiny counts, with skipped, failed and restarted steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from veilstream.audit.exact.dice import Dice
from veilstream.audit.exact.reads import Integers, PartsOf, Read, counts_of, part_of, pending_of
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import Kernel

MOST_COMPARISONS, MOST_FAR = 5, 3
"""Of a program of a few steps, and of a long one."""
LONGEST, WIDEST = 80, 25
"""Steps of a long program, and of its windows."""
MEASURED_GRID = 9
"""Measured values are multiples of 2⁻⁹ here: finer than comparisons, so that rounding for them is attacked too."""
PARTITIONS = ((0,), (1,), (0, 1))


class Kind(StrEnum):
    """What a stream is made of, and how it is charged."""

    WINDOWS = "counts under a window"
    PRESENCE = "counts of people in few steps"
    BINS = "named bins at event level"
    PENDING = "pending bins, paid per timestamp"
    ROWS = "parts of rows"
    MEASURED = "measured values"
    TOTALS = "rows of running sums"
    BUFFERS = "rows by decaying buffers"


RUNNING = (Kind.TOTALS, Kind.BUFFERS)


@dataclass(frozen=True, slots=True)
class Noise:
    """Ask for noisy numbers, for a part of what is left."""

    read: Read
    part: Fraction
    gaussian: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """Ask for noisy numbers again and again, for ever smaller budgets, until nothing more is admitted."""

    read: Read


@dataclass(frozen=True, slots=True)
class Choice:
    """Ask for a median bin."""

    read: Read
    part: Fraction


@dataclass(frozen=True, slots=True)
class Open:
    """Open a threshold under a name of the program's own."""

    name: int
    part_rho: Fraction
    part_nu: Fraction
    sensitivity: Fraction


@dataclass(frozen=True, slots=True)
class Compare:
    """Compare a number with an open threshold."""

    name: int
    read: Read
    level: float


@dataclass(frozen=True, slots=True)
class Close:
    name: int


@dataclass(frozen=True, slots=True)
class Look:
    """Look at counts with the next row of a block of noise, or the first of a new one."""

    read: Read
    part: Fraction
    length: int


@dataclass(frozen=True, slots=True)
class Row:
    """Add the present counts to a running sum and ask for its row, for a part of μ²; ``fill`` asks for ever less.

    With buffers for a kernel it is the correlated answer about the present.
    """

    name: int
    kernel: Kernel | Buffers
    part: Fraction
    fill: bool = False


Action: TypeAlias = Noise | Fill | Choice | Open | Compare | Close | Look | Row


@dataclass(frozen=True, slots=True)
class Guarded:
    """An action that is taken always, or only if the last comparison had a given answer."""

    action: Action
    after: bool | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What happens at one timestamp; a failed step keeps its charges and loses what it opened and closed."""

    actions: tuple[Guarded, ...] = ()
    fails: bool = False
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """Questions to a stream of a kind under a guarantee, with the counts that they are asked about."""

    kind: Kind
    guarantee: Guarantee
    max_contribution: int
    counts: Integers
    steps: tuple[Step, ...]
    partition: tuple[int, ...] = (0,)

    @property
    def grid(self) -> int:
        """Counts are multiples of 2^-grid."""
        return MEASURED_GRID if self.kind is Kind.MEASURED else 0


@dataclass(slots=True)
class _Draft:
    """A program in the making."""

    dice: Dice
    kind: Kind
    guarantee: Guarantee
    max_contribution: int
    bins: int
    length: int
    parts_of: PartsOf
    far: bool = False
    names: list[int] = field(default_factory=list[int])
    opened: int = 0
    compared: int = 0
    starts: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    restarts: list[tuple[int, Integers]] = field(default_factory=list[tuple[int, Integers]])
    kernels: list[tuple[int, Kernel | Buffers, Fraction]] = field(
        default_factory=list[tuple[int, "Kernel | Buffers", Fraction]]
    )

    @property
    def most_comparisons(self) -> int:
        return MOST_FAR if self.far else MOST_COMPARISONS

    def part(self) -> Fraction:
        return self.dice.choice([Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(3, 4), Fraction(1)])

    def actions(self, t: int) -> list[Guarded]:
        if self.kind in RUNNING:
            return self._rows(t)
        if self.kind is Kind.PENDING:
            return self._pending(t)
        asked = [self._guarded(self._action(t)) for _ in range(self.dice.between(1, 4))]
        # Of many windows some are full, and not the last alone.
        return [*asked, Guarded(Fill(self.rest(t)))] if self.far and self.dice.chance(3) else asked

    def late_block(self, t: int) -> list[Guarded]:
        """Early steps spend most of what they have; one late block compares old data with most of what is left."""
        if t < self.length - 1:
            spent = self.dice.choice([Fraction(1, 2), Fraction(3, 4), Fraction(7, 8)])
            return [Guarded(Noise(counts_of(t, t, self.length, self.bins), spent))]
        unit, self.opened = self.dice.choice([Fraction(1, 8), Fraction(1, 16)]), 1
        actions: list[Action] = [Open(1, unit * self.dice.choice([2, 4]), unit, self._sensitivity())]
        oldest = self.dice.below(t + 1)
        for _ in range(self.dice.between(3, self.most_comparisons)):
            read = counts_of(oldest, self.dice.between(oldest, t), self.length, self.bins)
            actions.append(Compare(1, read.total(), float(self.dice.between(0, 6))))
        return [Guarded(action) for action in actions]

    def _guarded(self, action: Action) -> Guarded:
        free = isinstance(action, Open | Close | Look) or not self.compared or not self.dice.chance(4)
        return Guarded(action, None if free else self.dice.chance(2))

    def _action(self, t: int) -> Action:
        comparing = self.names and self.compared < self.most_comparisons and not self.dice.chance(4)
        if comparing:
            self.compared += 1
            return Compare(self.dice.choice(self.names), self._number(t), float(self.dice.between(0, 4)))
        if self.names and self.dice.chance(5):
            return Close(self.dice.choice(self.names))
        if self.kind is not Kind.ROWS and self.compared < self.most_comparisons and self.dice.chance(2):
            self.opened += 1
            self.names.append(self.opened)
            part_rho, part_nu = (self.dice.choice([Fraction(1, n) for n in (2, 4, 8, 16)]) for _ in range(2))
            return Open(self.opened, part_rho, part_nu, self._sensitivity())
        if self.kind is not Kind.ROWS and self.dice.chance(4):
            return Choice(self._counts(t), self.part())
        if self.kind in (Kind.WINDOWS, Kind.PRESENCE) and self.dice.chance(3):
            return Look(counts_of(t, t, self.length, self.bins), self.part(), self.dice.between(1, 3))
        gaussian = bool(self.guarantee.delta) and self.dice.chance(2)
        return Noise(self._vector(t), self.part(), gaussian)

    def _sensitivity(self) -> Fraction:
        """Enough for sums over all timestamps that one unit may be in, most of the time."""
        steps = self.guarantee.steps_at_once(self.dice.between(1, self.length))
        return Fraction(self.max_contribution * steps)

    def _counts(self, t: int) -> Read:
        """Counts of the present or, less often, of a span that may begin and end in the past."""
        last = t if not self.dice.chance(5) else self.dice.between(0, t)
        first = last if self.dice.chance(2) else self.dice.between(0, last)
        read = counts_of(first, last, self.length, self.bins)
        if self.dice.chance(6):
            read = read.plus(counts_of(self.dice.between(0, last), last, self.length, self.bins))
        return read

    def _number(self, t: int) -> Read:
        read = self._counts(t)
        if self.kind is Kind.MEASURED or self.dice.chance(2):
            return read.total()
        return read.distance(np.array([self.dice.between(0, 4) for _ in range(self.bins)]))

    def _vector(self, t: int) -> Read:
        if self.kind is Kind.ROWS:
            return self._of_rows(t)
        read = self._counts(t)
        shape = self.dice.below(6)
        some = np.flatnonzero([self.dice.chance(2) for _ in range(self.bins)])
        if shape == 0:
            return read.total()
        if shape == 1:
            return read.sums(np.array([self.dice.below(2) for _ in range(self.bins)]), 2)
        if shape == 2 and self.bins == 2:
            return read.haar()
        if 0 < some.size < self.bins and (self.kind is Kind.BINS or shape == 3):
            return read.select(some) if self.dice.chance(2) else read.without(some)
        return read

    def rest(self, now: int) -> Read:
        """What spends the rest reads: one timestamp, most often the present."""
        t = now if self.dice.chance(2) else self.dice.below(now + 1)
        if self.kind is Kind.ROWS:
            return self._of_rows(t)
        if self.kind is Kind.PENDING:
            some = np.flatnonzero([self.dice.chance(2) for _ in range(self.bins)])
            read = counts_of(t, t, self.length, self.bins)
            return read.select(some) if some.size else read
        return counts_of(t, t, self.length, self.bins)

    def _of_rows(self, t: int) -> Read:
        path: list[tuple[tuple[int, ...], int]] = []
        for _ in range(self.dice.between(0, 2)):
            axes = self.dice.choice(PARTITIONS)
            path.append((axes, self.dice.below(2 ** len(axes))))
        return part_of(path, t, self.length, self.dice.below(2), self.parts_of)

    def _kernel(self) -> Kernel:
        decay = self.dice.choice([Fraction(1), Fraction(1), Fraction(3, 4)])
        return Kernel(decay, endless=self.dice.chance(3), detail=self.dice.choice([1, 1, 2]))

    def _buffers(self) -> Buffers:
        """One to three buffers that fall fast or slowly, for as many rows as the program may have or for ever."""
        size = self.dice.between(1, 3)
        rates = tuple(self.dice.choice([0, 1, 6, 6]) for _ in range(size))
        factors, shifts = tuple(self.dice.choice([1, 3, 5]) for _ in range(size)), (4,) * size
        return Buffers(rates, factors, shifts, self.dice.choice([None, self.length, self.length + 2]))

    def _rows(self, t: int) -> list[Guarded]:
        """Rows of one or two running sums, beside Gaussian answers of other kinds."""
        if not self.kernels:
            kernel = self._buffers() if self.kind is Kind.BUFFERS else self._kernel()
            part = self.dice.choice([Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)])
            self.kernels = [(name, kernel, part / name) for name in range(1, self.dice.between(1, 2) + 1)]
        actions: list[Action] = [
            Row(name, kernel, part, fill=t == self.length - 1 or (self.far and self.dice.chance(6)))
            for name, kernel, part in self.kernels
            if not self.dice.chance(6)
        ]
        if self.dice.chance(5):
            actions.append(Noise(self._counts(t), self.part(), gaussian=True))
        return [Guarded(action) for action in actions]

    def _pending(self, t: int) -> list[Guarded]:
        """Every bin waits or is published with all that it has pending; all may be watched besides."""
        actions: list[Guarded] = []
        if self.dice.chance(2):
            actions.append(Guarded(Noise(counts_of(t, t, self.length, self.bins), self.part())))
        some = np.flatnonzero([self.dice.chance(2) for _ in range(self.bins)])
        if some.size:
            read = pending_of(self.starts, t, tuple(self.restarts), self.length).select(some)
            actions.append(Guarded(Noise(read, self.part())))
            if not self.dice.chance(4):
                self.starts = self.starts.copy()
                self.starts[some] = t + 1
                self.restarts.append((t, some))
        return actions


def random_program(dice: Dice, parts_of: PartsOf, *, far: bool = False) -> Program:
    """A program that the dice decide on: of a few steps, or of many (``far``) with wide windows and long pauses.

    >>> from veilstream.trusted.rows import SealedRows
    >>> len(random_program(Dice(7), SealedRows.parts).steps) >= 2
    True
    """
    kind = dice.choice(
        [Kind.WINDOWS] * 3 + [Kind.PRESENCE, Kind.BINS, Kind.PENDING, Kind.ROWS, Kind.MEASURED, *RUNNING]
    )
    wide = dice.between(7, WIDEST) if far else 0
    w = {
        Kind.WINDOWS: dice.choice([1, 2, 2, 3, None]),
        Kind.PRESENCE: dice.choice([3, 4, None]),
        Kind.BINS: 1,
        Kind.PENDING: dice.choice([1, 2, 3]),
        Kind.ROWS: dice.choice([1, 1, 2]),
        Kind.MEASURED: dice.choice([1, 2, 3, None]),
        Kind.TOTALS: dice.choice([1, 1, 2, 3]),
        Kind.BUFFERS: dice.choice([1, 1, 2, 3]),
    }[kind]
    if far and w is not None and kind is not Kind.BINS:
        w = dice.choice([w + 3, wide])
    mixed = kind in RUNNING or (kind in (Kind.WINDOWS, Kind.BINS) and dice.chance(4))
    epsilon = dice.choice(["1/2", "1", "2"])
    # Rows of running sums make no pure charges: all of the budget is for them, so that a loss beyond it shows.
    share = Fraction(1, 1 << 20) if kind in RUNNING else Fraction(1, 2)
    guarantee = Guarantee(epsilon, w, "1/100", share) if mixed else Guarantee(epsilon, w)
    if kind is Kind.PRESENCE:
        few = dice.between(1, 3) if wide else 1
        guarantee = dice.choice(
            [Guarantee(epsilon, wide or w, presence=few), Guarantee(epsilon, per=wide or 2, presence=few)]
        )
    bins = 4 if kind is Kind.ROWS else dice.between(2, 3) if kind in (Kind.BINS, Kind.PENDING) else dice.between(1, 3)
    length = dice.between(30, LONGEST) if far else dice.between(2, 3 if guarantee.reach is None else 5)
    draft = _Draft(dice, kind, guarantee, dice.choice([1, 1, 2]), bins, length, parts_of, far)
    draft.starts = np.zeros(bins, dtype=np.int64)
    most = 4 << MEASURED_GRID if kind is Kind.MEASURED else 4
    counts = np.array([[dice.below(most) for _ in range(bins)] for _ in range(length)], dtype=np.int64)
    late = kind in (Kind.WINDOWS, Kind.BINS, Kind.PRESENCE) and dice.chance(5)
    actions = draft.late_block if late else draft.actions
    steps = [
        Step()
        if dice.chance(10) or (far and t < length - 1 and not dice.chance(3))
        else Step(tuple(actions(t)), fails=dice.chance(8), restarts=dice.chance(5))
        for t in range(length)
    ]
    # What is left is spent, of old timestamps too, so that a charge that was forgotten shows.
    rest = () if kind in RUNNING else tuple(Guarded(Fill(draft.rest(length - 1))) for _ in range(dice.between(1, 3)))
    steps[-1] = Step((*steps[-1].actions, *rest), steps[-1].fails, steps[-1].restarts)
    return Program(kind, guarantee, draft.max_contribution, counts, tuple(steps), dice.choice(PARTITIONS))
