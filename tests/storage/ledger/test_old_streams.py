"""Streams of every mechanism that an earlier version left half-way go on with this one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import veilstream as vs
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify

FIXTURE = Path(__file__).parents[1] / "fixtures" / "v5-streams.sqlite3"
STEPS, W = 20, 8
NAMES = (
    "budget-absorption",
    "budget-distribution",
    "dsat",
    "dsft",
    "fast",
    "fixed-rate",
    "model",
    "retroactive-grouping",
    "running-total",
    "sample",
    "scheduled",
    "sliding-window",
    "time-unit",
    "uniform",
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    copy = tmp_path / "old.db"
    shutil.copy(FIXTURE, copy)
    copy.chmod(0o600)
    return copy


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_of_an_earlier_version_goes_on(old: Path, name: str, delta: str | int) -> None:
    stream = f"{name} with delta" if delta else name
    with vs.Publisher(3, vs.Guarantee(1, w=W, delta=delta), vs.STREAMS[name](), old, stream=stream) as again:
        assert again.feed(np.array([100, 20, 33]), t=STEPS - 1).t == STEPS - 1
        made = [again.feed(np.array([100, 20, 33])) for _ in range(W + 2)]
    assert [release.t for release in made] == list(range(STEPS, STEPS + W + 2))


def test_all_of_them_together_still_verify(old: Path) -> None:
    with Ledger.open(old) as ledger:
        for name in NAMES:
            with vs.Publisher(3, vs.Guarantee(1, w=W), vs.STREAMS[name](), ledger, stream=name) as again:
                for _ in range(W):
                    again.feed(np.array([100, 20, 33]))
        assert verify(ledger) == []
