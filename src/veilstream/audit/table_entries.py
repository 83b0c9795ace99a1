"""Claims of the synthesisers: one person is one row of a small table.

What a model publishes is attacked run by run. Its parts, which are asked with margins that are public by then,
take many runs at once, on rows whose hashes, any key might give them, let one person do all that the proofs allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim
from veilstream.audit.estimates import estimates
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.session import Session, StreamSession
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis import BlockMLE, Choice, DPCopula, Kendall, MarginalGraph, MarginalStream
from veilstream.synthesis.margins import Margins
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.batch import ForkingMeter
from veilstream.trusted.meter import Meter, NoiseSource
from veilstream.trusted.rows import SealedRows, ordered_rows
from veilstream.trusted.statistics.dependence import mean_dependence
from veilstream.trusted.statistics.marginal_counts import marginal_counts, table_distances

EVENT: Final = Guarantee(4, w=1)
PART: Final = Guarantee(2, w=1)
SHAPE: Final = (3, 3)
SHARE: Final = Fraction(1, 4)
"""Of margins to dependence where dependence is attacked."""
DEEP: Final = 12_000
"""Trials of whole models, one by one."""
Row = tuple[int, ...]
OTHERS: Final[list[Row]] = [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (0, 1), (1, 1)]
"""The rows of everybody else."""


@dataclass(frozen=True, slots=True)
class _Models:
    """All numbers of the published model of a table in which the person's row is or is not the first.

    A third attribute, where there is one, is the sum of the first two.
    """

    copula: DPCopula | MarginalGraph
    row: tuple[int, int]
    shape: tuple[int, ...] = SHAPE

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        rows = np.array([self.row] * int(present) + OTHERS, dtype=np.int64)
        rows = np.column_stack([rows, rows.sum(axis=1)])[:, : len(self.shape)]
        columns = [np.ascontiguousarray(column) % size for column, size in zip(rows.T, self.shape, strict=True)]
        layout = self.copula.layout(self.shape)
        noise = PooledNoise(seed)
        table = layout.seal(ordered_rows(columns, content_hashes(columns, Key(bytes(16))), self.shape, 0))
        outputs = np.empty((trials, layout.size))
        for trial in range(trials):
            meter = Session(Accountant(EVENT, layout.size), noise).at(0)
            outputs[trial] = self.copula.estimate(table, EVENT.epsilon, meter).numbers
        return outputs


@dataclass(frozen=True, slots=True)
class _Streams:
    """All numbers of the models of two steps; the person's row is or is not in the second."""

    row: tuple[int, int]
    graph: MarginalGraph

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        stream = MarginalStream(self.graph)
        layout, noise = stream.graph.layout(SHAPE), PooledNoise(seed)
        tables = [layout.seal(_sealed(OTHERS, t)) for t in (0, 1)]
        if present:
            tables[1] = layout.seal(_sealed([self.row, *OTHERS], 1))
        outputs = np.empty((trials, 2 * layout.size))
        for trial in range(trials):
            session = StreamSession(stream, EVENT, layout.size, noise)
            outputs[trial] = np.concatenate([session.step(table, t).numbers for t, table in enumerate(tables)])
        return outputs


def _sealed(rows: Sequence[Row], t: int) -> SealedRows:
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    return ordered_rows(columns, content_hashes(columns, Key(bytes(16))), SHAPE, t)


@dataclass(frozen=True, slots=True, eq=False)
class PartOfModel:
    """What a part of a model publishes of ``others`` in the order of their hashes, before whom the person comes.

    ``ask`` gives one row of numbers a run, or one for all.
    """

    ask: Callable[[SealedRows, Margins, Meter], NDArray[Any]]
    others: tuple[Row, ...]
    person: Row
    margins: Margins

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        listed = [self.person] * int(present) + list(self.others)
        table = np.array(listed, dtype=np.int64).reshape(len(listed), len(self.person))
        hashes = np.arange(len(table), dtype=np.uint64) + np.uint64(not present)
        shape = tuple(counts.size for counts in self.margins.counts)
        rows = ordered_rows([np.ascontiguousarray(column) for column in table.T], hashes, shape, 0)

        def estimate(source: NoiseSource, runs: int) -> NDArray[Any]:
            session = Session(Accountant(PART, 1), source, partial(ForkingMeter, batch=(runs,)))
            return self.ask(rows, self.margins, session.at(0))

        return estimates(estimate, trials, seed)


