"""The series and methods that the figures of the FAST paper share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from research.datasets import DATASETS, dataset
from research.figure import Setting
from research.grid import ErrorMetric, drawn_once, stream_measurements
from research.workloads import series as series_workloads
from veilstream.evaluate.metrics import average_relative_error, outbreak_f1, rank_correlation
from veilstream.evaluate.runner import Measurement, Measures
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import Fast, Uniform
from veilstream.mechanisms.streams.fast import Filter
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.series.fourier import FourierSeries
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

ERROR, F1, RANK = "average relative error", "F1 of outbreaks", "rank correlation"
METRICS: Final[dict[str, ErrorMetric]] = {ERROR: average_relative_error, F1: outbreak_f1, RANK: rank_correlation}
MADE: Final = {
    "linear": series_workloads.linear,
    "logistic": series_workloads.logistic,
    "sinusoidal": series_workloads.sinusoidal,
}
REAL: Final = {"flu": "flu-5-24", "traffic": "bicycles-daily", "unemploy": "unemployment-women-16-19"}
LONGEST: Final = {"traffic": 540}
NEEDS: Final = tuple(file for file in (DATASETS[name].file for name in REAL.values()) if file is not None)
RUNS: Final = 5
LEAST_DFT: Final = Fraction(1, 1000)
"""Below it, the noise of the coefficients is wider than the sampler goes."""
CURVES: Final = ("LPA", "DFT, offline", "KF+PID", "PF+PID")
LINEAR: Final = "one linear series of 1,000 steps (a random walk with Q = 10⁵ from 20,000, which the paper leaves open)"
SIX: Final = (
    "three synthetic series of 1,000 steps (the sinusoid raised by 10,000, as counts are not negative), influenza (the "
    "paper's 209 weeks), bicycles per day over a bridge in Seattle (540 days, for the paper's traffic in Seattle), "
    "unemployed women of 16 to 19 in thousands (408 months, for the paper's African American women of that age)"
)


@dataclass(frozen=True, slots=True)
class Series:
    """One of the paper's six series, or what comes nearest to it."""

    name: str
    steps: int
    directory: str | None = None
    shape: tuple[int, ...] = (1,)

    def snapshots(self, seed: int) -> Iterator[NDArray[np.int64]]:
        if self.name in MADE:
            return iter(MADE[self.name](seed + 1, self.steps))
        return iter(dataset(REAL[self.name], self.directory)[: self.steps])

    @property
    def variance(self) -> float | None:
        """Q where it is known: the synthetic series are made with it."""
        return series_workloads.PROCESS_VARIANCE if self.name in MADE else None


def series(setting: Setting, name: str = "linear") -> Series:
    """As long as in the paper; small: a few steps of it."""
    if name in MADE:
        return Series(name, 150 if setting.small else series_workloads.STEPS)
    counts = dataset(REAL[name], setting.data)[: LONGEST.get(name)]
    return Series(name, 100 if setting.small else len(counts), str(setting.data))


def all_series(setting: Setting) -> list[Series]:
    """All six."""
    return [series(setting, name) for name in (*MADE, *REAL)]


def fast(of: Series, kind: Filter, **changes: Any) -> Fast:
    """FAST at user level over the whole series, with the paper's number of looks."""
    given: dict[str, Any] = {"samples": None, "horizon": of.steps, "filter": kind, "process_variance": of.variance}
    return Fast(**(given | changes))


def every_step(of: Series) -> dict[str, StreamMechanism[Any]]:
    """Both filters with a look at every step."""
    return {
        "Kalman": fast(of, Filter.KALMAN, samples=of.steps),
        "particle": fast(of, Filter.PARTICLE, samples=of.steps),
    }


def measurements_of(
    setting: Setting,
    mechanisms: Mapping[str, StreamMechanism[Any]],
    of: Series,
    alphas: Sequence[str] = ("1",),
    **labels: str | float,
) -> list[Measurement]:
    """Every run has its own noise and the same series."""
    return stream_measurements(
        mechanisms,
        [Guarantee(alpha, w=None) for alpha in alphas],
        {of.name: of},
        range(2 if setting.small else RUNS),
        METRICS,
        twins=False,
        realisations=1,
        **labels,
    )


def comparison(setting: Setting, of: Series, alphas: Sequence[str]) -> list[Measurement]:
    """LPA, the offline DFT and FAST with both filters."""
    measurements = measurements_of(
        setting,
        {
            "LPA": Uniform(horizon=of.steps),
            "KF+PID": fast(of, Filter.KALMAN),
            "PF+PID": fast(of, Filter.PARTICLE),
        },
        of,
        alphas,
    )
    return measurements + [
        Measurement(
            {
                "mechanism": "DFT, offline",
                "epsilon": float(Fraction(alpha)),
                "w": None,
                "workload": of.name,
                "seed": seed,
            },
            fourier_trial,
            (of, alpha, seed),
        )
        for seed in range(2 if setting.small else RUNS)
        for alpha in alphas
        if Fraction(alpha) >= LEAST_DFT
    ]


def fourier_trial(of: Series, alpha: str, seed: int) -> Measures:
    """The whole series at once by its twenty lowest frequencies."""
    counts, exact = drawn_once(of, 0)
    guarantee = Guarantee(alpha, w=None)
    meter = Meter(Accountant(guarantee, 1), ExactSampler(SeededSource((17, seed))), len(counts) - 1)
    steps = [seal(row, t) for t, row in enumerate(counts)]
    released = np.asarray(FourierSeries().estimate(steps, guarantee.epsilon, meter).numbers, dtype=np.float64)
    return {name: metric(released, exact) for name, metric in METRICS.items()}
