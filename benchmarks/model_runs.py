"""Runs of a mechanism over a stream side by side: those that have decided alike share every call of its code."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.forks import Tape
from veilstream.mechanisms.protocols import StreamMechanism, accountant_for
from veilstream.mechanisms.streams import ModelBased
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import Disagreement, ForkingMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.counts import seal
from veilstream.values.revision import Revision
from veilstream.values.values import Values, half_width

Rows = NDArray[np.int64]
SHARED: Final = "profile_variance"
"""The one array of a model's state with more than one axis that all runs share."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Values and half widths of their 95 % intervals, and looks: steps × runs, × bins; revisions of each run."""

    values: NDArray[np.float64]
    widths: NDArray[np.float64]
    looked: NDArray[np.bool_]
    revised: NDArray[np.float64]
    """The oldest revision of each step; not a number where there was none."""


@dataclass(slots=True)
class _Group:
    """Runs that have decided alike so far."""

    runs: Rows
    state: Any
    accountant: Accountant
    charges: list[Sequence[Charge]] = field(default_factory=list[Sequence[Charge]])


@dataclass(frozen=True, slots=True)
class SideBySide:
    """``runs`` runs of a mechanism over counts, steps × bins."""

    mechanism: StreamMechanism[Any]
    guarantee: Guarantee
    counts: NDArray[np.int64]
    runs: int

    def walked(self, seed: int) -> Runs:
        steps, bins = self.counts.shape
        source = ExactSampler(SeededSource(seed))
        everywhere = (steps, self.runs, bins)
        made = Runs(
            np.empty(everywhere),
            np.empty(everywhere),
            np.zeros(everywhere[:2], dtype=np.bool_),
            np.full(everywhere, np.nan),
        )
        groups = [_Group(np.arange(self.runs), self.mechanism.start(self.guarantee, bins), self._account([]))]
        for t in range(steps):
            waiting = [(group, Tape(source)) for group in groups]
            groups = list[_Group]()
            while waiting:
                group, tape = waiting.pop()
                tape.at = 0
                meter = ForkingMeter(group.accountant, tape, t, (group.runs.size,))
                try:
                    state, released = self.mechanism.step(group.state, seal(self.counts[t], t), meter)
                except Disagreement as fork:
                    waiting += [(self._part(group, part), tape.part(part)) for part in fork.parts]
                    continue
                self._noted(made, group.runs, state, t, released)
                made.looked[t, group.runs] = any(charge.purpose != "watch" for charge in meter.charges)
                group.state = state
                group.charges.append(meter.charges)
                groups.append(group)
        return made

    def _noted(self, made: Runs, runs: Rows, state: Any, t: int, released: Values) -> None:
        made.values[t, runs] = released.numbers
        integer = released.numbers.dtype.kind == "i"
        made.widths[t, runs] = half_width(0.95, released.std, released.law, integer=integer)
        if isinstance(self.mechanism, ModelBased) and self.mechanism.revise:
            revisions: list[Revision] = self.mechanism.revisions(state)
            if revisions and revisions[0].version == self.mechanism.revise:
                made.revised[revisions[0].step, runs] = revisions[0].values.numbers

    def _account(self, charges: Sequence[Sequence[Charge]]) -> Accountant:
        accountant = accountant_for(self.mechanism, self.guarantee, self.counts.shape[1])
        for t, step in enumerate(charges):
            accountant.advance(t)
            for charge in step:
                accountant.replay_at(t, charge)
        return accountant

    def _part(self, group: _Group, rows: Rows) -> _Group:
        state = _rows_of(group.state, rows)
        return _Group(group.runs[rows], state, self._account(group.charges), list(group.charges))


def _rows_of(state: Any, rows: Rows) -> Any:
    """Some runs of a model's state: its arrays of more than one axis begin with that of the runs, but for one."""
    if isinstance(state, np.ndarray):
        array = cast(NDArray[Any], state)
        return array[rows] if array.ndim > 1 else array
    if isinstance(state, NoiseBlock):
        return state.of_runs(rows)
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        names = [each.name for each in dataclasses.fields(state) if each.init and each.name != SHARED]
        return replace(state, **{name: _rows_of(getattr(state, name), rows) for name in names})
    if isinstance(state, tuple):
        items = cast(tuple[Any, ...], state)  # type: ignore[redundant-cast]  # pyright knows less here
        return tuple(_rows_of(item, rows) for item in items)
    return state
