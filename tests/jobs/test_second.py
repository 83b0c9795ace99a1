"""A second stream of the same rows says its price; two first runs at once are two runs of one stream."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.jobs import run as run_module
from veilstream.jobs.second import SOURCE
from veilstream.release.budget import outside
from veilstream.storage.keys import StreamKey, begun_path, load, store
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.decisions import last_decision


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    hours = [f"2024-01-01T{n % 4:02d}:10:00" for n in range(40)]
    pl.DataFrame({"id": range(40), "ts": hours, "place": ["a", "b"] * 20, "age": ["y", "o"] * 20}).write_csv(file)
    return file


def publish(rows: Any, ledger: Path, stream: str = "first", by: str = "place", **changes: Any) -> Any:
    domain = {"place": ["a", "b"]} if by == "place" else {"age": ["y", "o"]}
    common = {"user": "id", "time": "ts", "every": "1h", "start": "2024-01-01", "end": "2024-01-01T04:00"}
    budget = {"epsilon": "1/2", "window": 4, "mechanism": "uniform"}
    return vs.publish(rows, domain=domain, by=[by], stream=stream, ledger=ledger, **{**common, **budget, **changes})


def test_a_second_stream_of_the_same_rows_is_asked_for_and_recorded(rows: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "b.db"
    publish(rows, ledger)
    publish(rows, ledger)
    with pytest.raises(InvalidInputError, match=r"epsilon 1\.5 together") as caught:
        publish(rows, ledger, "second", epsilon=1)
    assert all(word in caught.value.next_step for word in ("--stream first", "--population", "--again"))
    with Ledger.open(ledger) as opened:
        assert [spec.name for spec in opened.streams()] == ["first"]
    publish(rows, ledger, "second", epsilon=1, again=True)
    with Ledger.open(ledger) as opened, opened.reading() as connection:
        decided = last_decision(connection, opened.label, SOURCE, "second")
        assert decided is not None
        assert decided["besides"] == ["first"]
        # Decisions are public: where the rows lie is not in them.
        assert str(rows.name) not in str(decided)
        assert sum(one.guarantee.epsilon for one in outside(opened)) == Fraction(3, 2)


def test_other_rows_columns_and_times_are_not_asked_for(rows: Path, tmp_path: Path) -> None:
    ledger, other = tmp_path / "b.db", tmp_path / "other.csv"
    other.write_bytes(rows.read_bytes())
    publish(rows, ledger, end="2024-01-01T02:00", unknown="drop", allow_empty=True)
    publish(rows, ledger, "ages", by="age")
    publish(other, ledger, "elsewhere")
    publish(rows, ledger, "later", start="2024-01-01T02:00", unknown="drop")


def test_a_mismatch_does_not_advise_another_stream_without_its_price(rows: Path, tmp_path: Path) -> None:
    publish(rows, tmp_path / "b.db")
    with pytest.raises(LedgerMismatchError) as caught:
        publish(rows, tmp_path / "b.db", epsilon=1)
    assert "both promises" in caught.value.next_step


@pytest.mark.parametrize("finished", [True, False])
def test_two_first_runs_at_once_are_two_runs_of_one_stream(
    finished: bool, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one has read its rows the other begins the stream, and perhaps publishes all of it."""
    ledger, key_file = tmp_path / "b.db", tmp_path / "b.db.first.key"
    others: list[Any] = []
    read = run_module._refuse_silence  # pyright: ignore[reportPrivateUsage]

    def meanwhile(*given: Any) -> None:
        read(*given)
        if not others:
            others.append(None)
            others.append(publish(rows, ledger) if finished else store(begun_path(key_file), StreamKey.fresh("first")))

    monkeypatch.setattr(run_module, "_refuse_silence", meanwhile)
    made = publish(rows, ledger)
    key = load(key_file, "first")
    assert key is not None
    if finished:
        assert [r.values.tolist() for r in made.releases] == [r.values.tolist() for r in others[1].releases]
    else:
        assert key == others[1]
    assert not begun_path(key_file).exists()
    with Ledger.open(ledger) as opened:
        assert opened.head("first") == 3
        assert len(list(opened.charges("first"))) == 4
