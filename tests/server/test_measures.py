"""Measured columns over HTTP: rows in, statistics with intervals out, and a page that draws them."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import expect

from tests.server.conftest import Running, StartServer, definition
from tests.server.test_guide import REQUEST
from tests.server.test_ingest import CSV, body, send
from tests.server.test_page import browser, page
from tests.server.test_read import arrays, events
from veilstream.data import Calendar
from veilstream.live import LiveStream, open_stream
from veilstream.release import smoothing
from veilstream.release.sinks import release_tables
from veilstream.server import board as board_module
from veilstream.server.board import StreamBoard
from veilstream.server.demo import Replay, definitions

__all__ = ["browser", "page"]
FARES = {"a": [10.0, 20.0, 30.0, 60.0], "b": []}
LABELS = ["count fare", "mean fare", "quantile 0.1 fare", "median fare", "quantile 0.9 fare"]


def measured(start_server: StartServer, **changes: Any) -> Running:
    """Fares of one hour in two places, of which nobody came to the second; noise is too small to be seen."""
    asked: dict[str, Any] = {"mean": "fare", "quantiles": "fare", "count": "fare", "between": [0, 100], "cells": 100}
    server = start_server(definition(public=True, units={"fare": "USD"}, **{**asked, **changes}))
    rows = pl.DataFrame(
        {"id": range(4), "ts": ["2024-01-01T00:10"] * 4, "place": ["a"] * 4, "fare": FARES["a"]},
    )
    with server.client("ingest") as client:
        assert send(client, body(rows, CSV)).status_code == 202
        assert send(client, body(rows.drop("fare"), CSV)).status_code == 422
    server.until_visible("visits", 1)
    return server


def test_statistics_with_intervals_in_every_format(start_server: StartServer) -> None:
    server = measured(start_server)
    with server.client() as client:
        info = client.get("/v1/streams/visits").json()
        assert [one["label"] for one in info["measures"]] == LABELS
        assert [one["share"] for one in info["measures"]] == [None, None, 0.1, 0.5, 0.9]
        assert [one["unit"] for one in info["measures"]] == ["", *["USD"] * 4]
        assert (info["headline"], info["so_far"], info["spark"]["total"][1]) == ("mean fare", False, None)
        assert abs(info["spark"]["total"][0] - 30) < 0.1
        found = client.get("/v1/streams/visits/releases").json()
        assert (found["measures"], found["half"]) == (LABELS, None)
        count, mean, _, median, _ = (found["values"][0][place : place + 2] for place in range(0, 10, 2))
        assert np.allclose(count, [4, 0], atol=0.01)
        assert (abs(mean[0] - 30) < 0.1, mean[1]) == (True, None)
        assert 20 <= median[0] <= 31
        # Nothing is known of a mean of nothing but its range.
        assert (found["low"][0][3], found["high"][0][3]) == (0, 100)
        assert found["low"][0][2] <= mean[0] <= found["high"][0][2]
        for form, read in (("csv", pl.read_csv), ("parquet", pl.read_parquet), ("arrow", pl.read_ipc_stream)):
            table = read(io.BytesIO(client.get("/v1/streams/visits/releases", params={"format": form}).content))
            assert table.columns[2:7] == ["place", "measure", "value", "low", "high"]
            assert table["value"].to_list() == [value for row in found["values"] for value in row]
            assert table["measure"].to_list()[::2] == LABELS * 2
        drawn = arrays(client.get("/v1/streams/visits/releases", params={"format": "columns"}).content)
        for name in ("values", "low", "high"):
            assert np.allclose(drawn[name].T, np.array(found[name], float), equal_nan=True)
    (event,) = events(server.url, "/v1/streams/visits/live?after=-1", 1)
    assert event[1]["values"] == found["values"][:1]


def test_the_page_draws_a_fan_and_names_measure_and_unit(start_server: StartServer, page: Any) -> None:
    server = measured(start_server, domain={})
    page.goto(f"{server.url}/streams/visits#chart")
    page.wait_for_selector("[data-head='1']")
    expect(page.locator("#measure option")).to_have_text(["Mean fare (USD)", "Quantiles of fare (USD)", "Count fare"])
    page.select_option("#measure", "1")
    expect(page.locator(".key").last).to_contain_text("10% to 90% of rows")
    assert "Quantiles of fare" in page.locator(".chart").first.get_attribute("aria-label")
    page.click("button[data-kind='table']")
    expect(page.locator("tbody tr").last).to_contain_text("quantile 0.9 fare")
    server.until_visible("visits", 2)
    page.wait_for_selector("[data-head='2']")
    page.goto(server.url)
    expect(page.locator("a.card")).to_contain_text("mean fare of the last hour")


def test_the_guide_knows_measures(start_server: StartServer) -> None:
    server = start_server(definition())
    with server.client() as client:
        seen = client.post("/v1/guide/preview", json={**REQUEST, "mean": "fare", "between": ["0", "100"]}).json()
        assert seen["measures"][0][0] == "mean fare"
        assert "--mean fare --between 0 100 --missing-value drop" in " ".join(
            shlex.split(seen["command"].replace("\\\n", " "))
        )
        assert "stream.estimates" in seen["python"]
        wrong = client.post("/v1/guide/preview", json={**REQUEST, "mean": "fare"})
        assert (wrong.status_code, "between" in wrong.json()["error"]["message"]) == (422, True)


def test_the_demo_measures_ages_and_adds_up_visits() -> None:
    known = {one.name: one for one in definitions()}
    ages = known["influenza-years"].measures
    assert ages is not None
    assert ages.labels[-1] == "quantile 0.9 years of age"
    assert known["influenza-total"].mechanism == "running-total"
    years = Replay().week(0)["years of age"].to_numpy()
    assert ((years > 0) & (years < 95)).all()
    assert 5 < np.median(years) < 50


def board_with(monkeypatch: pytest.MonkeyPatch, stream: LiveStream, kept_bytes: int) -> StreamBoard:
    monkeypatch.setattr(board_module, "CACHE_BYTES", kept_bytes)
    board = StreamBoard(stream.definition, stream.ledger, 0)
    board.advance(0)
    return board


def test_readers_programs_and_tables_have_the_same_quantiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "BLOCK", 2)
    monkeypatch.setattr(board_module, "READ_AT_ONCE", 3)
    asked = {"user": "id", "time": "step", "start": 0, "every": 1, "epsilon": 1, "window": 1, "clock": "manual"}
    asked |= {"quantiles": "fare", "between": [0, 100], "cells": 64}
    rows = pl.DataFrame({"id": range(900), "step": [t for t in range(9) for _ in range(100)], "fare": [40.0] * 900})
    found: dict[bool, list[list[float]]] = {}
    for smooth in (True, False):
        # What readers see may change from one opening to the next: it decides nothing about what was released.
        with open_stream(tmp_path / "b.db", "s", {**asked, "smooth": smooth}) as stream:
            if smooth:
                stream.add(rows)
                stream.close_until(9)
            whole = [[float(one.value[0]) for one in estimates] for _, estimates in stream.estimates()]
            middle = list(stream.releases())[4].seq
            later = [[float(one.value[0]) for one in estimates] for _, estimates in stream.estimates(after=middle)]
            kept, forgetful = (board_with(monkeypatch, stream, size) for size in (1 << 20, 0))
            first = [one.values.tolist() for one in kept.read(0, 8)]
            again = [one.values.tolist() for one in (*forgetful.read(3, 8), *forgetful.read(0, 2))]
            calendar, domain = Calendar(0, 9, 1), stream.definition.bound_domain
            measures = stream.definition.measures
            tables = release_tables(stream.ledger, "s", domain, calendar, measures=measures, smooth=smooth)
        table = pl.concat(tables)["value"].to_numpy().reshape(9, 3)
        np.testing.assert_allclose(whole[5:], later, rtol=1e-6)
        for other in (first, again[6:] + again[:6], table):
            np.testing.assert_allclose(whole, other, rtol=1e-6)
        found[smooth] = whole
    # Equal only if all of 24 values of steps by themselves lie outside their cells' insides: far below 1e-6.
    assert found[True][1:] != found[False][1:]
