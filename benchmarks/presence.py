"""``python -m benchmarks presence``: what people who come seldom cost, on real streams, against the usual prices."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

import veilstream as vs
from benchmarks.model_runs import SideBySide
from benchmarks.presence_renewal import renewed
from benchmarks.presence_streams import Visits, distances, present
from benchmarks.report import PAGE, ROOT, Table, progress
from veilstream.evaluate.pages import markdown_table, with_section
from veilstream.mechanisms.streams import DSAT, Fast, ModelBased, Sample, Uniform
from veilstream.privacy.guarantee import Guarantee

RUNS: Final = 40
RUNS_OF_LONG: Final = {100: {Fast: 10, DSAT: 4}, 600: {Fast: 4, DSAT: 1}}
"""More than so many steps: of mechanisms that decide in every run by itself, fewer runs."""
PRESENCES: Final = (1, 3, 5, 8, 13)
RECORD: Final = ROOT / "build" / "benchmarks" / "presence.json"
"""Errors that were measured already: delete it to measure anew."""
COLUMNS: Final = ("Uniform", "Sample", "DSAT", "FAST", "Model")
LEVEL: Final = 0.95
SHARE: Final = 0.1
"""Of epsilon for the correction of rows left out."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A promise without presence, and the same with it for each c."""

    stream: Visits
    promise: str
    plain: Guarantee
    seldom: tuple[Guarantee, ...]


def settings(stream: Visits) -> list[Setting]:
    found: list[Setting] = []
    for w in stream.windows:
        narrow = [c for c in PRESENCES if 2 * c < w]
        plain = Guarantee(1, w=w)
        found.append(Setting(stream, f"window of {w}", plain, tuple(Guarantee(1, w=w, presence=c) for c in narrow)))
        blocks = tuple(Guarantee(1, per=w, presence=c) for c in PRESENCES if c < w)
        found.append(Setting(stream, f"block of {w}", Guarantee(1, per=w, presence=w), blocks))
    for_ever = tuple(Guarantee(1, w=None, presence=c) for c in PRESENCES)
    return [*found, Setting(stream, "for ever", Guarantee(1, w=None), for_ever)]


