"""Streams, mechanisms and measurements of the experiments on retroactive grouping."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from research.datasets import dataset
from research.figure import Setting
from research.workloads import StationVisits, WebRequests, Workload
from veilstream.evaluate.runner import Label, Measurement, Measures
from veilstream.mechanisms.protocols import StreamMechanism, accountant_for
from veilstream.mechanisms.streams import BudgetAbsorption, Fast, RetroactiveGrouping, TimeUnit
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

REQUESTS: Final = "worldcup98_requests_per_minute.csv.gz"
AVERAGE, TOTAL, RUNTIME = "average SSE", "total SSE", "ms per publication"
CURVES: Final = ("RG", "RG as printed", "Baseline", "BA", "FAST")
WORLD_CUP, TRAFFIC = "World Cup", "Traffic"
URLS: Final = 8_876
EVENTS_SHARE: Final = 10
STEPS: Final = {WORLD_CUP: 528, TRAFFIC: 504}


def stream(setting: Setting, name: str, steps: int, events: float = 1.0, bins: float = 1.0) -> Workload:
    """One of the paper's two streams, with a share of its ``events`` or ``bins``; small: a hundredth of the pages."""
    if name == TRAFFIC:
        visits = round((8_107_643 if not setting.small else 800_000) * events * bins)
        return StationVisits(steps, stations=max(1, round(342 * bins)), visits=visits)
    per_minute = dataset("web-requests", setting.data)
    less = EVENTS_SHARE * (10 if setting.small else 1)
    urls = max(1, round(URLS / (10 if setting.small else 1) * bins))
    return WebRequests.cut((per_minute * (events * bins / less)).astype(np.int64), steps, urls)


def mechanisms(window: int, bins: int) -> dict[str, tuple[StreamMechanism[Any], bool]]:
    """Each with whether it publishes units, of which the windows are then sums."""
    printed = RetroactiveGrouping(window=window, revise=False, monitor="1/10", factor=2, tail=1)
    return {
        "RG": (RetroactiveGrouping(window=window), False),
        "RG as printed": (printed, False),
        "Baseline": (TimeUnit(window=window), False),
        "BA": (BudgetAbsorption(columns=bins), True),
        "FAST": (Fast(samples=1), True),
    }


def measurements_for(
    setting: Setting,
    name: str,
    steps: int,
    epsilon: str = "1/10",
    window: int = 15,
    events: float = 1.0,
    bins: float = 1.0,
    runs: int = 2,
) -> list[Measurement]:
    """All mechanisms on one stream; ``seed`` draws both the stream and the noise."""
    workload = stream(setting, name, steps, events, bins)
    labels: dict[str, Label] = {
        "stream": name,
        "steps": steps,
        "epsilon": float(Guarantee(epsilon, w=1).epsilon),
        "window": window,
        "events": events,
        "bins": bins,
    }
    return [
        Measurement(
            {"mechanism": curve, **labels, "seed": seed}, trial, (mechanism, epsilon, workload, seed, window, units)
        )
        for seed in range(runs)
        for curve, (mechanism, units) in mechanisms(window, workload.shape[0]).items()
    ]


def trial(
    mechanism: StreamMechanism[Any], epsilon: str, workload: Workload, seed: int, window: int, units: bool
) -> Measures:
    """One stream at event level: squared errors of all windows, and median processor time of a publication."""
    guarantee, bins = Guarantee(epsilon, w=1), workload.shape[0]
    accountant, noise = accountant_for(mechanism, guarantee, bins), ExactSampler(SeededSource((2015, seed)))
    state = mechanism.start(guarantee, bins)
    truth, published = _Window(window, bins), _Window(window, bins)
    squares = 0.0
    seconds: list[float] = []
    for t, counts in enumerate(workload.snapshots(seed)):
        truth.add(counts)
        begin = time.thread_time()
        state, values = mechanism.step(state, seal(counts, t), Meter(accountant, noise, t))
        if units:
            published.add(values.numbers)
        seconds.append(time.thread_time() - begin)
        released = published.total if units else values.numbers
        squares += float(np.square(released - truth.total).sum())
    return {AVERAGE: squares / len(seconds), TOTAL: squares, RUNTIME: 1e3 * float(np.median(seconds))}


class _Window:
    """The sum of the last units."""

    def __init__(self, length: int, bins: int) -> None:
        self.total: NDArray[np.float64] = np.zeros(bins)
        self._units: deque[NDArray[Any]] = deque()
        self._length = length

    def add(self, unit: NDArray[Any]) -> None:
        self._units.append(unit)
        self.total += unit
        if len(self._units) > self._length:
            self.total -= self._units.popleft()
