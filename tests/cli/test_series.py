"""``veilstream series`` publishes a count series with error bands and a picture, and refuses what it cannot do."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from .support import veilstream


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    rows = "\n".join(f"{week},{900 + 40 * (week % 9)}" for week in range(60))
    path = tmp_path / "weeks.csv"
    path.write_text(f"week,cases\n{rows}\n")
    return path


def options(counts: Path, *more: object) -> tuple[object, ...]:
    steps = ("--every", 1, "--start", 0, "--end", 60, "--epsilon", 1)
    return ("series", counts, "--time", "week", *steps, "--ledger", counts.parent / "budget.db", *more)


@pytest.mark.parametrize("kind", ["kalman", "particle"])
def test_a_series_gets_a_table_with_bands_and_a_picture(counts: Path, kind: str) -> None:
    out, plot = counts.parent / "out.csv", counts.parent / "out.png"
    given = options(counts, "--value", "cases", "--per-person", 1, "--filter", kind, "--out", out, "--plot", plot)
    outcome = veilstream(*given, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["spent_now"] == "1"
    table = pl.read_csv(out)
    assert len(table) == 60
    assert (table["low"] < table["high"]).all()
    assert table["fresh"].all()
    assert plot.stat().st_size > 5_000
    assert veilstream(*given, "--json").json["released_now"] == 0


def test_people_are_counted_from_events(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("day,id\n" + "\n".join(f"{day},p{person}" for day in range(8) for person in range(30)) + "\n")
    given = ("series", path, "--time", "day", "--count", "--user", "id", "--every", 1, "--start", 0, "--end", 8)
    outcome = veilstream(*given, "--epsilon", 100, "--window", 4, "--ledger", tmp_path / "b.db", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["released_now"] == 8


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "give either --value COLUMN or --count"),
        (("--value", "cases", "--count"), "give either --value COLUMN or --count"),
        (("--value", "cases"), "per_person: missing"),
        (("--count",), "user: missing"),
        (("--value", "cases", "--per-person", 1, "--samples", 0), "samples 0"),
        (("--value", "cases", "--per-person", 1, "--samples", 61), "samples 61 of Fast: at most one per step"),
        (("--value", "cases", "--per-person", 1, "--process-variance", "-2"), "process_variance -2"),
        (("--value", "cases", "--per-person", 1, "--filter", "wiener"), "wiener"),
    ],
    ids=str,
)
def test_bad_options_are_refused_before_anything_is_read(counts: Path, more: tuple[object, ...], words: str) -> None:
    outcome = veilstream(*options(counts, *more))
    assert outcome.code == 2
    assert words in outcome.err
    assert not (counts.parent / "budget.db").exists()


def test_an_unknown_end_names_the_ways_out(counts: Path) -> None:
    given = ("series", counts, "--time", "week", "--every", 1, "--epsilon", 1, "--value", "cases", "--per-person", 1)
    outcome = veilstream(*given, "--public-from-data", "--ledger", counts.parent / "budget.db")
    assert outcome.code == 2
    assert "--window of some steps" in outcome.err


def test_nan_in_the_series_is_refused(counts: Path) -> None:
    counts.write_text(counts.read_text().replace("5,1100", "5,nan"))
    outcome = veilstream(*options(counts, "--value", "cases", "--per-person", 1))
    assert outcome.code == 2
    assert "not a number" in outcome.err
