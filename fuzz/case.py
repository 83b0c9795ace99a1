"""One input of the fuzzer, in a form that can be kept."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

import veilstream as vs
from veilstream.privacy.accountant import Accountant

Kind = Literal["command", "call", "damage"]


@dataclass(frozen=True, slots=True)
class Case:
    """What to try.

    A *command* runs ``argv`` in a folder with ``files``, whose contents are expressions of Python. *Damage* does the
    same on a ledger that was published before, after the statements ``sql`` and the byte ``flips`` (position from 0 to
    1, mask). A *call* evaluates ``expression``.
    """

    kind: Kind
    argv: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    expression: str = ""
    sql: tuple[str, ...] = ()
    flips: tuple[tuple[float, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Only what is not empty."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Case:
        """The case that ``to_json`` wrote.

        >>> Case.from_json(json.loads(json.dumps(Case("command", ("version",)).to_json())))
        Case(kind='command', argv=('version',), files={}, expression='', sql=(), flips=())
        """
        given = dict(kept)
        for name in ("argv", "sql"):
            given[name] = tuple(given.get(name, ()))
        given["flips"] = tuple((where, mask) for where, mask in given.get("flips", ()))
        return cls(**given)


@cache
def namespace() -> dict[str, Any]:
    """The names that expressions may use."""
    return {
        "Accountant": Accountant,
        "Decimal": Decimal,
        "Fraction": Fraction,
        "Path": Path,
        "date": date,
        "datetime": datetime,
        "inf": math.inf,
        "json": json,
        "nan": math.nan,
        "np": np,
        "pl": pl,
        "time": time,
        "timedelta": timedelta,
        "timezone": timezone,
        "vs": vs,
    }


def evaluate(expression: str) -> Any:
    """The value of an expression of this package or of its corpus."""
    return eval(expression, dict(namespace()))
