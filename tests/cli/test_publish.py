"""What `veilstream publish` does when all is well: releases, resumption, previews, outputs."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from veilstream.mechanisms.streams import STREAMS
from veilstream.privacy.charge import Charge, Span
from veilstream.release.publisher import Publisher
from veilstream.storage.keys import key_id
from veilstream.storage.ledger import Ledger

from .support import City, rows, veilstream

READ = ("value", "low", "high", "fresh", "covers")


@pytest.fixture
def city(tmp_path: Path) -> City:
    return City.make(tmp_path)


def test_publishes_a_tidy_table(city: City) -> None:
    outcome = city.publish()
    assert outcome.code == 0, outcome.err
    table = pl.read_csv(city.table)
    assert table.columns == ["step", "time", "place", "age", *READ, "as_of", "counted"]
    assert len(table) == 6 * 6
    assert table["time"][0] == "2024-01-01T00:00:00+00:00"
    assert table.row(5)[:4] == (0, "2024-01-01T00:00:00+00:00", "market", "[65, 120]")
    assert (table["low"] < table["value"]).all()
    assert (table["value"] < table["high"]).all()
    assert table["fresh"].all()
    assert "released 6 of 6 steps" in outcome.out


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json", "ndjson"])
def test_every_format_holds_the_same(city: City, suffix: str) -> None:
    out = city.folder / f"releases.{suffix}"
    assert city.publish(out=out).code == 0
    read: Any = {"parquet": pl.read_parquet, "csv": pl.read_csv, "json": pl.read_json, "ndjson": pl.read_ndjson}
    table = read[suffix](out)
    assert [table.filter(pl.col("step") == t)["value"].to_list() for t in range(6)] == city.released()
    if suffix == "parquet":
        assert table["time"].dtype == pl.Datetime("us", "UTC")


def test_a_second_run_spends_nothing_and_reads_nothing(city: City) -> None:
    first, values = city.publish(), city.released()
    city.events.write_text("not a table")
    second = city.publish()
    assert (first.code, second.code) == (0, 0)
    assert "nothing new" in second.out
    assert "nothing was spent" in second.out
    assert city.released() == values


def test_a_longer_range_goes_on_where_the_stream_stood(city: City) -> None:
    assert city.publish(end="2024-01-01T02:00", unknown="drop").code == 0
    values = city.released()
    outcome = city.publish()
    assert outcome.code == 0
    assert "released 4 of 6 steps (4 fresh, 0 repeated), after 2 released before" in outcome.out
    assert city.released()[:2] == values
    assert len(pl.read_csv(city.table)) == 36


def test_ctrl_c_stops_after_a_step_and_the_same_command_goes_on(city: City, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Publisher.feed

    def interrupted(self: Any, snapshot: Any, t: int | None = None) -> Any:
        release = feed(self, snapshot, t)
        if release.t == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return release

    monkeypatch.setattr(Publisher, "feed", interrupted)
    outcome = city.publish()
    assert outcome.code == 130
    assert "run the same command again" in outcome.err
    assert len(pl.read_csv(city.table)) == 3 * 6
    before = city.released()
    monkeypatch.undo()
    assert city.publish().code == 0
    assert len(city.released()) == 6
    assert city.released()[:3] == before


def test_the_key_lies_beside_the_ledger_and_is_secret(city: City) -> None:
    city.publish()
    key = city.folder / "budget.db.default.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    stored = json.loads(key.read_text())
    assert sorted(stored) == ["format", "key", "stream"]
    assert len(bytes.fromhex(stored["key"])) == 32
    with Ledger.open(city.ledger) as ledger:
        (spec,) = ledger.streams()
    assert spec.anchor is not None
    assert spec.anchor.start == "2024-01-01T00:00:00+00:00"
    assert spec.key == key_id(bytes.fromhex(stored["key"]))
    assert stored["key"] not in repr(spec)


def test_one_ledger_is_one_however_it_is_written(city: City) -> None:
    """Neither another spelling of the ledger nor another key or start gets past what the stream's row says."""
    assert city.publish(end="2024-01-01T02:00", unknown="drop").code == 0
    for ledger in (f"{city.ledger.parent}/./budget.db", f"sqlite:///{city.ledger}", f"sqlite:///{city.ledger}?x=1"):
        assert city.publish(ledger=ledger, start="2023-12-31").code == 4
        assert city.publish("--json", ledger=ledger, end="2024-01-01T02:00", unknown="drop").json["released_now"] == 0
    other = city.publish(key_file=str(city.folder / "other.key"))
    assert other.code == 4
    assert "missing" in other.err
    (city.folder / "other.key").write_text(json.dumps({"format": 2, "stream": "default", "key": "00" * 32}))
    (city.folder / "other.key").chmod(0o600)
    swapped = city.publish(key_file=str(city.folder / "other.key"))
    assert swapped.code == 4
    assert "key is recorded as" in swapped.err
    assert len(city.released()) == 2


