"""Many random programs, the worst loss of each against its guarantee, and what was attacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from veilstream.audit.exact.dice import Dice
from veilstream.audit.exact.losses import Floats, divergence, pure_losses
from veilstream.audit.exact.neighbours import dearest, neighbours, reachable
from veilstream.audit.exact.programs import Kind, Program, random_program
from veilstream.audit.exact.reads import Integers, PartsOf
from veilstream.audit.exact.running import Added, Chosen, Compared, Looked, Path, paths
from veilstream.mechanisms.session import MakeMeter
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.threshold import THRESHOLD_GRID

TOLERANCE: Final = 1e-9
"""The floating-point error of a loss or of a divergence is far below it."""
SHARE: Final = 500
"""Programs that a process attacks at a time."""
MOST_DIVERGENCES: Final = 4
"""Neighbours of a program whose divergence is computed: those whose noisy numbers move most."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """A program that was admitted and loses more than its guarantee."""

    number: int
    kind: str
    guarantee: str
    loss: float
    claimed: float

    def __str__(self) -> str:
        return f"program {self.number} ({self.kind}, {self.guarantee}) loses {self.loss:.6g}, claimed {self.claimed:g}"


@dataclass(slots=True)
class ProgramAudit:
    """What the programs did, how near they came to their guarantees, and which of them broke one."""

    programs: int = 0
    attacked: Counter[str] = field(default_factory=Counter[str])
    largest: float = 0.0
    """The largest loss as a part of what was promised for it."""
    refutations: list[Refutation] = field(default_factory=list[Refutation])

    @property
    def passed(self) -> bool:
        return not self.refutations

    def add(self, other: ProgramAudit) -> None:
        """Count what another part of the programs did."""
        self.programs += other.programs
        self.attacked.update(other.attacked)
        self.largest = max(self.largest, other.largest)
        self.refutations += other.refutations

    def __str__(self) -> str:
        verdict = "pass" if self.passed else f"FAIL: {self.refutations[0]}"
        what = ", ".join(f"{count:,} {name}" for name, count in self.attacked.most_common())
        return f"{self.programs:,} programs, largest loss {self.largest:.6f} of the promised one, {verdict}; {what}"


def attack_programs(
    count: int,
    seed: int = 0,
    *,
    first: int = 0,
    make_meter: MakeMeter = Meter,
    parts_of: PartsOf = SealedRows.parts,
    kinds: Collection[Kind] = tuple(Kind),
    far: bool = False,
) -> ProgramAudit:
    """The exact losses of ``count`` programs from number ``first`` on.

    ``make_meter`` and ``parts_of`` are replaced by rules that are known to be wrong, to see that they are found out.
    Only programs of ``kinds`` are run; those that are ``far`` have many steps and wide windows, and of their neighbours
    those are tried that promise most.
    """
    found = ProgramAudit()
    for number in range(first, first + count):
        dice = Dice(seed, number)
        program = random_program(dice, parts_of, far=far)
        if program.kind in kinds:
            _attack(program, number, dice, make_meter, found, far=far)
    return found


def attack_in_parallel(count: int, seed: int = 0, workers: int | None = None) -> ProgramAudit:
    """The same, shared among processes (one per core by default)."""
    found = ProgramAudit()
    shares = [min(SHARE, count - first) for first in range(0, count, SHARE)]
    if workers == 1 or len(shares) == 1:
        return attack_programs(count, seed)
    with ProcessPoolExecutor(workers) as pool:
        parts = [pool.submit(attack_programs, share, seed, first=number * SHARE) for number, share in enumerate(shares)]
        for part in parts:
            found.add(part.result())
    return found


def _attack(
    program: Program, number: int, dice: Dice, make_meter: MakeMeter, found: ProgramAudit, *, far: bool
) -> None:
    guarantee, counts = program.guarantee, program.counts
    length, bins = counts.shape
    taken = list(paths(program, make_meter))
    sets = dearest(guarantee, length, _prices(program, taken)) if far else reachable(guarantee, length)
    changes = neighbours(sets, length, bins, program.max_contribution, dice, program.grid, far=far)
    found.programs += 1
    found.attacked[program.kind] += 1
    _count(program, taken, found)
    claimed = float(guarantee.pure)
    loss = max(float(max(each.max() for each in pure_losses(path, counts, changes))) for path in taken)
    if guarantee.mu_squared and any(_is_gaussian(path) for path in taken):
        moved = np.max([_gaussian_movement(path, program, changes) for path in taken], axis=0)
        for index in np.argsort(moved)[-MOST_DIVERGENCES:].tolist():
            delta = divergence(taken, counts, changes[index], float(guarantee.epsilon))
            _judge(found, number, program, delta, float(guarantee.delta))
    _judge(found, number, program, loss, claimed)


def _prices(program: Program, taken: Iterable[Path]) -> list[float]:
    """About what it costs a unit to be in a timestamp: how far it alone moves what is answered, against the noise."""
    steps, bins = program.counts.shape
    ones = np.eye(steps * bins, dtype=np.int64).reshape(-1, steps, bins) << program.grid
    total = np.zeros(steps * bins)
    for path in taken:
        for event in path.events:
            scale = 1 / event.rate if isinstance(event, Chosen | Looked) else _scale(event)
            moved = event.read.values(program.counts + ones) - event.read.values(program.counts[None])
            total += np.abs(moved).sum(axis=1) / scale
    return [float(price) for price in total.reshape(steps, bins).max(axis=1)]


def _scale(event: Added | Compared) -> float:
    return event.scale if isinstance(event, Added) else event.scale_nu / (1 << THRESHOLD_GRID)


def _judge(found: ProgramAudit, number: int, program: Program, loss: float, claimed: float) -> None:
    found.largest = max(found.largest, loss / claimed)
    if not loss <= claimed + TOLERANCE:
        found.refutations.append(Refutation(number, program.kind, str(program.guarantee), loss, claimed))


def _is_gaussian(path: Path) -> bool:
    return any(isinstance(event, Added) and event.gaussian for event in path.events)


def _gaussian_movement(path: Path, program: Program, changes: Integers) -> Floats:
    total = np.zeros(len(changes))
    for event in path.events:
        if isinstance(event, Added) and event.gaussian:
            moved = event.read.values(program.counts + changes) - event.read.values(program.counts[None])
            total += (moved.astype(np.float64) ** 2).sum(axis=1) / event.scale**2
    return total


def _count(program: Program, taken: Iterable[Path], found: ProgramAudit) -> None:
    """What kinds of questions and incidents the programs were made of."""
    found.attacked["failed steps"] += sum(step.fails for step in program.steps)
    found.attacked["restarts"] += sum(step.restarts for step in program.steps)
    found.attacked["skipped steps"] += sum(not step.actions for step in program.steps)
    for path in taken:
        found.attacked["refused questions"] += path.refused
        for event in path.events:
            match event:
                case Added(gaussian=gaussian):
                    found.attacked["Gaussian answers" if gaussian else "Laplace answers"] += 1
                case Looked():
                    found.attacked["looks with a block of noise"] += 1
                case Chosen():
                    found.attacked["choices"] += 1
                case Compared(answer=answer):
                    found.attacked["positive comparisons" if answer else "negative comparisons"] += 1
