"""All applicable mechanisms on one public stream, and which of them to take.

Choosing a mechanism by its error on private data tells something about those data that no budget pays for. So the
stream must be public: older published counts, a synthetic one, another city's. The caller declares it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from veilstream.data.measures import ValueMeasures
from veilstream.errors import InvalidInputError, VeilstreamError
from veilstream.evaluate.measured import check_single, errors_of_statistic, movement_on_grid
from veilstream.evaluate.metrics import average_relative_error, mean_absolute_error
from veilstream.evaluate.queries import RangeSums, random_ranges
from veilstream.evaluate.runner import Measurement, Measures, Progress, run_measurements
from veilstream.evaluate.summary import summary
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import STREAMS
from veilstream.mechanisms.traits import HasVariants, Traits
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import Exact
from veilstream.release.sinks import replacing
from veilstream.testing.simulation import simulate

METRICS: Final = ("absolute", "relative", "ranges")
QUERIES: Final = 200
REFUSAL: Final = (
    "not declared public: to choose a mechanism by its error on private data is itself a leak, which no budget pays "
    "for. Compare on older published counts, on a synthetic stream or on somebody else's public one, and declare it "
    "({how})"
)
LEAST_BINS: Final = 4
"""With fewer bins no histogram has anything to gain from their order."""
SIMPLE_ENOUGH: Final = 1.02
"""A simpler mechanism within this factor of the best is the better advice."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``table`` is tidy (a row for each run and metric); ``ranking`` has one row for each mechanism and epsilon."""

    table: pl.DataFrame
    ranking: pl.DataFrame
    recommended: str
    mechanism: StreamMechanism[Any]
    reason: str


