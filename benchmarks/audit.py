"""Trials of an audit: all runs at once against run after run, and the whole attack."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.report import Table, progress
from veilstream.audit import Pair, attack, stream_claim
from veilstream.audit.pairs import constant, known_threshold
from veilstream.audit.runs import one_by_one, stream_outputs
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import DSAT, DSFT, FixedRate, Sample, Uniform
from veilstream.privacy.guarantee import Guarantee

TRIALS: Final = 10**6
STEPS: Final = 100
CHUNK: Final = 100_000
SINGLE: Final = 20
"""Runs that are made one after the other; their time is scaled up."""

CASES: Final[list[tuple[str, StreamMechanism[Any], Guarantee, Pair]]] = [
    ("uniform", Uniform(), Guarantee(1, w=STEPS), constant(STEPS, steps=STEPS)),
    ("sample", Sample(), Guarantee(1, w=10), constant(10, steps=STEPS)),
    ("fixed-rate", FixedRate(interval=10), Guarantee(1, w=STEPS), constant(STEPS, steps=STEPS)),
    ("dsft, 2 releases", DSFT(releases=2, horizon=STEPS), Guarantee(1, w=None), constant(None, steps=STEPS)),
    ("dsat, 2 releases", DSAT(releases=2, horizon=STEPS), Guarantee(1, w=None), known_threshold(3, None, steps=STEPS)),
]


def run() -> Sequence[Table]:
    """All tables of the suite."""
    return [_trials(), _attacks()]


def _processor_seconds(call: Callable[[], object]) -> float:
    """Of one call, all threads together: other programs on the machine do not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _trials() -> Table:
    peer = np.random.default_rng(0)  # noqa: TID251 (the insecure peer is what is measured; nothing is released)
    alone = _processor_seconds(lambda: [peer.laplace(0.0, 100.0, (CHUNK, STEPS)) for _ in range(TRIALS // CHUNK)])
    rows: list[list[str]] = []
    for name, mechanism, guarantee, pair in CASES:

        def together(mechanism: Any = mechanism, guarantee: Guarantee = guarantee, pair: Pair = pair) -> None:
            for number in range(TRIALS // CHUNK):
                stream_outputs(mechanism, guarantee, pair, True, CHUNK, (1, number))

        def apart(mechanism: Any = mechanism, guarantee: Guarantee = guarantee, pair: Pair = pair) -> None:
            one_by_one(mechanism, guarantee, pair, True, SINGLE, 1)

        seconds = _processor_seconds(together)
        single = _processor_seconds(apart) * TRIALS / SINGLE
        rows.append([name, f"{seconds:.1f}", f"{single / seconds:,.0f}×", f"{seconds / alone:.1f}×"])
        progress(f"{name}: {seconds:.1f} s for 10⁶ trials, {single / seconds:,.0f} times quicker than one by one")
    return Table(
        title="10⁶ trials of a stream of 100 steps and 1 bin",
        notes=(
            f"The real mechanism through the real Meter, in batches of 10⁵ runs (of DSFT and DSAT in batches "
            f"that fork), against the same mechanism run after run ({SINGLE} runs, scaled up), and the time in units "
            "of what `numpy.random` takes for 10⁸ Laplace numbers alone. Processor time, once. Aim: under 60 s."
        ),
        columns=["mechanism", "seconds", "speed against one by one", "time against numpy noise alone"],
        rows=rows,
    )


def _attacks() -> Table:
    rows: list[list[str]] = []
    for name, mechanism, guarantee, pair in CASES[:1] + CASES[3:4]:
        start = time.process_time()
        result = attack(stream_claim(mechanism, guarantee, pair), TRIALS)
        seconds = time.process_time() - start
        rows.append([name, f"{seconds:.1f}", f"{result.bound.epsilon:.3f}", result.bound.event])
        progress(f"attack on {name}: {seconds:.1f} s")
    return Table(
        title="A whole attack of 10⁶ trials a side on 100 steps",
        notes="Both sides, learning the event on 200,000 trials and bounding it on 800,000. Processor time, once.",
        columns=["mechanism", "seconds", "bound (claimed 1)", "event"],
        rows=rows,
    )
