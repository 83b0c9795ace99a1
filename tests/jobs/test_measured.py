"""Sums, means and variances from a table in one call, and by the command line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import veilstream as vs
from tests.cli.support import veilstream
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.mechanisms.streams import STREAMS
from veilstream.storage.ledger import Ledger

STEPS, PEOPLE = 6, 400
ZONES = {"zone": ["north", "south"]}


def fares() -> pl.DataFrame:
    rng = np.random.default_rng(1)  # noqa: TID251 (data)
    person, hour = np.divmod(np.arange(PEOPLE * STEPS), STEPS)
    zone = np.array(ZONES["zone"])[person % 2]
    return pl.DataFrame(
        {
            "id": person,
            "hour": hour,
            "zone": zone,
            "fare": rng.gamma(4, 5, person.size),
            "tip": rng.gamma(1, 2, person.size),
        }
    )


def publish(folder: Path, source: Any = None, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "user": "id", "time": "hour", "by": ["zone"], "domain": ZONES, "every": 1, "start": 0, "end": STEPS,
        "epsilon": 8, "window": 1, "ledger": folder / "budget.db", "between": (0, 100),
    }  # fmt: skip
    return vs.publish(fares() if source is None else source, **{**given, **changes})


def test_a_table_has_a_row_for_every_measure_with_an_interval_around_the_truth(tmp_path: Path) -> None:
    job = publish(tmp_path, mean="fare", variance="fare", sum=["fare", "tip=0..20"], count="fare")
    table = job.to_polars(level=1 - 1e-9)
    own = ["value", "low", "high", "fresh", "covers", "as_of", "counted"]
    assert table.columns == ["step", "time", "zone", "measure", *own]
    assert len(table) == STEPS * 2 * 5
    frame = fares().with_columns(pl.col("tip").clip(0, 20))
    truth = frame.group_by("hour", "zone").agg(
        pl.len().cast(pl.Float64).alias("count fare"),
        pl.col("fare").sum().alias("sum fare"),
        pl.col("tip").sum().alias("sum tip"),
        pl.col("fare").mean().alias("mean fare"),
        pl.col("fare").var(ddof=0).alias("variance fare"),
    )
    long = truth.unpivot(index=["hour", "zone"], variable_name="measure", value_name="true")
    both = table.join(long, left_on=["step", "zone", "measure"], right_on=["hour", "zone", "measure"])
    assert len(both) == len(table)
    # Sixty intervals at a level of 1 − 1e-9 all hold but with a probability below 1e-7.
    assert both.select(((pl.col("low") <= pl.col("true")) & (pl.col("true") <= pl.col("high"))).all()).item()
    assert job.measure == "count fare and sum fare and sum tip and mean fare and variance fare per step"


def test_quantiles_are_published_in_order_with_intervals_around_the_truth(tmp_path: Path) -> None:
    job = publish(tmp_path, quantiles="fare", at="0.25,0.5,0.75", count="fare", plot=str(tmp_path / "fan.png"))
    table = job.to_polars(level=1 - 1e-9)
    names = ["quantile 0.25 fare", "median fare", "quantile 0.75 fare"]
    assert table["measure"].unique(maintain_order=True).to_list() == ["count fare", *names]
    cells = table.pivot("measure", index=["step", "zone"], values="value").select(names).to_numpy()
    assert (np.diff(cells, axis=1) >= 0).all()
    for name, share in zip(names, (0.25, 0.5, 0.75), strict=True):
        truth = fares().group_by("hour", "zone").agg(pl.col("fare").quantile(share, "lower").alias("true"))
        both = table.filter(pl.col("measure") == name).join(truth, left_on=["step", "zone"], right_on=["hour", "zone"])
        assert len(both) == STEPS * 2
        # The quantile of a cell may lie on its edge, by which the ends of intervals are rounded.
        assert both.select(((pl.col("low") <= pl.col("true")) & (pl.col("true") <= pl.col("high"))).all()).item()
    assert (tmp_path / "fan.png").read_bytes().startswith(b"\x89PNG")
    assert publish(tmp_path, quantiles="fare", at="0.25,0.5,0.75", count="fare").to_polars().equals(job.to_polars())
    with pytest.raises(LedgerMismatchError):
        publish(tmp_path, quantiles="fare", at="0.25,0.5,0.75", count="fare", cells=32)


def test_quantiles_between_public_edges_need_no_range(tmp_path: Path) -> None:
    job = publish(tmp_path, median="fare", edges=(0, 5, 10, 20, 40, 100), between=None)
    assert job.to_polars()["low"].is_in([0.0, 5, 10, 20, 40]).all()


def test_the_ledger_knows_what_is_measured(tmp_path: Path) -> None:
    first = publish(tmp_path, mean="fare")
    assert publish(tmp_path, mean="fare").to_polars().equals(first.to_polars())
    for changes in ({"sum": "fare"}, {"mean": "fare", "between": (0, 50)}, {"mean": "tip"}, {}):
        with pytest.raises(LedgerMismatchError):
            publish(tmp_path, **{"between": (0, 100) if changes else None, **changes})
    with Ledger.open(str(tmp_path / "budget.db")) as ledger:
        (spec,) = ledger.streams()
        assert '"measures"' in spec.payload
        assert spec.bins == 4


def test_the_sums_of_a_person_are_bounded_by_rows_and_in_total(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": [1] * 50, "hour": [0] * 50, "zone": ["north"] * 50, "fare": [90.0] * 50})
    job = publish(tmp_path, rows, end=1, sum="fare", counts_per_user=20, most_per_user=150, epsilon=1000)
    north, south = job.to_polars()["value"].to_list()
    # Noise of scale 150/1000: off by 5 with a probability below 1e-14.
    assert abs(north - 150) < 5
    assert abs(south) < 5


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_mechanism_takes_measured_values(tmp_path: Path, name: str) -> None:
    job = publish(tmp_path, mean="fare", mechanism=name, window=3)
    assert len(job.releases) == STEPS
    assert np.isfinite(job.to_polars()["low"].to_numpy()).all()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"mean": "fare", "between": None}, "between"),
        ({"between": (0, 100)}, "between"),
        ({"mean": "fare", "between": (5, 5)}, "between"),
        ({"mean": "fare", "most_per_user": 50}, "most_per_user"),
        ({"sum": "fare", "most_per_user": "0.0001"}, "most_per_user"),
        ({"quantiles": "fare", "at": "0.5,1.5"}, "at"),
        ({"quantiles": "fare", "edges": (0, 50, 20)}, "edges"),
        ({"edges": (0, 50, 100), "between": None}, "edges"),
        ({"mean": "id"}, "user"),
        ({"mean": "nothing"}, "nothing"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_spent(
    tmp_path: Path, changes: dict[str, Any], name: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        publish(tmp_path, **changes)
    assert name in (refused.value.name, str(refused.value).split("'")[1] if "'" in str(refused.value) else "")
    assert not (tmp_path / "budget.db").exists()


def test_the_command_line_publishes_and_previews(tmp_path: Path) -> None:
    fares().write_csv(tmp_path / "fares.csv")
    command = shlex.split(
        f"publish {tmp_path}/fares.csv --time hour --user id --every 1 --start 0 --end {STEPS} --epsilon 1 --window 3 "
        f"--mean fare --sum tip=0..20 --between 0 100 --ledger {tmp_path}/budget.db --out {tmp_path}/out.csv "
        f"--plot {tmp_path}/out.png"
    )
    seen = veilstream(*command, "--dry-run")
    assert seen.code == 0, seen.err
    assert "mean fare" in seen.out
    assert not (tmp_path / "budget.db").exists()
    told = veilstream(*command)
    assert told.code == 0, told.err
    assert "each number is sum tip and mean fare per step" in told.out
    assert pl.read_csv(tmp_path / "out.csv")["measure"].unique().sort().to_list() == ["mean fare", "sum tip"]
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_a_mean_of_nothing_is_an_interval_that_says_so(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": [1], "hour": [0], "zone": ["north"], "fare": [90.0]})
    table = publish(tmp_path, rows, end=1, mean="fare", epsilon=1).to_polars(level=1 - 1e-9)
    assert table["value"].to_list() == [None, None]
    assert table["low"].to_list() == [0, 0]
    assert table["high"].to_list() == [100, 100]
