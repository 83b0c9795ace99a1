"""A run among many is the run that it would be alone: same draws, same decisions, same charges, same values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.audit import Pair, forks
from veilstream.audit.forks import Asked, answers, forked_outputs
from veilstream.audit.pairs import alternation, border_burst, cliff, constant, follower, moving, ties
from veilstream.audit.pool import PooledNoise
from veilstream.mechanisms.histograms import (
    EFPA,
    HISTOGRAMS,
    PHP,
    PSD,
    DPCube,
    FilterPriority,
    Geometric,
    NoiseFirst,
    StructureFirst,
)
from veilstream.mechanisms.protocols import accountant_for, is_batchable
from veilstream.mechanisms.streams import DSAT, DSFT, STREAMS, BudgetAbsorption, BudgetDistribution, Fast, Sample
from veilstream.mechanisms.traits import Traits
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import ForkingMeter
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

USER = Guarantee(1, w=None)
EVENT = Guarantee(1, w=1)
WINDOW = Guarantee(4, w=3)
HALF = Fraction(1, 2)
RUNS = 80


@dataclass
class Played:
    """Gives a run alone the draws that it had among others."""

    drawn: list[NDArray[np.int64]]

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._next(size)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._next(size)

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        return int(self._next((1,))[0])

    def select_each(
        self, gaps: NDArray[np.int64], sizes: NDArray[np.int64], rate: Fraction, lengths: Any = None, repeats: int = 1
    ) -> NDArray[np.int64]:
        return self._next(sizes.shape)

    def _next(self, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self.drawn.pop(0).copy().reshape(size)


@dataclass
class Account:
    """What forked runs drew and were charged, run by run."""

    drawn: list[list[NDArray[np.int64]]]
    charges: list[list[Sequence[Charge]]]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    found = Account([[] for _ in range(RUNS)], [[] for _ in range(RUNS)])
    latest: list[Asked] = []
    taken = forks._Steps.taken

    def noting(*args: Any) -> Iterator[Any]:
        for asked, answer in answers(*args):
            latest[:] = [asked]
            yield asked, answer

    def noted(self: Any, group: Any, t: int) -> Iterator[tuple[Any, Values]]:
        for part, values in taken(self, group, t):
            for place, run in enumerate(part.rows.tolist()):
                found.drawn[run] += [draw[place] for draw in latest[0].tape.drawn]
                found.charges[run] = part.charges
            yield part, values

    monkeypatch.setattr(forks, "answers", noting)
    monkeypatch.setattr(forks._Steps, "taken", noted)
    return found


def in_table(pair: Pair) -> Pair:
    return Pair(pair.name, pair.others, pair.person, shape=(2, 2))


def follows(bins: int) -> Pair:
    """Distances to the last release that are known to whoever feeds the stream."""
    steps = np.array([[1_000] * bins, [3] * bins, [0] * bins, [-9] * bins, [9] * bins])
    person = np.zeros_like(steps)
    person[1:4, 0] = 1
    return Pair("followed", steps, person, follows=True)


CASES: list[tuple[Any, Guarantee, Pair]] = [
    (DSFT(releases=3, horizon=6, decision_share=HALF, threshold=0), USER, alternation(4, None, steps=6)),
    (DSFT(releases=2, threshold=0, decision_share=HALF, histogram=EFPA()), WINDOW, moving(3, steps=5)),
    (DSAT(releases=2, decision_share=HALF), WINDOW, follower(4, 3, steps=6)),
    (BudgetDistribution(), WINDOW, border_burst(3, steps=6)),
    (BudgetDistribution(columns=2), WINDOW, moving(3, steps=6)),
    (BudgetDistribution(columns=2), WINDOW, follows(2)),
    (BudgetDistribution(columns=2, histogram=PSD()), WINDOW, moving(3, steps=4, bins=4)),
    (BudgetAbsorption(), WINDOW, border_burst(3, steps=6)),
    (BudgetAbsorption(columns=2, horizon=6), USER, moving(None, steps=6)),
    (Fast(samples=4, memory=1, horizon=12, theta=3.0), USER, moving(None, steps=12)),
    (Fast(samples=4, memory=1, hurry=8.0), Guarantee(1, w=12), border_burst(12, steps=24)),
    (Fast(samples=4, memory=1, horizon=12, filter="particle", particles=20), USER, constant(None, steps=12)),  # type: ignore[arg-type]
    (Fast(samples=4, memory=1, horizon=8, histogram=PHP()), USER, constant(None, steps=8, bins=4)),
    (Sample(EFPA()), EVENT, cliff(5)),
    (Sample(EFPA(fallback=True)), EVENT, ties(6)),
    (Sample(PHP()), EVENT, cliff(6)),
    (Sample(StructureFirst(buckets=3)), EVENT, cliff(6)),
    (Sample(NoiseFirst(price=2.0)), EVENT, ties(4)),
    (Sample(PSD()), EVENT, ties(5)),
    (Sample(PSD(kind="kd")), EVENT, in_table(ties(4))),
    (Sample(FilterPriority()), EVENT, ties(4, crowd=6)),
    (Sample(FilterPriority(keep=2, levels=2)), EVENT, in_table(ties(4, crowd=20))),
    (Sample(DPCube()), EVENT, cliff(4)),
    (Sample(DPCube(height=1)), EVENT, in_table(ties(4))),
    *(
        (Sample(make()), Guarantee(1, w=1, delta="1/1000"), in_table(ties(4)))
        for make in HISTOGRAMS.values()
        if is_batchable(make())
    ),
    *((STREAMS[name](), WINDOW, border_burst(3)) for name in ("uniform", "fixed-rate", "time-unit", "sliding-window")),
]


def named(part: Any) -> str:
    return str(getattr(part, "name", part))[:60]


@pytest.mark.parametrize(("mechanism", "guarantee", "pair"), CASES, ids=named)
def test_a_run_among_many_is_the_run_alone(mechanism: Any, guarantee: Guarantee, pair: Pair, account: Account) -> None:
    assert is_batchable(mechanism)
    feed = pair.feed(True)
    values, fresh = forked_outputs(mechanism, guarantee, feed, pair.steps, pair.bins, RUNS, PooledNoise(5))
    if not Traits.of(mechanism).oblivious:
        assert len(np.unique(fresh, axis=0)) > 1
    for run in range(RUNS):
        noise = Played(account.drawn[run])
        accountant, state = accountant_for(mechanism, guarantee, pair.bins), mechanism.start(guarantee, pair.bins)
        published: NDArray[Any] | None = None
        for t in range(pair.steps):
            meter = Meter(accountant, noise, t)
            state, released = mechanism.step(state, feed(t, published), meter)
            published = released.numbers
            np.testing.assert_allclose(values[run, t], published, rtol=1e-12, atol=1e-12)
            assert fresh[run, t] == released.fresh
            assert meter.charges == account.charges[run][t]
        assert not noise.drawn


def test_all_of_the_catalogues_run_together_but_those_that_say_why_not() -> None:
    """Retroactive grouping keeps sealed sums bin by bin, which are not of one run; DAWA and adaptive grids cut the bins
    otherwise in every run, and ``auto`` may choose them."""
    alone = [name for name, make in STREAMS.items() if not is_batchable(make())]
    assert alone == ["retroactive-grouping"]
    assert {name for name, make in HISTOGRAMS.items() if not is_batchable(make())} == {"dawa", "ag", "auto"}


def test_groups_are_cut_by_every_value_of_a_decision() -> None:
    """Each run ends with the runs that decided like it, whatever the group was filled up with."""

    def ask(asked: Asked) -> tuple[int, list[int]]:
        meter = ForkingMeter(Accountant(EVENT, 1), asked.tape, 0, batch=(asked.rows.size,))
        first = int(meter.branch(asked.rows % 5))
        return first, meter.branch(np.stack([asked.rows % 5, asked.rows % 3], axis=-1)).tolist()

    seen = {
        number: answer
        for asked, answer in answers(ask, 100, 80, 64, PooledNoise(1))
        for number in asked.rows[: asked.real].tolist()
    }
    assert seen == {number: (number % 5, [number % 5, number % 3]) for number in range(80)}


def test_few_runs_keep_their_own_states() -> None:
    """As many runs as bins: what is of a run and what is of a bin must not be mistaken for one another."""
    pair = moving(3, steps=6, bins=3)
    mechanism = BudgetDistribution(columns=3)
    values, fresh = forked_outputs(mechanism, WINDOW, pair.feed(True), 6, 3, 3, PooledNoise(9))
    quiet = ~fresh[:, 1:]
    assert quiet.any()
    assert (values[:, 1:][quiet] == values[:, :-1][quiet]).all()
    assert np.unique(values[:, 0], axis=0).shape[0] == 3


def test_a_histogram_that_says_nothing_runs_alone() -> None:
    class Quiet:
        def estimate(self, x: Any, epsilon: Fraction, meter: Meter) -> Values:
            return Geometric().estimate(x, epsilon, meter)

    assert not is_batchable(Sample(Quiet()))
    assert Quiet().estimate(seal(np.array([5]), 0), HALF, Meter(Accountant(EVENT, 1), PooledNoise(1), 0)).fresh
