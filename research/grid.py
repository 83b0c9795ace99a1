"""Measurements of mechanisms × guarantees × workloads × seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from research.workloads import Workload, as_array
from veilstream.errors import InvalidInputError
from veilstream.evaluate.runner import Measurement, Measures
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import simulate

Reals: TypeAlias = NDArray[np.float64]
ErrorMetric: TypeAlias = Callable[[Reals, Reals], float]
"""(released, original), both steps × bins; a function of a module, or a dataclass that can be called."""


def stream_measurements(
    mechanisms: Mapping[str, StreamMechanism[Any]],
    guarantees: Sequence[Guarantee],
    workloads: Mapping[str, Workload],
    seeds: Sequence[int],
    metrics: Mapping[str, ErrorMetric],
    *,
    twins: bool = False,
    realisations: int | None = None,
    **labels: str | float,
) -> list[Measurement]:
    """One measurement for every combination; a seed draws both the workload and the noise.

    With ``realisations`` = n there are only n different draws of each workload, which the seeds share in turn: for
    workloads that take longer to make than to publish. With ``twins`` every metric is also taken of the exact twin
    (see ``exact_twin``), as "metric (exact)".

    >>> import veilstream as vs
    >>> from veilstream.evaluate.metrics import mean_absolute_error
    >>> from research.workloads import Zipf
    >>> measurements = stream_measurements(
    ...     {name: vs.STREAMS[name]() for name in ("uniform", "sample")},
    ...     [vs.Guarantee(1, w=5)],
    ...     {"zipf": Zipf(steps=10)},
    ...     range(3),
    ...     {"mae": mean_absolute_error},
    ... )
    >>> len(measurements), measurements[0].labels
    (6, {'mechanism': 'uniform', 'epsilon': 1.0, 'w': 5, 'workload': 'zipf', 'seed': 0})
    """
    measurements = [
        Measurement(
            {
                "mechanism": name,
                "epsilon": float(guarantee.epsilon),
                "w": guarantee.w,
                "workload": stream,
                "seed": seed,
                **labels,
            },
            stream_trial,
            (mechanism, guarantee, workload, drawn, seed, tuple(metrics.items()), twins),
        )
        for stream, workload in workloads.items()
        for drawn, seed in sorted((seed % realisations if realisations else seed, seed) for seed in seeds)
        for guarantee in guarantees
        for name, mechanism in mechanisms.items()
    ]
    if not measurements:
        raise InvalidInputError("0 measurements: name a mechanism, a guarantee, a workload and a seed at least")
    return measurements


def stream_trial(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    workload: Workload,
    drawn: int,
    seed: int,
    metrics: Sequence[tuple[str, ErrorMetric]],
    twins: bool = False,
) -> Measures:
    """One simulated stream, measured; ``fresh`` is the share of steps that released anew.

    ``drawn`` is the seed of the workload, ``seed`` that of the noise.
    """
    counts, exact = drawn_once(workload, drawn)
    released = simulate(mechanism, guarantee, counts, seed, shape=workload.shape)
    measures = {name: metric(np.asarray(released), exact) for name, metric in metrics}
    if twins:
        twin = exact_twin(released.fresh, exact)
        measures |= {exactly(name): metric(twin, exact) for name, metric in metrics}
    return measures | {"fresh": float(released.fresh.mean())}


def exact_twin(fresh: NDArray[np.bool_], original: Reals) -> Reals:
    """The stream as if every fresh release had been exact and was repeated until the next: no noise, only age.

    >>> exact_twin(np.array([True, False, True]), np.array([[1.0], [2.0], [3.0]])).ravel().tolist()
    [1.0, 1.0, 3.0]
    """
    last: NDArray[np.int64] = np.maximum.accumulate(np.where(fresh, np.arange(len(fresh)), 0))
    return original[last]


def exactly(metric: str) -> str:
    """The name of a metric of the exact twin."""
    return f"{metric} (exact)"


def drawn_once(workload: Workload, seed: int) -> tuple[NDArray[np.int64], Reals]:
    """The snapshots of a workload, steps × bins, as integers and as floats, both read-only.

    Measurements of one workload and seed follow each other: the last two stay in memory for them.
    """
    return _draw(_ByName(repr(workload), workload), seed)


class _ByName:
    """A workload that compares by its parameters: some hold arrays."""

    def __init__(self, name: str, workload: Workload) -> None:
        self.name, self.workload = name, workload

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByName) and other.name == self.name


@lru_cache(maxsize=2)
def _draw(keyed: _ByName, seed: int) -> tuple[NDArray[np.int64], Reals]:
    counts = as_array(keyed.workload, seed)
    exact = counts.astype(np.float64)
    for array in (counts, exact):
        array.flags.writeable = False
    return counts, exact