def _public(total: float, *shares: list[float]) -> Margins:
    """Margins as if they had been published before."""
    return Margins(tuple(total * np.array(share) for share in shares), total, (0.0,) * len(shares))


def _part(name: str, draw: PartOfModel, epsilon: Fraction = PART.epsilon) -> Claim:
    return Claim(f"{name}, {Guarantee(epsilon, w=1)}", epsilon, draw, quick=4_000)


def _kendall() -> list[Claim]:
    """The person's row takes the place of one that disagrees with all others of the sample where theirs agrees."""

    def ask(sample_size: int | None) -> Callable[[SealedRows, Margins, Meter], NDArray[Any]]:
        mechanism = Kendall(sample_size)
        return lambda rows, margins, meter: mechanism.correlations(rows, margins, PART.epsilon, meter)

    even = [1 / 3] * 3
    two, three = ((1, 1), (2, 0)), ((1, 1, 1), (2, 2, 0))
    return [
        _part("a row in the place of its opposite", PartOfModel(ask(2), two, (2, 2), _public(2, even, even))),
        _part(
            "the same in a sample as large as the margins", PartOfModel(ask(None), two, (2, 2), _public(2, even, even))
        ),
        _part("the same among many", PartOfModel(ask(8), ((1, 1),) * 7 + ((2, 0),), (2, 2), _public(8, even, even))),
        _part("the same of three attributes", PartOfModel(ask(2), three, (2, 2, 2), _public(2, even, even, even))),
    ]


def _block_mle() -> list[Claim]:
    """An extreme row turns round the estimate of a block that had a row near the middle."""
    mechanism = BlockMLE(blocks=1)

    def ask(rows: SealedRows, margins: Margins, meter: Meter) -> NDArray[Any]:
        return mechanism.correlations(rows, margins, PART.epsilon, meter)

    share = [0.001, 0.489, 0.01, 0.01, 0.489, 0.001]
    margins = _public(2, share, share)
    return [
        _part("a row that turns a block round", PartOfModel(ask, ((3, 2),), (5, 5), margins)),
        _part("a row in an empty block", PartOfModel(ask, (), (5, 5), margins)),
    ]


def _choice() -> list[Claim]:
    """Tables that fit a normal copula about as badly as measuring them would be noisy."""
    mechanism = Choice(degrees=(3,), groups=2)
    even = _public(10, [0.5, 0.5], [0.5, 0.5])

    def ask(rows: SealedRows, margins: Margins, meter: Meter) -> NDArray[Any]:
        kind, tables = mechanism.pick(
            rows, margins, np.eye(2), PART.epsilon / (mechanism.choose + mechanism.measure), meter
        )
        numbers = np.atleast_2d(tables)
        return np.hstack([np.full((len(numbers), 1), kind), numbers])

    diagonal = ((0, 0),) * 5 + ((1, 1),) * 5
    return [
        _part("a row with the others", PartOfModel(ask, diagonal, (0, 0), even)),
        _part("a row against the others", PartOfModel(ask, diagonal, (0, 1), even)),
        _part("a row of an empty table", PartOfModel(ask, (), (0, 0), even)),
    ]


def _dependence() -> list[Claim]:
    """A row apart from all others moves what pairs depend by about twice what it moves a count."""

    def ask(rows: SealedRows, _margins: Margins, meter: Meter) -> NDArray[Any]:
        answer = meter.laplace(mean_dependence(rows), PART.epsilon, "dependence of attributes")
        return np.atleast_2d(answer.numbers).reshape(-1, 1)

    even = _public(10, [0.5, 0.5], [0.5, 0.5])
    return [
        _part("dependence, a row apart from all others", PartOfModel(ask, ((0, 0),) * 40, (1, 1), even)),
        _part("dependence, a row against the others", PartOfModel(ask, ((0, 0), (1, 1)) * 20, (0, 1), even)),
    ]


