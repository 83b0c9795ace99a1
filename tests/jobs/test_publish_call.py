"""One call from a table to releases, with the same refusals as the command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError, LedgerError, LedgerMismatchError
from veilstream.storage.ledger import Ledger

HOURS = 6
DOMAIN = {"place": ["harbour", "market"]}


def table() -> pl.DataFrame:
    start = datetime(2024, 1, 1)
    rows = [
        {"id": person, "ts": start + timedelta(hours=hour, minutes=7 * person), "place": DOMAIN["place"][person % 2]}
        for hour in range(HOURS)
        for person in range(5)
    ]
    return pl.DataFrame(rows)


def call(source: Any, folder: Path, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "user": "id", "time": "ts", "by": ["place"], "domain": DOMAIN, "every": "1h", "start": "2024-01-01",
        "end": "2024-01-01T06:00", "epsilon": 1, "window": "3h", "ledger": folder / "budget.db",
    }  # fmt: skip
    return vs.publish(source, **{**given, **changes})


def as_csv(frame: pl.DataFrame, folder: Path) -> Path:
    frame.write_csv(folder / "visits.csv")
    return folder / "visits.csv"


def as_two_files(frame: pl.DataFrame, folder: Path) -> list[Path]:
    frame[:11].write_parquet(folder / "a.parquet")
    frame[11:].write_parquet(folder / "b.parquet")
    return [folder / "a.parquet", folder / "b.parquet"]


SOURCES: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    "polars": lambda frame, _: frame,
    "lazy": lambda frame, _: frame.lazy(),
    "pandas": lambda frame, _: pd.DataFrame(frame.to_dict(as_series=False)),
    "arrow": lambda frame, _: pa.table(frame.to_dict(as_series=False)),
    "path": as_csv,
    "files": as_two_files,
    "glob": lambda frame, folder: str(as_two_files(frame, folder)[0].with_name("*.parquet")),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_the_same_counts(kind: str, tmp_path: Path) -> None:
    # With epsilon 10⁵ over 3 hours noise on whole numbers is not 0 with probability below e^-30000.
    job = call(SOURCES[kind](table(), tmp_path), tmp_path, epsilon=10**5)
    assert [release.values.tolist() for release in job.releases] == [[3, 2]] * HOURS


def test_what_a_published_job_offers(tmp_path: Path) -> None:
    job = call(table(), tmp_path, level=0.9)
    releases = job.releases
    assert (len(releases), releases[0].t, [release.t for release in releases[1:]]) == (HOURS, 0, [1, 2, 3, 4, 5])
    frame = job.to_polars()
    assert frame.columns == [
        "step", "time", "place", "value", "low", "high", "fresh", "covers", "as_of", "counted",
    ]  # fmt: skip
    assert frame.height == 2 * HOURS
    assert frame.equals(releases.to_polars())
    assert list(job.to_pandas().columns) == frame.columns
    assert job.spent == Fraction(1)
    assert job.measure == "people per hour"
    accuracy = job.accuracy()
    assert accuracy["fresh"].all()
    assert accuracy.height == HOURS
    halves = (frame["high"] - frame["low"]) / 2
    assert float(np.mean(accuracy["half_width"].to_numpy())) == pytest.approx(float(np.mean(halves.to_numpy())))
    assert "place" in job._repr_html_()


def test_pictures_for_files_and_for_notebooks(tmp_path: Path) -> None:
    job = call(table(), tmp_path)
    picture = job.plot()
    assert picture._repr_png_().startswith(b"\x89PNG")
    picture.save(tmp_path / "copy.png")
    assert job.plot(tmp_path / "releases.svg") is None
    assert "<svg" in (tmp_path / "releases.svg").read_text()


def test_the_same_call_again_spends_nothing(tmp_path: Path) -> None:
    first = call(table(), tmp_path)
    again = call(table(), tmp_path)
    assert (first.summary.published, again.summary.published) == (HOURS, 0)
    assert first.to_polars().equals(again.to_polars())


@pytest.mark.parametrize(
    "mechanism", [vs.FixedRate(interval=3), vs.FixedRate, "fixed-rate"], ids=["made", "class", "name"]
)
def test_mechanisms_by_name_class_or_value(mechanism: Any, tmp_path: Path) -> None:
    more = {} if isinstance(mechanism, vs.FixedRate) else {"set": {"interval": 3}}
    job = call(table(), tmp_path, mechanism=mechanism, **more)
    assert [release.fresh for release in job.releases] == [True, False, False] * 2
    assert job.accuracy()["fresh"].to_list() == [True, False, False] * 2


def test_the_automatic_mechanism_has_the_seasons_of_the_calendar_and_stays(tmp_path: Path) -> None:
    first = call(table(), tmp_path, mechanism="auto")
    again = call(table(), tmp_path, mechanism="auto")
    assert first.prepared.mechanism == again.prepared.mechanism == vs.ModelBased(periods=(24, 168))
    assert (first.summary.published, again.summary.published) == (HOURS, 0)


def test_tables_have_the_latest_version_or_every_one(tmp_path: Path) -> None:
    out = tmp_path / "visits.csv"
    job = call(table(), tmp_path, mechanism="auto", set={"revise": 2}, out=out, plot=tmp_path / "visits.svg")
    latest = job.to_polars()
    assert pl.read_csv(out)["version"].to_list() == latest["version"].to_list()
    own = ["step", "time", "place", "value", "low", "high", "fresh", "covers", "version", "as_of", "counted"]
    assert latest.columns == own
    pairs = latest.select("step", "version").unique(maintain_order=True).rows()
    assert pairs == [(0, 2), (1, 2), (2, 2), (3, 2), (4, 1), (5, 0)]
    every, first = job.to_polars(vintages="all"), job.to_polars(vintages="first")
    assert every["version"].unique().sort().to_list() == [0, 1, 2]
    assert every.filter(pl.col("version") == 0).drop("version").equals(first)
    newest = every.filter(pl.col("version") == pl.col("version").max().over("step"))
    assert newest.equals(latest)
    assert latest["covers"].unique().to_list() == ["count"]
    assert "as first released" in (tmp_path / "visits.svg").read_text()
    call(table(), tmp_path, mechanism="auto", set={"revise": 2}, out=out, vintages="all")
    assert len(pl.read_csv(out)) == len(every)


def test_revised_measures_have_versions_too(tmp_path: Path) -> None:
    rows = table().with_columns(spent=pl.lit(2.0))
    job = call(rows, tmp_path, mechanism="model", set={"revise": 1}, mean="spent", between=(0, 5))
    pairs = job.to_polars().select("step", "version").unique(maintain_order=True).rows()
    assert pairs == [(step, 1) for step in range(HOURS - 1)] + [(HOURS - 1, 0)]


def test_a_stream_goes_on_with_the_mechanism_that_it_began_with(tmp_path: Path) -> None:
    call(table(), tmp_path, mechanism="fixed-rate", set={"interval": 3})
    again = call(table(), tmp_path, mechanism="auto")
    assert again.summary.published == 0


@pytest.mark.parametrize("histogram", [vs.NoiseFirst(), vs.NoiseFirst, "noise-first"], ids=["made", "class", "name"])
def test_histograms_by_name_class_or_value(histogram: Any, tmp_path: Path) -> None:
    job = call(table(), tmp_path, histogram=histogram)
    assert type(job.prepared.mechanism.histogram) is vs.NoiseFirst


def test_a_domain_and_other_objects_of_python(tmp_path: Path) -> None:
    domain = vs.Domain({"place": vs.Categories(DOMAIN["place"])})
    start = datetime(2024, 1, 1)
    job = call(table(), tmp_path, domain=domain, epsilon=Fraction(1, 2), start=start, end=start + timedelta(hours=6))
    assert job.prepared.domain == domain
    assert job.prepared.guarantee.epsilon == Fraction(1, 2)


def test_python_refuses_what_the_command_line_refuses(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'uniform'"):
        call(table(), tmp_path, mechanism="unifrom")
    with pytest.raises(InvalidInputError, match="did you mean 'counts_per_user'"):
        call(table(), tmp_path, counts_per_usr=3)
    with pytest.raises(InvalidInputError) as silence:
        call(table(), tmp_path, end="2024-01-02")
    assert "allow-empty" in silence.value.next_step
    assert "5" in str(silence.value.operator_note)
    assert not (tmp_path / "budget.db").exists()
    call(table(), tmp_path)
    with pytest.raises(LedgerMismatchError):
        call(table(), tmp_path, start="2023-12-31T23:00", unknown="drop")
    with pytest.raises(LedgerMismatchError):
        call(table(), tmp_path, epsilon=2)
    (tmp_path / "budget.db").unlink()
    with pytest.raises(LedgerError):
        call(table(), tmp_path)


def test_a_table_in_memory_leaves_no_trace_of_its_rows(tmp_path: Path) -> None:
    secret = table().with_columns(pl.lit("4711-secret").alias("id"))
    with pytest.raises(InvalidInputError) as caught:
        call(secret, tmp_path, every="1 hour")
    assert "4711" not in str(caught.value)
    job = call(secret, tmp_path)
    assert "4711" not in repr(job)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        assert "4711" not in str(list(ledger.releases("default")))
