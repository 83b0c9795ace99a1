"""A program through a real Meter and accountant, with the answers of comparisons given, and what was drawn for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.exact.programs import (
    Action,
    Choice,
    Close,
    Compare,
    Fill,
    Kind,
    Look,
    Noise,
    Open,
    Program,
    Row,
    Step,
)
from veilstream.audit.exact.reads import SHAPE, Integers, Read, RowRead
from veilstream.errors import BudgetExceededError, InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.session import MakeMeter, Session
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.charge import Charge
from veilstream.privacy.kernels import Kernel
from veilstream.privacy.profile import Profile
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.correlated import CorrelatedNoise
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.measured import seal_measured
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedTable, ordered_rows
from veilstream.trusted.running import SealedRunning
from veilstream.trusted.statistics.quantile import quantile_scores
from veilstream.trusted.threshold import SealedThreshold

FAR = 1 << 40
"""Noise that decides a comparison whatever the data."""
FILLS = 8
"""How often a budget is halved to fill what is left."""


@dataclass(frozen=True, slots=True)
class Added:
    """Noise was added to numbers: discrete Laplace of a scale, or Gaussian of a standard deviation."""

    read: Read | RowRead
    scale: float
    gaussian: bool


@dataclass(frozen=True, slots=True)
class Chosen:
    """A bin was chosen with probability ∝ e^(-rate·gap)."""

    read: Read
    rate: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A number was compared; ``level`` is on the grid of thresholds."""

    block: int
    read: Read
    level: float
    scale_rho: float
    scale_nu: float
    answer: bool
    grid: int = 0


@dataclass(frozen=True, slots=True)
class Looked:
    """The next row of a block of noise, with density ∝ e^(-rate·largest L1 norm of a row), was added to counts."""

    block: int
    read: Read
    rate: float


Event: TypeAlias = Added | Chosen | Compared | Looked


@dataclass(slots=True)
class _Source:
    """Draws nothing but what decides the next comparison, and notes what was asked for."""

    decided: bool | None = None
    scale: Fraction = Fraction(1)

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.scale = scale
        return np.full(size, 0 if self.decided is None else FAR if self.decided else -FAR, dtype=np.int64)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.scale = sigma
        # One step of the grid, which tells how fine it is.
        return np.ones(size, dtype=np.int64)

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        self.scale = rate
        return 0

    def blocks(self, rate: Fraction, length: int, entries: int, count: int) -> NDArray[np.int64]:
        self.scale = rate
        return np.zeros((count, length, entries), dtype=np.int64)