def compare(
    counts: ArrayLike,
    epsilons: Sequence[Exact],
    w: int | None,
    *,
    declared_public: bool,
    directory: str | Path,
    shape: Sequence[int] | None = None,
    sums: int | None = None,
    per_person: int = 1,
    measures: ValueMeasures | None = None,
    smooth: bool = True,
    runs: int = 5,
    metric: str = "absolute",
    mechanisms: Sequence[str] | None = None,
    histograms: Sequence[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Simulate every applicable mechanism on public ``counts`` (steps × bins) ``runs`` times at each epsilon.

    Then the best of them is simulated with every histogram that applies, or with those that are named (none for an
    empty sequence). ``sums`` asks for the sums of as many last units instead of the counts of each step. Results are
    recorded below ``directory``: the same call goes on where it was interrupted. With ``measures`` the ``counts`` are
    the parts of one statistic (``veilstream.data.public``), ``per_person`` is a number of rows, and errors are those
    of the statistic; quantiles lean on earlier releases as ``publish`` has them, unless ``smooth`` is false.

    >>> import tempfile
    >>> calm = np.full((40, 8), 500)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     advice = compare(calm, ["1/10", 1], 20, declared_public=True, directory=directory, runs=2, workers=1,
    ...                      mechanisms=["uniform", "sample", "dsat"], histograms=[])
    >>> advice.recommended, advice.ranking.columns
    ('sample', ['mechanism', 'epsilon', 'absolute', 'low', 'high', 'times the best', 'fresh'])
    """
    if not declared_public:
        raise InvalidInputError("counts: " + REFUSAL.format(how="declared_public=True"), outcome="nothing was read")
    if metric not in METRICS:
        raise InvalidInputError(name="metric", value=metric, limit=f"choose from {', '.join(METRICS)}")
    if measures is not None:
        check_single(measures, metric)
    if runs < 1:
        raise InvalidInputError(name="runs", value=runs, limit="at least 1 is needed")
    stream = _checked(counts)
    guarantees = [Guarantee(epsilon, w) for epsilon in epsilons]
    if not guarantees:
        raise InvalidInputError("epsilon: at least one is needed")
    contenders = candidates(guarantees, *stream.shape, sums=sums, names=mechanisms)
    store = _store(stream, tuple(shape or (stream.shape[1],)), Path(directory))

    def measured(chosen: Mapping[str, StreamMechanism[Any]]) -> pl.DataFrame:
        measurements = [
            Measurement(
                {"mechanism": name, "epsilon": float(guarantee.epsilon), "w": w, "seed": seed},
                _trial,
                (mechanism, guarantee, store, seed, per_person, sums, measures, smooth),
            )
            for guarantee in guarantees
            for seed in range(runs)
            for name, mechanism in chosen.items()
        ]
        return run_measurements(measurements, directory, workers=workers, progress=progress)

    table = measured(contenders)
    name, reason = _advice(_ranking(table, metric), list(contenders), metric)
    variants = {}
    if measures is None:
        variants = histogram_variants(name, contenders[name], guarantees, store.shape, histograms)
    if variants:
        contenders |= variants
        table = measured(contenders)
        name, reason = _advice(_ranking(table, metric), list(contenders), metric)
    return Comparison(table, _ranking(table, metric), name, contenders[name], reason)


def candidates(
    guarantees: Sequence[Guarantee],
    steps: int,
    bins: int,
    *,
    sums: int | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, StreamMechanism[Any]]:
    """Mechanisms that can run under all ``guarantees``, simplest first; fixed rates at several intervals.

    >>> list(candidates([Guarantee(1, w=8)], 100, 3))[:4]
    ['uniform', 'sample', 'fixed-rate interval=2', 'fixed-rate interval=4']
    >>> list(candidates([Guarantee(1, w=1)], 100, 3, sums=10))
    ['time-unit', 'sliding-window', 'retroactive-grouping', 'moving-sum']
    """
    unknown = sorted(set(names or ()) - STREAMS.keys())
    if unknown:
        raise InvalidInputError(name="mechanism", value=unknown[0], limit=f"choose from {', '.join(STREAMS)}")
    window = guarantees[0].w
    applicable: dict[str, StreamMechanism[Any]] = {}
    for name, kind in STREAMS.items():
        traits = Traits.of(kind)
        other = traits.window_sums != (sums is not None) or traits.cumulative
        if other or traits.needs_weights or (names and name not in names):
            continue
        settings = _settings(kind, steps if window is None else None, sums)
        variants: list[dict[str, Any]] = kind.variants(window or steps) if issubclass(kind, HasVariants) else [{}]
        for variant in variants:
            mechanism = kind(**settings, **variant)
            if _runs(mechanism, guarantees, bins):
                label = " ".join([name, *(f"{parameter}={value}" for parameter, value in variant.items())])
                applicable[label] = mechanism
    if not applicable:
        raise InvalidInputError(f"{guarantees[0]}: no mechanism that was asked for can run on it")
    return applicable


def histogram_variants(
    name: str,
    mechanism: StreamMechanism[Any],
    guarantees: Sequence[Guarantee],
    shape: tuple[int, ...],
    histograms: Sequence[str] | None = None,
) -> dict[str, StreamMechanism[Any]]:
    """The mechanism with other histograms that can release counts of this shape under all ``guarantees``.

    >>> list(histogram_variants("uniform", STREAMS["uniform"](), [Guarantee(1, w=4)], (16,), ["efpa", "gaussian"]))
    ['uniform histogram=efpa']
    """
    unknown = sorted(set(histograms or ()) - HISTOGRAMS.keys())
    if unknown:
        raise InvalidInputError(name="histogram", value=unknown[0], limit=f"choose from {', '.join(HISTOGRAMS)}")
    if "histogram" not in signature(type(mechanism)).parameters or math.prod(shape) < LEAST_BINS:
        return {}
    chosen = cast("Any", mechanism)
    known = {key: kind for key, kind in HISTOGRAMS.items() if histograms is None or key in histograms}
    made = {
        f"{name} histogram={key}": dataclasses.replace(chosen, histogram=kind())
        for key, kind in known.items()
        if not isinstance(chosen.histogram, kind)
    }
    return {label: variant for label, variant in made.items() if _releases(variant, guarantees, shape)}


def _releases(mechanism: StreamMechanism[Any], guarantees: Sequence[Guarantee], shape: tuple[int, ...]) -> bool:
    """Whether a first release of zeros works."""
    zeros = np.zeros((1, math.prod(shape)), dtype=np.int64)
    try:
        for guarantee in guarantees:
            simulate(mechanism, guarantee, zeros, 0, shape=shape)
    except VeilstreamError:
        return False
    return True


def _settings(kind: type[Any], horizon: int | None, sums: int | None) -> dict[str, Any]:
    fields = {field.name for field in dataclasses.fields(kind)}
    wanted = {"horizon": horizon, "window": sums}
    return {name: value for name, value in wanted.items() if name in fields and value is not None}


def _runs(mechanism: StreamMechanism[Any], guarantees: Sequence[Guarantee], bins: int) -> bool:
    try:
        for guarantee in guarantees:
            mechanism.start(guarantee, bins)
    except InvalidInputError:
        return False
    return True


def _checked(counts: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(counts)
    if array.ndim != 2 or array.size == 0:
        raise InvalidInputError(f"counts of shape {array.shape}: steps × bins is needed")
    integers = array.astype(np.int64)
    if not np.array_equal(integers, array) or (integers < 0).any():
        raise InvalidInputError("counts: whole numbers from 0 are needed")
    return integers


@dataclass(frozen=True, slots=True)
class _Store:
    """Public counts in a file that all processes read; the digest tells other counts from these."""

    path: Path
    shape: tuple[int, ...]
    digest: str

    def __repr__(self) -> str:
        return f"{self.digest} {self.shape}"

    def load(self) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = np.load(self.path, mmap_mode="r")
        return counts


def _store(counts: NDArray[np.int64], shape: tuple[int, ...], directory: Path) -> _Store:
    digest = hashlib.blake2b(np.ascontiguousarray(counts).tobytes(), digest_size=16).hexdigest()
    path = directory / "counts.npy"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(name="output", value=directory, limit=f"{error.strerror}") from None
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, counts)
    return _Store(path, shape, digest)


def _trial(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    store: _Store,
    seed: int,
    per_person: int,
    sums: int | None,
    measures: ValueMeasures | None,
    smooth: bool,
) -> Measures:
    counts = store.load()
    if measures is not None:
        moved = movement_on_grid(measures, per_person)
        found = simulate(mechanism, guarantee, counts, seed, max_contribution=moved, shape=store.shape)
        return errors_of_statistic(measures, found, counts, smooth and Traits.of(mechanism).single_steps)
    released = simulate(mechanism, guarantee, counts, seed, max_contribution=per_person, shape=store.shape)
    given, exact = np.asarray(released), _wanted(counts, sums)
    ranges = random_ranges(store.shape, QUERIES, seed)
    gaps = (np.abs(RangeSums(gap, store.shape).answer(ranges)).mean() for gap in given - exact)
    return {
        "absolute": mean_absolute_error(given, exact),
        "relative": average_relative_error(given, exact, max(1.0, 0.001 * float(exact.sum(axis=1).mean()))),
        "ranges": float(np.mean(list(gaps))),
        "fresh": float(released.fresh.mean()),
    }


def _wanted(counts: NDArray[np.int64], sums: int | None) -> NDArray[np.float64]:
    if sums is None:
        return counts.astype(np.float64)
    running = np.cumsum(counts, axis=0, dtype=np.float64)
    running[sums:] -= running[:-sums].copy()
    return running


def _ranking(table: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Mean and 95 % interval of the mean for each mechanism and epsilon, best first."""
    keys = ["mechanism", "epsilon"]
    fresh = summary(table, keys, "fresh").select(*keys, pl.col("mean").alias("fresh"))
    means = summary(table, keys, metric).rename({"mean": metric}).join(fresh, on=keys)
    least = pl.col(metric).min().over("epsilon")
    ranked = means.with_columns(
        (pl.col(metric) / pl.when(least > 0).then(least).otherwise(1.0)).alias("times the best")
    )
    columns = ["mechanism", "epsilon", metric, "low", "high", "times the best", "fresh"]
    return ranked.sort("epsilon", metric).select(columns)


def _advice(ranking: pl.DataFrame, order: Sequence[str], metric: str) -> tuple[str, str]:
    """The simplest mechanism whose mean ratio to the best over all epsilons is within two per cent of the least."""
    ratios = ranking.group_by("mechanism").agg(pl.col("times the best").log().mean().exp().alias("ratio"))
    ratio_of: Mapping[str, float] = dict(ratios.select("mechanism", "ratio").rows())
    least = min(ratio_of.values())
    name = next(name for name in order if ratio_of[name] <= SIMPLE_ENOUGH * least)
    wins = ranking.filter(pl.col("mechanism") == name)
    worst = wins.sort("times the best").row(-1, named=True)
    return name, (
        f"its {metric} error is {ratio_of[name]:.3g} times the best's in the geometric mean over all epsilons, at most "
        f"{worst['times the best']:.3g} times (at epsilon {worst['epsilon']:g}); of those within 2 % of the least it "
        "is the simplest"
    )
