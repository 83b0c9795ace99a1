"""What a golden case remembers, and noise that repeats by the case's name, wherever the case stands."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest import mock

import numpy as np
import polars as pl

RECORDED: Final = Path(__file__).parent / "recorded.json"
SHOWN: Final = 24
"""Numbers of an array that stand in the file as they are; the rest is in its digest."""
DIGITS: Final = 9
"""Significant digits that are compared: the last ones depend on the processor's instructions."""


@contextmanager
def repeated_noise(name: str) -> Iterator[None]:
    """All random bytes of this process come from ``name``."""
    from veilstream.noise import source

    calls = itertools.count()

    def urandom(count: int) -> bytes:
        return hashlib.shake_256(f"{name} {next(calls)}".encode()).digest(count)

    fake = SimpleNamespace(urandom=urandom, getpid=os.getpid)
    with mock.patch.object(source, "os", fake), mock.patch("os.urandom", urandom):
        yield


def plain(value: Any) -> Any:
    """A value as JSON: fractions as text, floats by their leading digits, long arrays by a digest."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, pl.DataFrame):
        return {name: plain(value[name].to_list()) for name in value.columns}
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "values": _numbers(value.reshape(-1).tolist())}
    if isinstance(value, list | tuple):
        return _numbers(list(cast("list[Any]", value)))
    return _plain(value)


def _numbers(values: list[Any]) -> Any:
    numbers = [plain(value) for value in values]
    if len(numbers) <= SHOWN:
        return numbers
    digest = hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:16]
    return {"first": numbers[:SHOWN], "count": len(numbers), "digest": digest}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return 0.0 if abs(value) < 1e-9 else float(f"{value:.{DIGITS}g}")
    if isinstance(value, np.generic):
        return plain(value.item())
    return str(value)


def charges(ledger: Any, stream: str) -> list[str]:
    """Every charge of a stream: what it bought, for how much, of which steps."""
    return [
        f"{row.charge.epsilon} {row.charge.span.first}..{row.charge.span.last} {row.charge.purpose}"
        for row in ledger.charges(stream)
    ]


def fractions(values: list[Fraction]) -> list[str]:
    return [str(value) for value in values]