@dataclass(slots=True)
class _Run:
    program: Program
    make_meter: MakeMeter
    script: Sequence[bool]
    source: _Source = field(default_factory=_Source)
    history: list[Sealed] = field(default_factory=list[Sealed])
    recorded: list[tuple[int, Charge]] = field(default_factory=list[tuple[int, Charge]])
    thresholds: dict[int, tuple[SealedThreshold, float]] = field(
        default_factory=dict[int, tuple[SealedThreshold, float]]
    )
    noise_block: tuple[NoiseBlock, float] | None = None
    sums: dict[int, tuple[SealedRunning, frozenset[int]]] = field(
        default_factory=dict[int, tuple[SealedRunning, frozenset[int]]]
    )
    correlated: dict[int, tuple[CorrelatedNoise, frozenset[int]]] = field(
        default_factory=dict[int, tuple[CorrelatedNoise, frozenset[int]]]
    )
    answers: list[bool] = field(default_factory=list[bool])
    events: list[Event] = field(default_factory=list[Event])
    refused: int = 0

    def all_steps(self) -> None:
        session = self._session()
        for t, step in enumerate(self.program.steps):
            if step.restarts:
                session = self._restarted(session, t)
            self.history.append(_snapshot(self.program, t))
            before, block, sums = dict(self.thresholds), self.noise_block, dict(self.sums)
            correlated = dict(self.correlated)
            self._step(step, session.at(t))
            self.recorded += [(t, charge) for charge in session.charges]
            if step.fails:
                self.thresholds, self.noise_block, self.sums = before, block, sums
                self.correlated = correlated

    def _restarted(self, before: Session, t: int) -> Session:
        """Another process, which begins with a snapshot or with the charges on record."""
        session = self._session()
        if t % 2:
            session.restore(before.snapshot())
        else:
            for at, charge in self.recorded:
                session.replay(at, charge)
        return session

    def _session(self) -> Session:
        program = self.program
        paid_apart = program.kind is Kind.PENDING
        accountant = Accountant(program.guarantee, program.counts.shape[1], per_timestamp=paid_apart)
        return Session(accountant, self.source, self.make_meter)

    def _step(self, step: Step, meter: Meter) -> None:
        for guarded in step.actions:
            if guarded.after is not None and (not self.answers or self.answers[-1] != guarded.after):
                continue
            try:
                self._act(guarded.action, meter)
            except (BudgetExceededError, InvalidBudgetError, InvalidInputError):
                self.refused += 1
            finally:
                self.source.decided = None

    def _act(self, action: Action, meter: Meter) -> None:
        match action:
            case Noise(read, part, gaussian):
                self._noise(read, part, gaussian, meter)
            case Fill(read):
                self._fill(read, meter)
            case Choice(read, part):
                meter.select(quantile_scores(read.sealed(self.history)), meter.left * part, "choose")
                self.events.append(Chosen(read, float(self.source.scale)))
            case Open(name, part_rho, part_nu, sensitivity):
                left = meter.left
                threshold = meter.open_threshold(left * part_rho, left * part_nu, sensitivity, "decide")
                self.thresholds[name] = threshold, float(self.source.scale)
            case Compare(name, read, level):
                if name in self.thresholds:
                    self._compare(*self.thresholds[name], read, level, meter)
            case Look(read, part, length):
                self._look(read, part, length, meter)
            case Row(name, kernel, part, fill):
                self._row(name, kernel, part, fill, meter)
            case Close(name):
                if name in self.thresholds:
                    meter.close(self.thresholds.pop(name)[0])

    def _noise(self, read: Read, part: Fraction, gaussian: bool, meter: Meter) -> None:
        x = read.sealed(self.history)
        if not gaussian:
            meter.laplace(x, meter.left * part, "publish")
            self.events.append(Added(read, float(self.source.scale), gaussian=False))
            return
        values = meter.gaussian(x, meter.guarantee.mu_squared * part / 2, "publish")
        unit = 1 << self.program.grid
        step = values.numbers[0] * unit - read.values(self.program.counts[None])[0, 0]
        self.events.append(Added(read, float(self.source.scale) * float(step), gaussian=True))

    def _row(self, name: int, kernel: Kernel | Buffers, part: Fraction, fill: bool, meter: Meter) -> None:
        if isinstance(kernel, Buffers):
            self._buffered_row(name, kernel, part, fill, meter)
        else:
            self._grouped_row(name, kernel, part, fill, meter)

    def _grouped_row(self, name: int, kernel: Kernel, part: Fraction, fill: bool, meter: Meter) -> None:
        now, known = self.history[-1], self.sums.get(name)
        if known is None:
            sums, added = SealedRunning.opened_with(now, kernel), frozenset({meter.t})
        else:
            sums, added = known[0].extended(now), known[1] | {meter.t}
        read = RowRead(sums.profile, added)
        for halvings in range(FILLS if fill else 1):
            try:
                values = meter.row_of(sums, meter.guarantee.mu_squared * part / (1 << halvings), "total")
            except BudgetExceededError:
                self.refused += 1
                continue
            # Noise of one step tells how fine the grid is.
            step = values.numbers[0] - read.values(self.program.counts[None])[0, 0]
            self.events.append(Added(read, float(self.source.scale) * float(step), gaussian=True))
            self.sums[name] = sums, added

    def _buffered_row(self, name: int, buffers: Buffers, part: Fraction, fill: bool, meter: Meter) -> None:
        before, added = self.correlated.get(name, (None, frozenset[int]()))
        for halvings in range(FILLS if fill else 1):
            unit = meter.guarantee.mu_squared * part / (1 << halvings)
            try:
                _, noise = meter.correlated(self.history[-1], buffers, unit, "total", before)
            except BudgetExceededError:
                self.refused += 1
                continue
            read = RowRead(Profile(buffers, noise.start, meter.t - noise.start), added | {meter.t})
            self.events.append(Added(read, float(self.source.scale) * 2.0**-noise.grid, gaussian=True))
            self.correlated[name] = noise, read.added

    def _look(self, read: Read, part: Fraction, length: int, meter: Meter) -> None:
        x, known = read.sealed(self.history), self.noise_block
        if known is None or not known[0].left:
            values, block = meter.block_laplace(x, meter.left * part, length, "look")
            rate = float(self.source.scale)
        else:
            values, block = meter.block_laplace(x, known[0].epsilon, known[0].length, "look", known[0])
            rate = known[1]
        assert values.numbers.size == len(read.weights)
        self.noise_block = block, rate
        self.events.append(Looked(block.block, read, rate))

    def _fill(self, read: Read, meter: Meter) -> None:
        x = read.sealed(self.history)
        for halvings in range(FILLS):
            try:
                meter.laplace(x, meter.guarantee.pure / (1 << halvings), "publish")
            except BudgetExceededError:
                continue
            self.events.append(Added(read, float(self.source.scale), gaussian=False))

    def _compare(self, threshold: SealedThreshold, scale_rho: float, read: Read, level: float, meter: Meter) -> None:
        position = len(self.answers)
        wanted = self.script[position] if position < len(self.script) else False
        self.source.decided = wanted
        answer = meter.above(threshold, read.sealed(self.history), level)
        assert answer == wanted
        self.answers.append(answer)
        scale = float(self.source.scale)
        self.events.append(Compared(threshold.block, read, level, scale_rho, scale, answer, self.program.grid))


@dataclass(frozen=True, slots=True)
class Path:
    """The questions that a program came to ask, given the answers of its comparisons."""

    events: tuple[Event, ...]
    answers: tuple[bool, ...]
    refused: int


def paths(program: Program, make_meter: MakeMeter = Meter) -> Iterator[Path]:
    """One path for every sequence of answers that the program can receive."""
    script: list[bool] = []
    while True:
        run = _Run(program, make_meter, script)
        run.all_steps()
        yield Path(tuple(run.events), tuple(run.answers), run.refused)
        script = run.answers
        while script and script[-1]:
            script.pop()
        if not script:
            return
        script[-1] = True


def _snapshot(program: Program, t: int) -> Sealed:
    counts: Integers = program.counts[t]
    if program.kind is Kind.MEASURED:
        moved = Fraction(program.max_contribution)
        return seal_measured(counts, t, moved, moved, grid=program.grid)
    if program.kind is not Kind.ROWS:
        return seal(counts, t, program.max_contribution)
    cells = np.repeat(np.arange(counts.size), counts)
    columns = [np.asarray(codes, dtype=np.int32) for codes in np.unravel_index(cells, SHAPE)]
    hashes = np.arange(cells.size, dtype=np.uint64)
    rows = ordered_rows(columns, hashes, SHAPE, t, program.max_contribution)
    # The accountant has a bin for every number of the vector; that of the finest partition has the fewest, four.
    return SealedTable(rows, program.partition, spare=0)
