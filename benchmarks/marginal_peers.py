"""Two-way marginals of tables with several attributes: the catalogue against MWEM, a peer in this file."""

from __future__ import annotations

import itertools
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl

from benchmarks.histogram_errors import DATA, EPSILONS, Counts, Estimate, Reals, seeded
from benchmarks.report import Table, progress
from benchmarks.table_sources import RealTable
from benchmarks.tables import Ours
from veilstream.mechanisms.histograms import Auto, Barak, Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.synthesis import MarginalGraph

RUNS: Final = 3
ROUNDS: Final = (3, 6, 12, 24)
PASSES, LAST_PASSES = 10, 100
"""Over all measurements so far, in every round and after the last one."""
ADULT: Final = ("education-num", "marital-status", "race", "sex", "income>50K")
Pair = tuple[int, int]
Answer = Callable[[str, int], Sequence[Reals]]


@dataclass(frozen=True, slots=True)
class Survey:
    """Codes of people, one row each."""

    codes: Counts
    shape: tuple[int, ...]

    @property
    def pairs(self) -> list[Pair]:
        return list(itertools.combinations(range(len(self.shape)), 2))

    def counts(self) -> Counts:
        """Of all cells, row-major."""
        flat = np.ravel_multi_index(tuple(self.codes.T), self.shape)
        return np.bincount(flat, minlength=math.prod(self.shape)).astype(np.int64)


def surveys() -> dict[str, Survey]:
    """NLTCS, part of it, ACS and five attributes of Adult."""
    nltcs = pl.read_csv(DATA / "nltcs_hd.csv.gz").to_numpy().astype(np.int64)
    acs = _coded("acs_privbayes", None)
    return {
        "NLTCS": Survey(nltcs, (2,) * nltcs.shape[1]),
        "NLTCS, 8 attributes": Survey(nltcs[:, :8], (2,) * 8),
        "ACS, 14 attributes": Survey(acs.codes[:, :14], acs.shape[:14]),
        "Adult, 5 attributes": _coded("adult_pgm_discretized", ADULT),
    }


def _coded(name: str, attributes: Sequence[str] | None) -> Survey:
    sizes: Mapping[str, int] = json.loads((DATA / f"{name}-domain.json").read_text(encoding="utf-8"))
    kept = list(attributes or sizes)
    rows = pl.read_csv(DATA / f"{name}.csv.gz", columns=kept).select(kept).to_numpy().astype(np.int64)
    return Survey(rows, tuple(int(sizes[one]) for one in kept))


def marginals_table() -> Table:
    """Errors of all marginals of two attributes."""
    rows: list[list[str]] = []
    for name, survey in surveys().items():
        counts = survey.counts()
        truth = [marginal(counts, survey.shape, pair) for pair in survey.pairs]
        for epsilon in EPSILONS:
            found = {
                method: float(
                    np.mean([_error(answer(epsilon, _seed(name, epsilon, run)), truth) for run in range(RUNS)])
                )
                for method, answer in _answers(survey, counts).items()
            }
            rows.append([name, epsilon, *_cells(found)])
            progress(f"marginals {rows[-1]}")
    return Table(
        "Two-way marginals of several attributes",
        f"Mean absolute error per cell of all marginals of two attributes, {RUNS} runs: `geometric` in counts, the "
        "others in multiples of it. `auto` (`marginals`) is told that marginals are its use. `graph` is "
        "`veilstream.synthesis.MarginalGraph`, by rows drawn from it. MWEM (Hardt, Ligett, McSherry, NIPS 2012) is a "
        "peer in this folder, not in the catalogue: with simulated noise, the true number of people for nothing, "
        f"{PASSES} passes over all measurements in every round and {LAST_PASSES} after the last, and the best of "
        f"{', '.join(map(str, ROUNDS))} rounds in hindsight, which nobody knows beforehand; `cells` asks for one cell "
        "of a marginal in a round, as in the paper, `tables` for a whole marginal. The last column: the worst of the "
        "same numbers of rounds, of the better of the two.",
        [
            "data",
            "epsilon",
            "geometric",
            "barak, order 2",
            "auto",
            "graph",
            "mwem, cells",
            "mwem, tables",
            "mwem, worst",
        ],
        rows,
    )


def _seed(name: str, epsilon: str, run: int) -> int:
    return zlib.crc32(f"{name} {epsilon} {run}".encode())


def _answers(survey: Survey, counts: Counts) -> dict[str, Answer]:
    methods: dict[str, HistogramMechanism] = {
        "geometric": Geometric(),
        "barak": Barak(order=2),
        "auto": Auto("marginals"),
    }
    answers: dict[str, Answer] = {name: _of_cells(seeded(method), survey, counts) for name, method in methods.items()}
    answers["graph"] = _of_graph(survey)
    for kind in ("cells", "tables"):
        for rounds in ROUNDS:
            answers[f"{kind} {rounds}"] = _of_mwem(survey, counts, rounds, kind == "tables")
    return answers


