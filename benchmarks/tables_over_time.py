"""Models of tables that change: false alarms where nothing does, and what the last model is worth to the next."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Table, progress
from benchmarks.table_errors import variation
from benchmarks.table_sources import RealTable
from benchmarks.table_streams import table_streams
from benchmarks.tables import table_domain_of
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.session import StreamSession
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis import GraphModel, MarginalGraph, MarginalStream
from veilstream.synthesis.graph_stream import FALSE_ALARM
from veilstream.synthesis.kinds import for_domain
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.rows import ordered_rows

Codes = NDArray[np.int64]
Pair = tuple[int, int]
SIZES: Final = (12, 24, 16, 20, 8, 24, 18, 10)
"""So large that not every pair is measured anyway."""
ROWS: Final = 5000
STEPS: Final = 50
SEEDS: Final = 4
EPSILONS: Final = ("1/10", "1", "4")
RUNS: Final = 3


def run(quick: bool = False) -> Sequence[Table]:
    """Both tables; quick: fewer steps and seeds, printed only."""
    alarms = _alarms(12 if quick else STEPS, 1 if quick else SEEDS)
    return [alarms] if quick else [alarms, *_streams()]


def chain(seed: int, dependent: bool) -> tuple[list[NDArray[np.float64]], list[Pair]]:
    """Chances of every attribute given the one before, and the pairs that depend: a tree that a model can hold."""
    rng = np.random.default_rng(seed)  # noqa: TID251 (a law is made up)
    first = [rng.dirichlet(np.full(SIZES[0], 2.0), 1)]
    for before, size in itertools.pairwise(SIZES):
        rows = rng.dirichlet(np.full(size, 0.5 if dependent else 2.0), before if dependent else 1)
        first.append(rows if dependent else np.repeat(rows, before, axis=0))
    return first, list(itertools.pairwise(range(len(SIZES)))) if dependent else []


def drawn(chances: list[NDArray[np.float64]], rng: np.random.Generator) -> Codes:  # noqa: TID251 (no release)
    """New rows of a law."""
    columns: list[Codes] = []
    given: Codes = np.zeros(ROWS, dtype=np.int64)
    for each in chances:
        below = rng.random(ROWS)[:, None] > np.cumsum(each[given], axis=1)
        given = np.minimum(below.sum(axis=1), each.shape[1] - 1).astype(np.int64)
        columns.append(given)
    return np.stack(columns, axis=1)


def models(
    tables: Sequence[RealTable], stream: Callable[[MarginalGraph], StreamMechanism[Any]], epsilon: str, seed: int
) -> list[GraphModel]:
    """The model of every step, each for ``epsilon``."""
    domain = table_domain_of(tables[0])
    graph = for_domain(MarginalGraph(), domain)
    assert isinstance(graph, MarginalGraph)
    layout = graph.layout(domain.shape)
    noise = ExactSampler(SeededSource(seed))
    session = StreamSession(stream(graph), Guarantee(epsilon, w=1), layout.size, noise)
    found: list[GraphModel] = []
    for t, table in enumerate(tables):
        columns = [np.ascontiguousarray(column) for column in table.codes.T]
        rows = ordered_rows(columns, content_hashes(columns, Key(bytes(16))), domain.shape, t)
        values = session.step(layout.seal(rows), t)
        found.append(GraphModel(domain, layout, np.asarray(values.numbers, dtype=np.float64), session.spent))
    return found


def _alarms(steps: int, seeds: int) -> Table:
    rows: list[list[str]] = []
    for (name, dependent), epsilon in itertools.product((("independent", False), ("a chain", True)), EPSILONS):
        asked = false = 0
        for seed in range(seeds):
            chances, tree = chain(seed, dependent)
            rng = np.random.default_rng(100 + seed)  # noqa: TID251 (no release)
            tables = [RealTable(drawn(chances, rng), SIZES, (False,) * len(SIZES)) for _ in range(steps)]
            scopes = [
                {table.scope for table in model.layout.unpack(model.numbers).tables}
                for model in models(tables, MarginalStream, epsilon, seed)
            ]
            for before, after in itertools.pairwise(scopes):
                whole = all(any(set(pair) <= set(scope) for scope in before) for pair in tree)
                if whole:
                    asked += 1
                    false += any(len(scope) == 2 and scope not in tree for scope in after - before)
        share = f"{false / asked:.4f}" if asked else "-"
        rows.append([name, epsilon, str(seeds * (steps - 1)), str(asked), str(false), share])
        progress(f"tables over time, {name} {epsilon}: {false} false alarms in {asked} steps")
    return Table(
        "False alarms",
        f"Tables of {ROWS:,} new rows a step from a law that does not change: {len(SIZES)} attributes, independent or "
        "each dependent on the one before. A false alarm is a pair that joins the structure although the structure "
        "holds all that depends; counted are the steps that begin with such a structure. Designed for at most "
        f"{FALSE_ALARM:g} a step.",
        ["law", "ε a step", "steps", "with the whole structure", "false alarms", "share"],
        rows,
    )


def _streams() -> list[Table]:
    """Real tables that change: a model that goes on from the last one beside one that is fitted anew."""
    rows: list[list[str]] = []
    for (name, stream), epsilon in itertools.product(table_streams().items(), EPSILONS):
        refreshed, anew = (_errors(stream.steps, kind, epsilon) for kind in (MarginalStream, Uniform))
        runs = refreshed.mean(axis=1) / anew.mean(axis=1)
        steps = refreshed.mean(axis=0) / anew.mean(axis=0)
        ratio, spread = float(steps.mean()), float(runs.std(ddof=1)) / RUNS**0.5
        errors = [f"{float(each.mean()):.4f}" for each in (refreshed, anew)]
        said = [f"{ratio:.3f} ± {spread:.3f}", f"{float(steps.max()):.2f}"]
        rows.append([name, stream.use, epsilon, str(len(stream.steps)), *errors, *said])
        progress(f"tables over time, {name} {epsilon}: {steps.round(2).tolist()}")
    if not rows:
        return []
    return [
        Table(
            "Real tables that change",
            f"Total variation of marginals of two attributes, means of {RUNS} runs over all steps but the first. "
            "'refreshed' goes on from the last model, 'anew' fits one at every step for the same ε. The ratio is the "
            "mean over steps, with the standard error over runs; the last column is the largest of a step. Constants "
            "were tuned on the streams that say so; on those that were looked at, two decisions were made (groups "
            "follow the margins at every step; dependence that groups hide is made up for). Those held back are other "
            "attributes of the same survey: the incomes were seen once on the way, the households only at the end.",
            ["table", "use", "ε a step", "steps", "refreshed", "anew", "ratio", "worst step"],
            rows,
        )
    ]


def _errors(
    tables: Sequence[RealTable], stream: Callable[[MarginalGraph], StreamMechanism[Any]], epsilon: str
) -> NDArray[np.float64]:
    """Errors by run and step, from the second step on."""
    found: list[list[float]] = []
    for seed in range(RUNS):
        made = zip(tables, models(tables, stream, epsilon, seed), strict=True)
        off = [
            variation(table, np.stack(model.sample_codes(len(table.codes), seed=seed), axis=1), 2)
            for table, model in made
        ]
        found.append(off[1:])
    return np.array(found)
