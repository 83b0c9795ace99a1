"""Mechanisms × guarantees × workloads × seeds, as jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInput
from veilstream.evaluate.runner import Job, Measures
from veilstream.evaluate.workloads import Workload, as_array
from veilstream.guarantee import Guarantee
from veilstream.mechanism import StreamMechanism
from veilstream.simulation import simulate

Reals: TypeAlias = NDArray[np.float64]
Metric: TypeAlias = Callable[[Reals, Reals], float]
"""(released, original), both steps × bins; a function of a module, or a dataclass that can be called."""


def stream_jobs(
    mechanisms: Mapping[str, StreamMechanism[Any]],
    guarantees: Sequence[Guarantee],
    workloads: Mapping[str, Workload],
    seeds: Sequence[int],
    metrics: Mapping[str, Metric],
    **labels: str | float,
) -> list[Job]:
    """One job for every combination; a seed draws both the workload and the noise.

    >>> import veilstream as vs
    >>> from veilstream.evaluate.metrics import mean_absolute_error
    >>> from veilstream.evaluate.workloads import Zipf
    >>> jobs = stream_jobs(
    ...     {name: vs.STREAMS[name]() for name in ("uniform", "sample")},
    ...     [vs.Guarantee(1, w=5)],
    ...     {"zipf": Zipf(steps=10)},
    ...     range(3),
    ...     {"mae": mean_absolute_error},
    ... )
    >>> len(jobs), jobs[0].labels
    (6, {'mechanism': 'uniform', 'epsilon': 1.0, 'w': 5, 'workload': 'zipf', 'seed': 0})
    """
    jobs = [
        Job(
            {
                "mechanism": name,
                "epsilon": float(guarantee.epsilon),
                "w": guarantee.w,
                "workload": place,
                "seed": seed,
                **labels,
            },
            stream_trial,
            (mechanism, guarantee, workload, seed, tuple(metrics.items())),
        )
        for place, workload in workloads.items()
        for seed in seeds
        for guarantee in guarantees
        for name, mechanism in mechanisms.items()
    ]
    if not jobs:
        raise InvalidInput("0 jobs: name a mechanism, a guarantee, a workload and a seed at least; nothing was run")
    return jobs


def stream_trial(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    workload: Workload,
    seed: int,
    metrics: Sequence[tuple[str, Metric]],
) -> Measures:
    """One simulated stream, measured; ``fresh`` is the share of steps that released anew."""
    original = _snapshots(repr(workload), seed, workload)
    released = simulate(mechanism, guarantee, original, seed)
    exact, given = original.astype(np.float64), np.asarray(released)
    return {name: metric(given, exact) for name, metric in metrics} | {"fresh": float(released.fresh.mean())}


class _Keyed:
    """A workload that compares by its parameters: some hold arrays."""

    def __init__(self, name: str, workload: Workload) -> None:
        self.name, self.workload = name, workload

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and other.name == self.name


@lru_cache(maxsize=2)
def _kept(keyed: _Keyed, seed: int) -> NDArray[np.int64]:
    return as_array(keyed.workload, seed)


def _snapshots(name: str, seed: int, workload: Workload) -> NDArray[np.int64]:
    """Jobs of one workload and seed follow each other: it is generated once for all of them."""
    return _kept(_Keyed(name, workload), seed)