def _distances() -> list[Claim]:
    """What a page measures of a model: a row that no table expects moves every distance by 1, others by -1."""
    tables = [np.array([20.0, 0.0, 0.0, 20.0])] * 3

    def ask(rows: SealedRows, _margins: Margins, meter: Meter) -> NDArray[Any]:
        counts = marginal_counts(rows, [np.arange(2)] * 2, [(0, 1)] * len(tables))
        answer = meter.laplace(table_distances(counts, tables), PART.epsilon, "distance of tables")
        return np.atleast_2d(answer.numbers)

    even, others = _public(40, [0.5, 0.5], [0.5, 0.5]), ((0, 0), (1, 1)) * 18
    return [
        _part("distances, a row that no table expects", PartOfModel(ask, others, (0, 1), even)),
        _part("distances, a row that all tables expect", PartOfModel(ask, others, (0, 0), even)),
    ]


ROWS: Final = {"a row that agrees with all others": (2, 2), "a row against the trend": (2, 0)}


def _models(
    copula: DPCopula | MarginalGraph, shape: tuple[int, ...] = SHAPE, deep: int = DEEP, variant: str = "whole model"
) -> list[Claim]:
    return [
        Claim(f"{name}, {variant}, {EVENT}", EVENT.epsilon, _Models(copula, row, shape), quick=64, deep=deep)
        for name, row in ROWS.items()
    ]


STREAMED: Final = {
    "in the second step": MarginalGraph(ask=False),
    "in the second step, tables chosen": MarginalGraph(
        margin_share=SHARE, select_share=Fraction(2, 3), ask=False, every_pair=False
    ),
}
TABLE_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "DPCopula": lambda: (
        _models(DPCopula()) + _models(DPCopula(split_below=3), (2, 3), deep=2 * DEEP, variant="whole model in parts")
    ),
    "MarginalGraph": lambda: (
        _models(MarginalGraph(), deep=DEEP // 3)
        + _models(
            MarginalGraph(margin_share=SHARE, select_share=Fraction(2, 3), ask=False, every_pair=False),
            deep=DEEP // 3,
            variant="whole model, tables chosen",
        )
        + _models(
            MarginalGraph(margin_share=SHARE, select_share=Fraction(2, 3), target=2, every_pair=False),
            (3, 3, 2),
            deep=DEEP // 3,
            variant="whole model, tables around a target",
        )
        + _models(
            MarginalGraph(margin_share=SHARE, target=2),
            (3, 3, 2),
            deep=DEEP // 3,
            variant="whole model, every pair around a target",
        )
        + _models(
            MarginalGraph(ordered=(True, True), ask=False),
            (60, 60),
            deep=DEEP // 6,
            variant="whole model, margins in cells of several values",
        )
        + _dependence()
        + _distances()
    ),
    "MarginalStream": lambda: [
        Claim(f"{name}, {said}, {EVENT}", EVENT.epsilon, _Streams(row, graph), quick=64, deep=DEEP // 6)
        for (name, row), (said, graph) in itertools.product(ROWS.items(), STREAMED.items())
    ],
    "Kendall": lambda: [*_kendall(), *_models(DPCopula(dependence=Kendall(), ratio=SHARE))],
    "BlockMLE": lambda: [*_block_mle(), *_models(DPCopula(dependence=BlockMLE(blocks=2), ratio=SHARE))],
    "Choice": lambda: [
        *_choice(),
        *_models(DPCopula(copula=Choice(degrees=(3,), groups=2), ratio=SHARE), deep=DEEP // 3),
    ],
}
"""Class in ``veilstream.synthesis`` -> its claims."""