def _cells(found: Mapping[str, float]) -> list[str]:
    plain = found["geometric"]
    peers = {kind: [found[f"{kind} {rounds}"] for rounds in ROUNDS] for kind in ("cells", "tables")}
    best = {kind: min(errors) for kind, errors in peers.items()}
    shown = [found["barak"], found["auto"], found["graph"], best["cells"], best["tables"]]
    ratios = [error / plain for error in shown]
    cells = [f"**{ratio:.2f}**" if ratio == min(ratios) else f"{ratio:.2f}" for ratio in ratios]
    return [f"{plain:,.1f}", *cells, f"{max(peers[min(best, key=lambda kind: best[kind])]) / plain:.2f}"]


def _of_cells(estimate: Estimate, survey: Survey, counts: Counts) -> Answer:
    def answer(epsilon: str, seed: int) -> Sequence[Reals]:
        values = estimate(counts, survey.shape, epsilon, seed)
        return [marginal(values, survey.shape, pair) for pair in survey.pairs]

    return answer


def _of_graph(survey: Survey) -> Answer:
    table = RealTable(survey.codes, survey.shape, (False,) * len(survey.shape))

    def answer(epsilon: str, seed: int) -> Sequence[Reals]:
        drawn = Ours(MarginalGraph()).draw(table, Fraction(epsilon), seed)
        counts = Survey(drawn, survey.shape).counts()
        return [marginal(counts, survey.shape, pair) for pair in survey.pairs]

    return answer


def _of_mwem(survey: Survey, counts: Counts, rounds: int, tables: bool) -> Answer:
    def answer(epsilon: str, seed: int) -> Sequence[Reals]:
        values = mwem(counts, survey.shape, survey.pairs, float(epsilon), rounds, tables, seed)
        return [marginal(values, survey.shape, pair) for pair in survey.pairs]

    return answer


def mwem(
    counts: Counts, shape: tuple[int, ...], pairs: Sequence[Pair], epsilon: float, rounds: int, tables: bool, seed: int
) -> Reals:
    """Multiplicative weights with exponential mechanism over cells of marginals, or over whole marginals.

    A round has ε/rounds: half of it chooses the query with the largest error (one person moves a cell, or the L1 error
    of a marginal, by 1), half measures it. Then x is multiplied by exp(q(x)·(m − q(A))/(2n)) for every measurement m.
    """
    # The peer's noise is simulated; nothing is released.
    rng = np.random.default_rng(seed)  # noqa: TID251
    number = float(counts.sum())
    model = np.full(shape, number / counts.size)
    truth = [marginal(counts, shape, pair) for pair in pairs]
    share = epsilon / rounds / 2
    measured: list[tuple[Pair, Counts, Reals]] = []
    for _ in range(rounds):
        gaps = [np.abs(true - _summed(model, pair)) for pair, true in zip(pairs, truth, strict=True)]
        scores = np.array([gap.sum() for gap in gaps]) if tables else np.concatenate([gap.reshape(-1) for gap in gaps])
        # Gumbel noise on scores is the exponential mechanism.
        chosen = int(np.argmax(share * scores / 2 + rng.gumbel(size=scores.size)))
        ends = np.cumsum([gap.size for gap in gaps])
        which = chosen if tables else int(np.searchsorted(ends, chosen, side="right"))
        size = gaps[which].size
        cells = np.arange(size) if tables else np.array([chosen - (int(ends[which]) - size)])
        noisy = truth[which].reshape(-1)[cells] + rng.laplace(0, 1 / share, cells.size)
        measured.append((pairs[which], cells, noisy))
        model = _fitted(model, measured, number, PASSES)
    return _fitted(model, measured, number, LAST_PASSES).reshape(-1)


def _fitted(model: Reals, measured: Sequence[tuple[Pair, Counts, Reals]], number: float, passes: int) -> Reals:
    for _ in range(passes):
        for pair, places, values in measured:
            model = _updated(model, pair, places, values, number)
    return model


def _updated(model: Reals, pair: Pair, places: Counts, values: Reals, number: float) -> Reals:
    now = _summed(model, pair)
    factor = np.zeros(now.size)
    factor[places] = (values - now.reshape(-1)[places]) / (2 * number)
    along = [size if axis in pair else 1 for axis, size in enumerate(model.shape)]
    grown = model * np.exp(factor).reshape(along)
    return np.asarray(grown * (number / grown.sum()), dtype=np.float64)


def _summed(model: Reals, pair: Pair) -> Reals:
    other = tuple(axis for axis in range(model.ndim) if axis not in pair)
    return np.asarray(model.sum(axis=other), dtype=np.float64)


def marginal(values: Any, shape: tuple[int, ...], pair: Pair) -> Reals:
    """Of a flat table."""
    return _summed(np.asarray(values, dtype=np.float64).reshape(shape), pair)


def _error(found: Sequence[Reals], truth: Sequence[Reals]) -> float:
    return float(np.mean([np.abs(one - true).mean() for one, true in zip(found, truth, strict=True)]))
