"""Quantiles by choice: in order, near the truth where the budget allows it, and published end to end."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms.cuts import QuantileCuts
from veilstream.mechanisms.session import Session
from veilstream.noise import SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import seal

SHARES = ("1/10", "1/4", "1/2", "3/4", "9/10")


def cuts_of(counts: NDArray[np.int64], cells: int, epsilon: int) -> list[list[int]]:
    meter = Session(Accountant(Guarantee(epsilon, w=1), counts.size), SecureNoise()).at(0)
    found = QuantileCuts(cells, SHARES).estimate(seal(counts, 0), Fraction(epsilon), meter)
    assert meter.left == 0
    running = np.cumsum(found.numbers.reshape(-1, cells), axis=1)
    assert running[:, -1] == pytest.approx(1)
    return [[int((row < float(Fraction(share)) - 1e-9).sum()) + 1 for share in SHARES] for row in running]


def test_cuts_split_every_column_into_their_shares() -> None:
    even = np.full(40, 100, dtype=np.int64)
    late = np.concatenate([np.zeros(30, dtype=np.int64), np.full(10, 100)])
    # Three levels of 20 each: a cut that is one cell further off than another scores 50 less, e^-400 as likely. Where a
    # share falls into the middle of a cell, either end is as good.
    found = np.array(cuts_of(np.concatenate([even, late]), 40, 60))
    assert np.abs(found - [[4, 10, 20, 30, 36], [31, 32.5, 35, 37.5, 39]]).max() <= 1


def test_cuts_are_in_order_where_all_is_noise() -> None:
    for found in cuts_of(np.zeros(64 * 50, dtype=np.int64), 64, 1):
        assert found == sorted(found)


def test_quantiles_are_published_by_choice(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)  # noqa: TID251 (public example data)
    minutes = rng.uniform(0, 100, 8000)
    table = pl.DataFrame({"id": np.arange(8000), "hour": np.arange(8000) % 2, "minutes": minutes})
    job = vs.publish(
        table,
        user="id",
        time="hour",
        every=1,
        start=0,
        end=2,
        epsilon=4,
        window=1,
        quantiles="minutes",
        quantiles_by="choice",
        between=(0, 100),
        ledger=str(tmp_path / "q.db"),
    )
    rows = job.to_polars()
    values = rows["value"].to_numpy().reshape(2, 3)
    # Scores fall by 2000·0.016 rows a cell: ten cells off has a probability below e^-60.
    assert np.abs(values - [10, 50, 90]).max() < 16
    assert rows["low"].unique().to_list() == [0.0]
    assert rows["high"].unique().to_list() == [100.0]


def test_what_cannot_be_chosen_is_refused(tmp_path: Path) -> None:
    for shares in ((), ("1/2", "1/3"), ("0",), ("1",)):
        with pytest.raises(InvalidInputError):
            QuantileCuts(4, shares)
    with pytest.raises(InvalidInputError):
        QuantileCuts(1)
    common: dict[str, Any] = {"user": "id", "time": "hour", "every": 1, "start": 0, "end": 2, "epsilon": 1, "window": 1}
    table = pl.DataFrame({"id": [1], "hour": [0], "minutes": [3.0]})
    wrong: list[dict[str, Any]] = [
        {"count": "minutes"},
        {"mean": "minutes"},
        {"mechanism": "fixed-rate"},
        {"histogram": "efpa"},
    ]
    for more in wrong:
        asked: dict[str, Any] = {"quantiles": "minutes", "quantiles_by": "choice", "between": (0, 100), **more}
        with pytest.raises(InvalidInputError):
            vs.publish(table, ledger=str(tmp_path / "q.db"), **common, **asked)