@pytest.mark.parametrize(
    "ledger", ["sqlite://", ":memory:", "sqlite:///:memory:", "sqlite:///file::memory:?mode=memory"]
)
def test_a_ledger_that_forgets_is_refused(city: City, ledger: str) -> None:
    before = sorted(city.folder.iterdir())
    outcome = city.publish(ledger=ledger)
    assert outcome.code == 2
    assert "forget" in outcome.err
    assert sorted(city.folder.iterdir()) == before


def test_steps_never_come_to_mean_other_times(city: City) -> None:
    city.publish(end="2024-01-01T02:00", unknown="drop")
    shifted = city.publish(start="2023-12-31")
    assert shifted.code == 4
    assert "charged twice" in shifted.err
    finer = city.publish(every="30m")
    assert finer.code == 4
    assert len(city.released()) == 2


def test_a_lost_key_is_asked_for(city: City) -> None:
    city.publish(end="2024-01-01T02:00", unknown="drop")
    (city.folder / "budget.db.default.key").unlink()
    outcome = city.publish()
    assert outcome.code == 4
    assert "restore it from a backup" in outcome.err


def test_a_preview_reads_and_writes_nothing(city: City) -> None:
    city.events.unlink()
    outcome = city.publish("--dry-run", mechanism="uniform")
    assert outcome.code == 0, outcome.err
    assert "within any 3 successive steps" in outcome.out
    assert sorted(path.name for path in city.folder.iterdir()) == ["domain.json"]
    machine = city.publish("--dry-run", "--json", mechanism="uniform").json
    assert machine["epsilon_per_release"] == "1/3"
    assert machine["releases_per_window"] == 3
    assert machine["epsilon_per_window"] == "1"
    # Laplace noise of scale 3 on whole numbers: deviation 4.223, mean absolute value 2.945. The mean of 200,000 draws
    # of deviation 3.03 errs by more than 0.1 with probability below 1e-40; the seed is fixed besides.
    assert machine["noise_std"] == pytest.approx(4.223, abs=0.01)
    assert machine["mean_absolute_error"] == pytest.approx(2.945, abs=0.1)


def test_a_preview_of_models_names_the_errors_of_counts_that_stand_still_and_that_jump(city: City) -> None:
    still, moving = (
        city.publish("--dry-run", "--json", mechanism="model").json[name]
        for name in ("mean_absolute_error_if_still", "mean_absolute_error")
    )
    uniform = city.publish("--dry-run", "--json", mechanism="uniform").json
    assert uniform["mean_absolute_error_if_still"] is None
    assert 0 < still < moving == pytest.approx(uniform["mean_absolute_error"], rel=0.2)


@pytest.mark.parametrize("mechanism", sorted(STREAMS))
def test_a_preview_says_what_to_expect_of_every_mechanism(city: City, mechanism: str) -> None:
    outcome = city.publish("--dry-run", "--json", mechanism=mechanism, window=1 if "grouping" in mechanism else 3)
    assert outcome.code == 0, outcome.err
    assert any("mean error of a bin" in line for line in outcome.json["outlook"])
    if mechanism in ("dsft", "dsat"):
        assert any("people" in line for line in outcome.json["outlook"])


