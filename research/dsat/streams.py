"""The streams and mechanisms that the figures of the DSAT paper share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from research.figure import Setting
from research.grid import ErrorMetric, stream_measurements
from research.range_error import RangeError
from research.workloads import Census, First, TaxiGrid, Workload
from research.workloads.census import SHAPE, synthetic_population
from veilstream.evaluate.runner import Measurement
from veilstream.mechanisms.protocols import HistogramMechanism, StreamMechanism
from veilstream.mechanisms.streams import DSAT, FixedRate
from veilstream.privacy.guarantee import Guarantee

ERROR: Final = "range error"
RELEASES: Final = 5
TAXIS: Final = "tdrive_beijing_2008-02-02_16h.parquet"
ORDER: Final = ("fixed", "dsat", "fixed-true", "dsat-true", "baseline", "dsat with PSD", "fixed with PSD")
AXIS: Final = "mean absolute error of ranges"
STREAM: Final = (
    "the census stream (500 steps, 500,000 people, 27,648 bins; two draws of it, shared by six runs), 5,000 random "
    "ranges, ε = 1 for a whole person"
)
TRUE: Final = (
    "The curves named -true keep the steps at which the private version released and put the exact histogram there: "
    "what remains is the age of the releases"
)
WHY: Final = (
    "All newcomers of this stream come from the same population, so that after a few steps every earlier histogram is "
    "about equally far from the present one, whatever the schedule: there is nothing to adapt to. What has changed is "
    "far above the threshold at every decision; DSAT releases as soon as its spacing allows, at three quarters of an "
    "even pace, and has no release left for the last part of the stream"
)


def census(setting: Setting, dimensions: int = 6, **changes: Any) -> Census:
    """The paper's stream over its first ``dimensions`` attributes; small: fewer steps and people."""
    size: dict[str, Any] = {"steps": 60, "people": 20_000, "size": 60_000} if setting.small else {}
    if dimensions == len(SHAPE):
        return Census(**{**size, **changes})
    people = size.pop("size", 3_000_000)
    margin = synthetic_population().reshape(SHAPE).sum(axis=tuple(range(dimensions, len(SHAPE))))
    population = np.rint(margin.reshape(-1) * people).astype(np.int64)
    return Census(population=population, shape=SHAPE[:dimensions], **{**size, **changes})


def taxis(setting: Setting) -> Workload:
    """Beijing's taxis, a step every 20 seconds."""
    return First(TaxiGrid(setting.file(TAXIS), every="20s", amplify=12), 24 if setting.small else 168)


def contenders(
    steps: int, histogram: HistogramMechanism | None = None, name: str = ""
) -> dict[str, StreamMechanism[Any]]:
    """DSAT and the fixed rate with as many releases."""
    chosen: dict[str, Any] = {} if histogram is None else {"histogram": histogram}
    return {
        f"fixed{name}": FixedRate(interval=-(-steps // RELEASES), horizon=steps, **chosen),
        f"dsat{name}": DSAT(releases=RELEASES, horizon=steps, **chosen),
    }


def measurements_of(
    setting: Setting,
    mechanisms: Mapping[str, StreamMechanism[Any]],
    workload: Workload,
    epsilons: Sequence[str] = ("1",),
    metrics: Mapping[str, ErrorMetric] | None = None,
    **labels: str | float,
) -> list[Measurement]:
    """Measurements at user level with their exact twins."""
    return stream_measurements(
        mechanisms,
        [Guarantee(epsilon, w=None) for epsilon in epsilons],
        {"stream": workload},
        range(2 if setting.small else 6),
        metrics or {ERROR: RangeError(workload.shape, 200 if setting.small else 5000)},
        twins=True,
        realisations=1 if setting.small else 2,
        **labels,
    )