def error(mechanism: Any, guarantee: Guarantee, counts: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    """Mean absolute error, with all rows as the truth."""
    if isinstance(mechanism, ModelBased):
        y = SideBySide(mechanism, guarantee, counts, RUNS).walked(seed=1).values.swapaxes(0, 1)
    else:
        runs = runs_of_long(mechanism, len(truth)) or RUNS
        y = np.asarray(vs.simulate_many(mechanism, guarantee, counts, seed=1, runs=runs))
    return float(np.abs(y - truth).mean())


def runs_of_long(mechanism: Any, steps: int) -> int | None:
    """How many runs a long stream gets, None if as many as others."""
    fewer: list[dict[type, int]] = [known for longer, known in RUNS_OF_LONG.items() if steps > longer]
    return fewer[-1].get(type(mechanism)) if fewer else None


def recorded_error(mechanism: Any, guarantee: Guarantee, counts: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    """The same, measured once: what was measured before is looked up."""
    digest = hashlib.blake2b(counts.tobytes() + truth.tobytes(), digest_size=8).hexdigest()
    name = f"{mechanism!r} {guarantee.to_json()} {RUNS} {runs_of_long(mechanism, len(truth))} {digest}"
    known: dict[str, float] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if name not in known:
        known[name] = error(mechanism, guarantee, counts, truth)
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps(known), encoding="utf-8")
    return known[name]


def errors(guarantee: Guarantee, counts: NDArray[np.int64], truth: NDArray[np.int64]) -> list[float]:
    steps = len(truth)
    mechanisms = (
        Uniform(horizon=steps),
        Sample(),
        DSAT(None, horizon=steps),
        Fast(None, horizon=steps),
        ModelBased(horizon=steps),
    )
    return [recorded_error(mechanism, guarantee, counts, truth) for mechanism in mechanisms]


def covered(guarantee: Guarantee, counts: NDArray[np.int64], truth: NDArray[np.int64]) -> list[str]:
    """How often the intervals of Uniform hold the people who count, and everybody."""
    y = np.asarray(vs.simulate_many(Uniform(horizon=len(truth)), guarantee, counts, seed=2, runs=RUNS))
    scale = float((guarantee.reach or len(truth)) / guarantee.epsilon)
    half = math.ceil(scale * math.log(1 / (1 - LEVEL)))
    return [f"{(np.abs(y - exact) <= half).mean():.0%}".replace("%", " %") for exact in (counts, truth)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def utility() -> list[Table]:
    """Every stream, promise and c; and of each promise the best."""
    rows: list[list[str]] = []
    best: list[list[str]] = []
    for stream in present():
        truth = stream.counts()
        for setting in settings(stream):
            usual = errors(setting.plain, truth, truth)
            head = [stream.name, setting.promise]
            rows.append([*head, "all", str(setting.plain.reach or stream.steps), "100 %", *map(_number, usual)])
            rows[-1] += covered(setting.plain, truth, truth)
            found: list[tuple[float, str, str, str]] = []
            for guarantee in setting.seldom:
                counts = stream.counts(guarantee)
                kept = counts.sum() / truth.sum()
                seldom = errors(guarantee, counts, truth)
                cells = [str(guarantee.presence), str(guarantee.reach), f"{kept:.0%}".replace("%", " %")]
                rows.append([*head, *cells, *map(_number, seldom), *covered(guarantee, counts, truth)])
                found += [(e, name, cells[0], cells[2]) for e, name in zip(seldom, COLUMNS, strict=True)]
            winner, least = min(found), min(zip(usual, COLUMNS, strict=True))
            verdict = f"{least[0] / winner[0]:.1f}"
            best.append(
                [*head, f"{_number(least[0])} ({least[1]})", f"{_number(winner[0])} ({winner[1]})", *winner[2:]]
            )
            best[-1] += [f"{usual[0] / min(e for e, name, *_ in found if name == 'Uniform'):.1f}", verdict]
            progress(" | ".join(best[-1]))
    notes = (
        f"Mean absolute error of one count series at ε = 1 with all rows as the truth, over all steps of {RUNS} runs "
        f"({_fewer()}). "
        "'steps' is what one person is charged for. The row 'all' "
        "is without a bound; for a block it means that people count in every step of it. 'holds counted' and 'holds "
        f"all' say in how many steps the {LEVEL:.0%} interval of Uniform holds the number of people who count, and of "
        "all: intervals are about the former."
    )
    summary = Table(
        "The best of each promise",
        "Of the next table; c and mechanism chosen in hindsight on both sides. 'times' is the usual error by that with "
        "presence, of Uniform alone and of the best mechanism: below 1 it does not pay.",
        ["stream", "promise", "usual, best", "with presence, best", "c", "kept", "times, Uniform", "times, best"],
        best,
    )
    return [summary, Table("Every c", notes, EVERY, rows)]


def _fewer() -> str:
    """In words, how many runs long streams get."""
    return "; ".join(
        f"{known[Fast]} of FAST and {known[DSAT]} of DSAT over more than {steps} steps"
        for steps, known in RUNS_OF_LONG.items()
    )


EVERY: Final = ["stream", "promise", "c", "steps", "kept", *COLUMNS, "holds counted", "holds all"]


def corrected() -> Table:
    """Uniform with and without a correction of what is left out, at the best c of each."""
    rows: list[list[str]] = []
    for stream in present():
        truth = stream.counts()[:, 0].astype(np.float64)
        for w in stream.windows:
            plain: list[tuple[float, int]] = []
            better: list[tuple[float, int]] = []
            for c in [c for c in PRESENCES if 2 * c < w]:
                counts = stream.counts(Guarantee(1, w=w, presence=c))[:, 0].astype(np.float64)
                plain.append((_trial(truth, counts, w, 2 * c, 0.0), c))
                better.append((_trial(truth, counts, w, 2 * c, SHARE), c))
            (without, c), (with_, other) = min(plain), min(better)
            rows.append([stream.name, str(w), f"{_number(without)} (c = {c})", f"{_number(with_)} (c = {other})"])
            rows[-1].append(f"{without / with_:.2f}")
    return Table(
        "Correcting for rows left out",
        f"Uniform at ε = 1 in a sliding window. The correction takes {SHARE:.0%} of ε for the number of people present "
        "in each stretch of w steps, which one person moves by w in any window, and multiplies later releases by the "
        f"number present over the number released in the stretch before. Mean absolute error, {RUNS} runs.",
        ["stream", "w", "as released", "corrected", "times"],
        rows,
    )


def _trial(truth: NDArray[np.float64], counts: NDArray[np.float64], w: int, reach: int, share: float) -> float:
    rng, distance = default_rng(11), 0.0
    for _ in range(RUNS):
        released = counts + rng.laplace(scale=reach / (1 - share), size=len(counts))
        better = released.copy()
        if share:
            for start in range(w, len(counts), w):
                present_ = truth[start - w : start].sum() + rng.laplace(scale=w / share)
                before = released[start - w : start].sum()
                # Never by less than 1, and by no more than 4: a ratio of two small numbers says nothing.
                better[start : start + w] *= min(max(present_ / max(before, 1.0), 1.0), 4.0)
        distance += float(np.abs(better - truth).mean())
    return distance / RUNS


def other_rules() -> Table:
    """Rules that keep the same promise for a sliding window, by what they reach and what they leave out."""
    rows: list[list[str]] = []
    for stream in present()[:2]:
        for w in stream.windows:
            for name, parts, block in (
                ("look back w−1", 1, False),
                ("look back w/2−1", 2, False),
                ("look back w/4−1", 4, False),
                ("first c of a block of w", 1, True),
                ("first c of a block of w/2", 2, True),
                ("first c of a block of w/4", 4, True),
            ):
                length = -(-w // parts)
                steps = -(-(w - 1) // length) + 2 if block else -(-w // length) + 1
                tried = [
                    (float(distances(stream.left_out(c, length, block=block), c * steps).mean()), c)
                    for c in range(1, 31)
                ]
                least, c = min(tried)
                kept = 1 - stream.left_out(c, length, block=block).sum() / len(stream.step)
                rows.append([stream.name, str(w), name, str(c), str(c * steps), f"{kept:.0%}", _number(least)])
    return Table(
        "Other rules for a sliding window",
        "The error of Uniform at ε = 1, by its formula, at the best c of each rule. A block of ⌈w/k⌉ steps reaches "
        "(⌈(w−1)/⌈w/k⌉⌉ + 2)·c steps, looking back over ⌈w/k⌉−1 steps (⌈w/⌈w/k⌉⌉ + 1)·c.",
        ["stream", "w", "rule", "c", "steps", "kept", "error"],
        rows,
    )


def write_sections(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Put the best of each promise on the page about presence, and the first stream's on the guide."""
    first = [row[1:] for row in rows if row[0] == rows[0][0]]
    for name, table in (
        ("presence.md", markdown_table(columns, rows)),
        ("guides/limits-per-person.md", markdown_table(columns[1:], first)),
    ):
        page = PAGE.parent / name
        page.write_text(with_section(page.read_text(encoding="utf-8"), "presence", table), encoding="utf-8")


def run() -> Sequence[Table]:
    if not present():
        progress("streams with ids: not here, set VEILSTREAM_DATA; left out")
        return []
    best, every = utility()
    write_sections(best.columns, best.rows)
    return [best, every, *renewed(), corrected(), other_rules()]