def test_a_job_file_is_the_same_as_options(city: City) -> None:
    (city.folder / "job.toml").write_text(
        """
        file = "visits.csv"
        time = "ts"
        user = "id"
        by = ["place"]
        every = "1h"
        start = 2024-01-01T00:00:00Z
        end = 2024-01-01T06:00:00Z
        epsilon = 0.5
        window = 6
        mechanism = "fixed-rate"
        ledger = "budget.db"
        out = "releases.csv"
        [set]
        interval = 2
        [domain]
        place = ["harbour", "market"]
        """
    )
    outcome = veilstream("publish", "--config", city.folder / "job.toml", "--set", "interval=3", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["released_now"] == 6
    assert outcome.json["spent_now"] == "1/2"
    table = pl.read_csv(city.table)
    assert table.filter(pl.col("place") == "market")["fresh"].to_list() == [True, False, False, True, False, False]


def test_counts_that_were_aggregated_before(city: City) -> None:
    city.write([f"{t},{place},{10 * t}" for t in range(4) for place in ("harbour", "market")], "t,place,n")
    options: dict[str, object] = {
        "time": "t", "user": None, "value": "n", "per_person": 2, "by": ["place"],
        "every": 1, "start": 0, "end": 5,
    }  # fmt: skip
    outcome = city.publish("--json", allow_empty=True, **options)
    assert outcome.code == 0, outcome.err
    assert (outcome.json["steps"], outcome.json["bins"], outcome.json["measure"]) == (5, 2, "n per step")
    with Ledger.open(city.ledger) as ledger:
        assert ledger.streams()[0].max_contribution == 2
    assert pl.read_csv(city.table)["time"].unique().sort().to_list() == [0, 1, 2, 3, 4]


def test_rows_of_counts_left_out_are_told_to_the_operator(city: City) -> None:
    city.write(["0,harbour,3", "1,moon,4", "9,harbour,5", ",harbour,6"], "t,place,n")
    options: dict[str, object] = {
        "time": "t", "user": None, "value": "n", "per_person": 1, "by": ["place"], "every": 1, "start": 0, "end": 2,
        "unknown": "drop", "missing_time": "drop",
    }  # fmt: skip
    outcome = city.publish(**options)
    assert outcome.code == 0, outcome.err
    assert "1 with a value outside the domain, 1 outside the time range, 1 without a time" in outcome.err


def test_a_step_without_budget_is_refused_or_repeated(city: City) -> None:
    assert city.publish(end="2024-01-01T02:00", unknown="drop", mechanism="uniform").code == 0
    with Ledger.open(city.ledger) as ledger, ledger.transaction("default") as transaction:
        transaction.commit_failure(2, [Charge(Fraction(1, 3), Span(2, 2), "publish")], "RuntimeError")
    refused = city.publish()
    assert (refused.code, "would cost 4/3" in refused.err) == (3, True)
    assert city.publish(exhausted="repeat").code == 0
    assert pl.read_csv(city.table)["fresh"].to_list() == [step != 2 for step in range(6) for _ in range(6)]


def test_bins_and_range_may_be_declared_public(city: City) -> None:
    outcome = city.publish(
        domain=None, start=None, end=None, by=["place"], public_from_data=True, out=None, window="user",
        set="horizon=50",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "released 6 of 6 steps (6 fresh, 0 repeated)\nstream 'default': 2 bins, epsilon 1" in outcome.out
    assert len(city.released()) == 6


def test_totals_need_no_attributes(city: City) -> None:
    (city.folder / "domain.json").write_text("{}")
    assert city.publish().code == 0
    assert pl.read_csv(city.table).columns == ["step", "time", *READ, "as_of", "counted"]


def test_gaussian_noise_and_streams_side_by_side(city: City) -> None:
    gaussian = city.publish(delta="1e-6", histogram="gaussian", stream="smooth")
    other = city.publish(window="1", mechanism="sample", again=True)
    assert (gaussian.code, other.code) == (0, 0), gaussian.err
    assert len(city.released("smooth")) == len(city.released("default")) == 6


@pytest.mark.parametrize("name", ["few.png", "few.svg", "few.pdf"])
def test_pictures(city: City, name: str) -> None:
    picture = city.folder / name
    assert city.publish(plot=picture).code == 0
    assert picture.stat().st_size > 5_000


def test_many_bins_become_a_heat_map(city: City) -> None:
    (city.folder / "domain.json").write_text(
        json.dumps({"place": ["harbour", "market"], "age": {"low": 0, "high": 100, "cells": 50}})
    )
    picture = city.folder / "many.png"
    outcome = city.publish(plot=picture)
    assert outcome.code == 0, outcome.err
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_rows_in_any_order_and_duplicates_change_nothing(tmp_path: Path) -> None:
    # A person's duplicate rows are bounded away, so both files hold the same counts: at this epsilon, no noise.
    folders = tmp_path / "a", tmp_path / "b"
    for folder, lines in zip(folders, (rows(), [*reversed(rows()), *rows()]), strict=True):
        folder.mkdir()
        assert City.make(folder, lines).publish(epsilon="1000").code == 0
    first, second = (City(folder).released() for folder in folders)
    assert first == second


def test_silence_after_the_last_row_is_published_only_if_it_is_declared_to_be_data(tmp_path: Path) -> None:
    for lines, note in ((rows(hours=1), "the last row lies in step 0"), ([], "no row lies in the time range")):
        city = City.make(tmp_path, lines)
        refused = city.publish("--json")
        assert (refused.code, city.untouched()) == (2, True)
        assert "--allow-empty" in refused.json["error"]["next_step"]
        assert note in refused.err
        assert note not in refused.out
    city.write(rows(hours=1))
    assert city.publish(allow_empty=True).code == 0
    assert len(city.released()) == 6
    city.write([])
    assert city.publish(stream="nobody", again=True, allow_empty=True).code == 0
    assert len(city.released("nobody")) == 6


def test_tables_say_what_is_counted_and_of_which_step(city: City) -> None:
    assert city.publish(mechanism="sample", counts_per_user=3, bins_per_user=2).code == 0
    table = pl.read_csv(city.table)
    assert table.filter(pl.col("place") == "market", pl.col("age") == "[0, 18)")["as_of"].to_list() == [
        0,
        0,
        0,
        3,
        3,
        3,
    ]
    assert table["counted"].unique().to_list() == ["rows, at most 3 per person, per hour"]
    assert table["covers"].unique().to_list() == ["value before noise"]
    assert city.publish(mechanism="model", stream="model", again=True).code == 0
    modelled = pl.read_csv(city.table)
    assert modelled["covers"].unique().to_list() == ["count"]
    assert (modelled["as_of"] == modelled["step"]).all()


def test_whether_silence_is_data_is_recorded_on_the_stream(city: City) -> None:
    def recorded() -> dict[str, bool | None]:
        with Ledger.open(city.ledger) as ledger:
            return {spec.name: spec.allow_empty for spec in ledger.streams()}

    assert city.publish().code == 0
    assert city.publish(stream="quiet", again=True, allow_empty=True).code == 0
    assert recorded() == {"default": False, "quiet": True}
    refused = city.publish("--json", allow_empty=True, end="2024-01-01T08:00")
    assert (refused.code, refused.json["error"]["name"]) == (4, "allow_empty")
    assert "--end" in refused.json["error"]["next_step"]
    # What the stream records holds for later runs.
    assert city.publish(stream="quiet", end="2024-01-01T08:00").code == 0
    assert len(city.released("quiet")) == 8


def test_empty_steps_before_the_last_row_are_published(tmp_path: Path) -> None:
    city = City.make(tmp_path, [line for line in rows() if "T02" not in line])
    assert city.publish().code == 0
    assert len(city.released()) == 6


def test_two_zones_meet_at_the_same_instants(tmp_path: Path) -> None:
    lines = ["2024-01-01T02:30:00+02:00,1,market,30", "2023-12-31T19:30:00-05:00,2,market,30"]
    city = City.make(tmp_path, lines)
    assert city.publish(epsilon="1000", by=["place"], end="2024-01-01T02:00", allow_empty=True).code == 0
    # Laplace noise of scale 3/1000 on whole numbers is not 0 with probability below 1e-140.
    assert city.released() == [[0, 2], [0, 0]]


def test_ledger_commands_read_what_was_done(city: City) -> None:
    city.publish(mechanism="fixed-rate", set="interval=2")
    shown = veilstream("ledger", "show", city.ledger)
    assert shown.code == 0
    assert "epsilon 1 within any 3 successive steps" in shown.out
    assert "publish" in shown.out
    machine = veilstream("ledger", "show", city.ledger, "--json").json["streams"][0]
    assert machine["charges"] == [
        {"purpose": "publish", "outcome": "released", "of_some_bins": False, "count": 3, "epsilon": "3/2"}
    ]
    assert [window["left_in_window"] for window in machine["windows"]] == ["1/2", "1/2", "0", "1/2", "0", "1/2"]
    releases = veilstream("ledger", "releases", city.ledger, "--after", 2, "--limit", 2, "--json").json["releases"]
    assert [release["t"] for release in releases] == [2, 3]
    charges = veilstream("ledger", "charges", city.ledger, "--json").json["charges"]
    assert [(charge["t"], charge["bins"]) for charge in charges] == [(0, None), (2, None), (4, None)]
    assert "as of 0" in veilstream("ledger", "releases", city.ledger).out
    assert "0..0" in veilstream("ledger", "charges", city.ledger).out
    exported = veilstream("ledger", "export", city.ledger)
    kinds = [json.loads(line)["kind"] for line in exported.out.splitlines()]
    assert kinds.count("release") == 6
    assert kinds.count("charge") == 3
    veilstream("ledger", "export", city.ledger, "--out", city.folder / "history.ndjson")
    assert (city.folder / "history.ndjson").read_text() == exported.out


@pytest.mark.xdist_group("postgres")
def test_a_server_as_ledger(city: City, new_postgres: Callable[[], str]) -> None:
    options: dict[str, object] = {"ledger": new_postgres(), "key_file": city.folder / "city.key"}
    assert city.publish(end="2024-01-01T02:00", unknown="drop", **options).code == 0
    outcome = city.publish("--json", **options)
    assert outcome.code == 0, outcome.err
    assert (outcome.json["released_before"], outcome.json["released_now"]) == (2, 4)
    shown = veilstream("ledger", "show", options["ledger"], "--json")
    assert shown.json["streams"][0]["releases"] == 6
    assert len(pl.read_csv(city.table)) == 36


def test_the_catalogue_lists_every_mechanism() -> None:
    listed = veilstream("mechanisms")
    machine = veilstream("mechanisms", "--json").json
    for group in ("streams", "histograms"):
        for row in machine[group]:
            assert row["name"] in listed.out
            assert row["models"]
    fixed = next(row for row in machine["streams"] if row["name"] == "fixed-rate")
    assert fixed["parameters"]["interval"] == "int, default 10"
    assert {"event", "w-event", "user"} <= set(fixed["models"])


def test_versions_and_help() -> None:
    assert veilstream("version").out == veilstream("--version").out
    assert veilstream("version").out.startswith("veilstream ")
    assert "--public-from-data" in veilstream("publish", "--help").out
    assert "publish" in veilstream().out


def test_charges_of_some_bins_are_told_as_such(city: City) -> None:
    """Grouping publishes bins at different times: sums over bins are nobody's cost."""
    city.publish(mechanism="retroactive-grouping", window=1, set="window=4")
    charges = veilstream("ledger", "charges", city.ledger, "--json").json["charges"]
    assert any(isinstance(charge["bins"], list) for charge in charges)
    assert "more than anybody has paid" in veilstream("ledger", "show", city.ledger).out


def test_a_ledger_is_verified_copied_and_compared_with_what_was_seen(city: City) -> None:
    assert city.publish(end="2024-01-01T02:00", unknown="drop").code == 0
    copy, seen = city.folder / "copy" / "ledger.db", city.folder / "seen.jsonl"
    assert veilstream("backup", city.ledger, copy.parent).code == 0
    assert veilstream("backup", city.ledger, copy.parent).code == 4
    assert city.publish().code == 0
    assert veilstream("ledger", "export", city.ledger, "--out", seen).code == 0
    lines = [json.loads(line) for line in seen.read_text().splitlines()]
    assert lines[0]["labels"][0] == {"place": "harbour", "age": "[0, 18)"}
    assert lines[-1]["time"] == "2024-01-01T05:00:00+00:00"
    assert veilstream("ledger", "verify", city.ledger, "--seen", seen, "--json").json["problems"] == []
    behind = veilstream("ledger", "verify", copy, "--seen", seen, "--json")
    assert behind.code == 4
    assert any("rolled back: 4 commits" in finding["problem"] for finding in behind.json["problems"])
