"""Trials of an audit: all runs at once against run after run, and the whole attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from benchmarks.report import Table, best_seconds, progress
from veilstream.audit import Pair, attack, stream_claim
from veilstream.audit.pairs import constant, known_threshold
from veilstream.audit.runs import one_by_one, stream_outputs
from veilstream.guarantee import Guarantee
from veilstream.mechanism import StreamMechanism
from veilstream.streams import DSAT, DSFT, FixedRate, Sample, Uniform

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


def _trials() -> Table:
    peer = np.random.default_rng(0)  # noqa: TID251 (the insecure peer is what is measured; nothing is released)
    alone = best_seconds(lambda: [peer.laplace(0.0, 100.0, (CHUNK, STEPS)) for _ in range(TRIALS // CHUNK)], 2)
    rows: list[list[str]] = []
    for name, mechanism, guarantee, pair in CASES:

        def together(mechanism: Any = mechanism, guarantee: Guarantee = guarantee, pair: Pair = pair) -> None:
            for number in range(TRIALS // CHUNK):
                stream_outputs(mechanism, guarantee, pair, True, CHUNK, (1, number))

        def apart(mechanism: Any = mechanism, guarantee: Guarantee = guarantee, pair: Pair = pair) -> None:
            one_by_one(mechanism, guarantee, pair, True, SINGLE, 1)

        seconds = best_seconds(together, 2)
        single = best_seconds(apart, 2) * TRIALS / SINGLE
        rows.append([name, f"{seconds:.1f}", f"{single / seconds:,.0f}×", f"{seconds / alone:.1f}×"])
        progress(f"{name}: {seconds:.1f} s for 10⁶ trials, {single / seconds:,.0f} times quicker than one by one")
    return Table(
        title="10⁶ trials of a stream of 100 steps and 1 bin",
        notes=(
            f"The real mechanism through the real Meter, in pieces of 10⁵ runs on lanes (DSFT and DSAT on lanes "
            f"that fork), against the same mechanism run after run ({SINGLE} runs, scaled up), and the time in units "
            "of what `numpy.random` takes for 10⁸ Laplace numbers alone. Best of 2. Aim: under 60 s."
        ),
        columns=["mechanism", "seconds", "speed against one by one", "time against numpy noise alone"],
        rows=rows,
    )


def _attacks() -> Table:
    rows: list[list[str]] = []
    for name, mechanism, guarantee, pair in CASES[:1] + CASES[3:4]:
        claim = stream_claim(mechanism, guarantee, pair)
        seconds = best_seconds(lambda claim=claim: attack(claim, TRIALS), 1)  # type: ignore[misc]
        verdict = attack(claim, TRIALS // 10)
        rows.append([name, f"{seconds:.1f}", f"{verdict.bound.epsilon:.3f}", verdict.bound.event])
        progress(f"attack on {name}: {seconds:.1f} s")
    return Table(
        title="A whole attack of 10⁶ trials a side on 100 steps",
        notes="Both sides, learning the event and bounding it; the bound is that of a tenth of the trials. Once.",
        columns=["mechanism", "seconds", "bound (claimed 1)", "event"],
        rows=rows,
    )
