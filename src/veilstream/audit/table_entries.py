"""Claims of the synthesisers: one person is one row of a small table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.accountant import Accountant
from veilstream.audit.attack import Claim
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.bounding.keyed import Key
from veilstream.guarantee import Guarantee
from veilstream.meter import Meter
from veilstream.sealed_rows import ordered_rows
from veilstream.synthesis import BlockMLE, Choice, DPCopula, Kendall
from veilstream.synthesis.rows import content_hashes

EVENT: Final = Guarantee(4, w=1)
SHAPE: Final = (3, 3)
SHARE: Final = Fraction(1, 4)
"""Of margins to dependence where dependence is attacked."""


@dataclass(frozen=True, slots=True)
class _Models:
    """All numbers of the published model of a table in which the person's row is or is not the first."""

    copula: DPCopula
    row: tuple[int, int]
    shape: tuple[int, int] = SHAPE

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        others = [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (0, 1), (1, 1)]
        rows = np.array([self.row] * int(present) + others, dtype=np.int64)
        columns = [np.ascontiguousarray(column) % size for column, size in zip(rows.T, self.shape, strict=True)]
        layout = self.copula.layout(self.shape)
        noise = PooledNoise(seed)
        table = layout.seal(ordered_rows(columns, content_hashes(columns, Key(bytes(16))), self.shape, 0))
        outputs = np.empty((trials, layout.size))
        for trial in range(trials):
            meter = Meter(Accountant(EVENT, layout.size), noise, 0)
            outputs[trial] = self.copula.estimate(table, EVENT.epsilon, meter).numbers
        return outputs


ROWS: Final = {"a row that agrees with all others": (2, 2), "a row against the trend": (2, 0)}


def _claims(copula: DPCopula, shape: tuple[int, int] = SHAPE, deep: int = 8_000) -> list[Claim]:
    return [
        Claim(f"{name}, {EVENT}", EVENT.epsilon, _Models(copula, row, shape), quick=64, deep=deep)
        for name, row in ROWS.items()
    ]


TABLE_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "DPCopula": lambda: _claims(DPCopula()) + _claims(DPCopula(split_below=3), (2, 3)),
    "Kendall": lambda: _claims(DPCopula(dependence=Kendall(), ratio=SHARE)),
    "BlockMLE": lambda: _claims(DPCopula(dependence=BlockMLE(blocks=2), ratio=SHARE)),
    "Choice": lambda: _claims(DPCopula(copula=Choice(degrees=(3,), groups=2), ratio=SHARE), deep=2_000),
}
"""Class in ``veilstream.synthesis`` -> its claims."""
