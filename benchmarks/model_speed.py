"""Time and memory of the model-based release."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)

import veilstream as vs
from benchmarks.report import Table
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.session import StreamSession
from veilstream.mechanisms.streams import Fast, ModelBased, Uniform
from veilstream.noise import ExactSampler
from veilstream.storage.codec import encode
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal


def speed(quick: bool) -> Table:
    """Processor time per bin and step after the first two steps, the longest step, and the size of a state."""
    pure, slack = vs.Guarantee(1, w=40), vs.Guarantee(1, w=40, delta="1e-6")
    bins = 20_000 if quick else 100_000
    cases: list[tuple[str, StreamMechanism[Any], vs.Guarantee, int]] = [
        ("uniform", Uniform(), pure, bins),
        ("fast", Fast(), pure, bins),
        ("model", ModelBased(), pure, bins),
        ("model, safe", ModelBased(safe=True), pure, bins),
        ("model, δ", ModelBased(), slack, bins),
        ("model, period 7", ModelBased(periods=(7,)), pure, bins),
    ]
    if not quick:
        cases.append(("model, safe", ModelBased(safe=True), pure, 1_000_000))
    rows: list[list[str]] = []
    peer = 0.0
    for name, mechanism, guarantee, size in cases:
        spent, longest, kept = _measured(mechanism, guarantee, size, 3 if size > bins else 6)
        peer = peer or spent
        floats = f"{kept / size:.0f}"
        rows.append(
            [
                name,
                f"{size:,}",
                f"{spent / size * 1e6:.2f}",
                f"{spent / peer * bins / size:.1f}",
                f"{longest:.1f}",
                floats,
            ]
        )
    return Table(
        "Speed",
        "Processor time, w = 40, counts around 100.",
        ["mechanism", "bins", "µs per bin and step", "to Uniform", "longest step, s", "numbers of state per bin"],
        rows,
    )


def _measured(
    mechanism: StreamMechanism[Any], guarantee: vs.Guarantee, bins: int, steps: int
) -> tuple[float, float, float]:
    counts = default_rng(1).poisson(np.exp(default_rng(2).normal(4, 1, bins)), (steps, bins))
    session = StreamSession(mechanism, guarantee, bins, ExactSampler(SeededSource(1)))
    times: list[float] = []
    for t in range(steps):
        begun = time.process_time()
        session.step(seal(counts[t], t), t)
        times.append(time.process_time() - begun)
    encoded = encode(session.state)
    return float(np.mean(times[2:])), max(times), sum(array.nbytes for array in encoded.arrays) / 8
