"""Counts say whether they are of people or of rows, and people can be counted once over several steps or so far."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import veilstream as vs
from tests.cli.support import veilstream
from veilstream.errors import InvalidInputError

STEPS = 8
PLACES = {"place": ["a", "b"]}
PRECISE = 5_000


def visits() -> pl.DataFrame:
    rng = np.random.default_rng(2)  # noqa: TID251 (data)
    rows = 4_000
    return pl.DataFrame(
        {"id": rng.integers(0, 900, rows), "day": rng.integers(0, STEPS, rows), "place": rng.choice(["a", "b"], rows)}
    )


def publish(folder: Path, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "user": "id", "time": "day", "every": 1, "start": 0, "end": STEPS, "epsilon": PRECISE, "window": 2,
        "ledger": folder / "budget.db",
    }  # fmt: skip
    return vs.publish(visits(), **{name: value for name, value in {**given, **changes}.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, "people per step"),
        ({"counts_per_user": 3}, "rows, at most 3 per person, per step"),
        ({"distinct": "step"}, "distinct people per step"),
        ({"distinct": "step", "bins_per_user": 2}, "distinct people, each in at most 2 bins, per step"),
        ({"distinct": 3}, "distinct people of the last 3 steps"),
        ({"distinct": "so-far", "window": None, "delta": "1e-6"}, "distinct people, total so far"),
    ],
)
def test_every_output_says_what_is_counted(tmp_path: Path, changes: dict[str, Any], counted: str) -> None:
    job = publish(tmp_path, out=str(tmp_path / "out.csv"), **changes)
    assert job.measure == counted
    assert pl.read_csv(tmp_path / "out.csv")["counted"].unique().to_list() == [counted]
    assert counted in repr(job.releases)
    assert job.summary.as_json()["measure"] == counted


def test_people_of_the_last_steps_are_those_who_came_in_them(tmp_path: Path) -> None:
    job = publish(tmp_path, distinct=3)
    frame = visits()
    expected = [frame.filter(pl.col("day").is_between(t - 2, t))["id"].n_unique() for t in range(STEPS)]
    # Noise of scale 4/5000: off by a half with a probability below 1e-100.
    assert np.rint(job.to_polars()["value"].to_numpy()).tolist() == expected
    assert job.prepared.promised == vs.Guarantee(PRECISE, w=2)
    assert job.prepared.guarantee == vs.Guarantee(PRECISE, w=4)


def test_people_so_far_count_once_for_ever(tmp_path: Path) -> None:
    job = publish(tmp_path, distinct="so-far", window=None, delta="1e-6")
    frame = visits()
    expected = np.array([frame.filter(pl.col("day") <= t)["id"].n_unique() for t in range(STEPS)])
    # Noise of a standard deviation below 0.1 at this epsilon: off by 1 with a probability below 1e-20.
    assert np.abs(job.to_polars()["value"].to_numpy() - expected).max() < 1
    assert str(job.prepared.promised).endswith("a person counts in at most 1 steps")


def test_totals_that_may_not_fall_are_fitted_to_all_releases(tmp_path: Path) -> None:
    job = publish(tmp_path, distinct="so-far", window=None, delta="1e-6", epsilon=1)
    fitted, released = job.nondecreasing(), job.to_polars()
    assert (np.diff(fitted["value"].to_numpy()) >= 0).all()
    assert fitted.drop("value").equals(released.drop("value"))
    # Least squares keep the weighted mean: here all noises are nearly alike.
    assert fitted["value"].mean() == pytest.approx(released["value"].mean(), abs=20)
    with pytest.raises(InvalidInputError) as refused:
        publish(tmp_path, stream="steps").nondecreasing()
    assert refused.value.name == "nondecreasing"


@pytest.mark.parametrize(
    "changes",
    [
        {"distinct": "ever"},
        {"distinct": 0},
        {"distinct": "step", "counts_per_user": 2},
        {"distinct": "step", "mean": "day", "between": (0, 8)},
        {"distinct": 3, "window": "user", "presence": 2},
        {"distinct": "so-far", "delta": "1e-6"},
        {"distinct": "so-far", "window": "user", "presence": 2, "delta": "1e-6"},
        {"distinct": "so-far", "window": None, "delta": "1e-6", "mechanism": "sample"},
        {"distinct": 3, "population": "residents"},
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_spent(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        publish(tmp_path, **changes)
    assert refused.value.name == "distinct"
    assert not (tmp_path / "budget.db").exists()


def test_without_delta_people_so_far_are_refused_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="give delta"):
        publish(tmp_path, distinct="so-far", window=None)


def test_a_dry_run_says_how_long_a_visit_is_seen(tmp_path: Path) -> None:
    visits().write_csv(tmp_path / "visits.csv")
    seen = veilstream(
        *shlex.split(
            f"publish {tmp_path}/visits.csv --time day --user id --every 1 --start 0 --end {STEPS} --epsilon 1 "
            f"--window 2 --distinct 3 --ledger {tmp_path}/budget.db --dry-run"
        )
    )
    assert seen.code == 0, seen.err
    words = " ".join(seen.out.replace("│", " ").split())
    assert "one visit counts in 3 successive steps; 4 of them share the budget" in words
    assert "within any 2 successive steps" in words
