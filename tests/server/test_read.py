"""Releases out: at their public time, in every format, once for all readers."""

from __future__ import annotations

import io
import json
import math
import threading
import time
from datetime import datetime
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tests.server.conftest import Running, StartServer, definition
from tests.server.test_ingest import CSV, body, frame, send


def published(start_server: StartServer, steps: int = 5, **changes: Any) -> Running:
    server = start_server(definition(public=True, **changes))
    with server.client("ingest") as client:
        send(client, body(frame(*range(7)), CSV))
    server.until_visible("visits", steps - 1)
    return server


def arrays(body: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a body of columns by their names."""
    length = int.from_bytes(body[:8], "little")
    place, found = 8 + length, dict[str, NDArray[Any]]()
    for column in json.loads(body[8:place])["columns"]:
        kind = np.dtype(column["type"])
        assert place % kind.itemsize == 0
        count = math.prod(column["shape"])
        found[column["name"]] = np.frombuffer(body, kind, count, place).reshape(column["shape"])
        place += count * kind.itemsize
    assert place == len(body)
    return found


def test_releases_in_pages_without_gaps(start_server: StartServer) -> None:
    server = published(start_server)
    with server.client() as client:
        whole = client.get("/v1/streams/visits/releases").json()
        assert whole["step"] == [0, 1, 2, 3, 4]
        assert whole["values"][0] == [7, 0]
        assert whole["next"] is None
        seen: list[int] = []
        step: Any = 0
        while step is not None:
            page = client.get("/v1/streams/visits/releases", params={"from": step, "limit": 2}).json()
            seen += page["step"]
            step = page["next"]
        assert seen == whole["step"]
        newest = client.get("/v1/streams/visits/releases", params={"limit": 2, "newest": True}).json()
        assert newest["step"] == [3, 4]
        part = client.get("/v1/streams/visits/releases", params={"from": 1, "to": 2}).json()
        assert (part["step"], part["next"]) == ([1, 2], None)
        body = client.get("/v1/streams/visits/releases", params={"format": "columns"}).content
        header = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
        assert header["covers"] == list(dict.fromkeys(whole["covers"]))
        drawn = arrays(body)
        assert drawn["values"].T.tolist() == whole["values"]
        assert (drawn["step"].tolist(), drawn["fresh"].tolist()) == (whole["step"], [1] * 5)
        assert drawn["time"].tolist() == [datetime.fromisoformat(text).timestamp() for text in whole["time"]]
        assert np.allclose(drawn["half"], np.array(whole["half"]).T)


def test_revisions_of_what_is_shown(start_server: StartServer) -> None:
    server = published(start_server, mechanism="model", settings={"revise": 2})
    with server.client() as client:
        whole = client.get("/v1/streams/visits/revisions").json()
        pairs = list(zip(whole["step"], whole["version"], strict=True))
        assert pairs[:5] == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1)]
        assert [step + version for step, version in pairs] == whole["made"]
        assert max(whole["made"]) <= whole["head"]
        assert [len(values) for values in whole["values"]] == [2] * len(pairs)
        assert set(whole["covers"]) == {"count"}
        page = client.get("/v1/streams/visits/revisions", params={"from": 1, "limit": 2, "latest": True}).json()
        assert (page["step"], page["version"], page["next"]) == ([1, 2], [2, 2], 3)


@pytest.mark.parametrize(
    ("form", "read"), [("csv", pl.read_csv), ("parquet", pl.read_parquet), ("arrow", pl.read_ipc_stream)]
)
def test_releases_as_tables(start_server: StartServer, form: str, read: Any) -> None:
    server = published(start_server)
    with server.client() as client:
        answer = client.get("/v1/streams/visits/releases", params={"format": form})
        table = read(io.BytesIO(answer.content))
        assert table.columns == ["step", "time", "place", "value", "low", "high", "fresh", "covers", "as_of"]
        assert table["value"].to_list()[:2] == [7, 0]
        assert len(table) == 10
        assert "attachment" in answer.headers["content-disposition"]


def test_a_repeated_value_says_of_which_step_it_is(start_server: StartServer) -> None:
    server = start_server(definition(public=True, mechanism="fixed-rate", settings={"interval": 2}))
    server.until_visible("visits", 4)
    board = server.service.boards["visits"]
    with server.client() as client:
        page = client.get("/v1/streams/visits/releases").json()
        assert page["fresh"] == [True, False, True, False, True]
        assert page["as_of"] == [0, 0, 2, 2, 4]
        # What is read again from the ledger says the same as what was kept.
        board._kept.clear()
        table = client.get("/v1/streams/visits/releases", params={"format": "csv"}).content
        assert pl.read_csv(table)["as_of"].unique(maintain_order=True).to_list() == [0, 2, 4]


def test_nothing_is_seen_before_its_public_time_however_early_it_was_published(start_server: StartServer) -> None:
    server = start_server(definition(public=True, grace="5m", delay="10s"))
    timetable = server.service.boards["visits"].definition.timetable
    server.clock.tick = timetable.shown(0) - 1
    deadline = time.monotonic() + 10
    while server.service.boards["visits"].published < 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.service.boards["visits"].published == 0
    with server.client() as client:
        page = client.get("/v1/streams/visits/releases").json()
        assert (page["step"], page["head"]) == ([], -1)
        assert client.get("/v1/streams/visits").json()["head"] == -1
        server.until_visible("visits", 0)
        assert client.get("/v1/streams/visits/releases").json()["step"] == [0]


def test_many_readers_cost_one_read_and_a_known_answer_costs_nothing(start_server: StartServer) -> None:
    server = published(start_server)
    with server.client() as client:
        first = client.get("/v1/streams/visits/releases")
        reads = server.service.cache.reads
        again = [
            client.get("/v1/streams/visits/releases", headers={"if-none-match": first.headers["etag"]})
            for _ in range(50)
        ]
        assert {answer.status_code for answer in again} == {304}
        assert not any(answer.content for answer in again)
        assert client.get("/v1/streams/visits/releases").content == first.content
        assert server.service.cache.reads == reads
        server.until_visible("visits", 5)
        assert (
            client.get("/v1/streams/visits/releases", headers={"if-none-match": first.headers["etag"]}).status_code
            == 200
        )


def events(url: str, path: str, count: int, **headers: str) -> list[tuple[int, dict[str, Any]]]:
    found: list[tuple[int, dict[str, Any]]] = []
    with httpx.stream("GET", url + path, headers=headers, timeout=30) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        number = -1
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            if line.startswith("data: "):
                found.append((number, json.loads(line[6:])))
                if len(found) == count:
                    return found
    return found


def test_events_resume_where_a_reader_left(start_server: StartServer) -> None:
    server = published(start_server)
    path = "/v1/streams/visits/live"
    assert [number for number, _ in events(server.url, path + "?after=-1", 5)] == [0, 1, 2, 3, 4]
    resumed = events(server.url, path, 2, **{"last-event-id": "2"})
    assert [(number, page["step"]) for number, page in resumed] == [(3, [3]), (4, [4])]


def test_events_come_by_themselves(start_server: StartServer) -> None:
    server = published(start_server)
    found: list[Any] = []
    heads = threading.Event()

    def follow_all() -> None:
        with httpx.stream("GET", f"{server.url}/v1/live", timeout=30) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    found.append((0, json.loads(line[6:])))
                    heads.set()
                    if len([page for _, page in found if "visits" in page]) == 2:
                        return

    reader = threading.Thread(target=lambda: found.extend(events(server.url, "/v1/streams/visits/live?after=4", 1)))
    everything = threading.Thread(target=follow_all)
    reader.start()
    everything.start()
    assert heads.wait(20)
    server.until_visible("visits", 5)
    reader.join(20)
    everything.join(20)
    assert sorted(str(page.get("step", page)) for _, page in found) == ["[5]", "{'visits': 4}", "{'visits': 5}"]


def test_budget_says_what_is_left_and_when_it_comes_back(start_server: StartServer) -> None:
    server = published(start_server, window=4)
    with server.client() as client:
        budget = client.get("/v1/streams/visits/budget").json()
        assert (budget["spent"], budget["left"]) == ("1000000", "0")
        assert budget["returns"][0] == {"step": 1, "epsilon": "250000", "at": "2024-01-01T05:00:00+00:00"}


def test_a_reader_sees_public_facts_and_no_secret(start_server: StartServer) -> None:
    server = published(start_server)
    with server.client() as client:
        (info,) = client.get("/v1/streams").json()["streams"]
        assert info["labels"] == ["a", "b"]
        assert info["spark"]["total"][0] == 7
        assert "hidden" in info["promise"]
        assert info["next_shown"] == "2024-01-01T06:00:10+00:00"
        assert not {"key", "fates", "late", "rows"} & set(info)


def test_health_says_whether_steps_are_closed(start_server: StartServer) -> None:
    server = published(start_server)
    with server.client() as client:
        assert client.get("/health/live").json() == {"status": "ok"}
        assert client.get("/health/ready").status_code == 200
        server.service.problems["visits"] = ("LedgerBusyError", 1e18)
        assert client.get("/health/ready").status_code == 503


def test_metrics_and_logs_hold_no_number_of_people(start_server: StartServer, caplog: pytest.LogCaptureFixture) -> None:
    server = published(start_server)
    with server.client("ingest", "operate") as client:
        for size in (3, 777):
            assert send(client, body(frame(*range(size)), CSV)).status_code == 202
        text = client.get("/metrics").text
        assert 'veilstream_batches_total{outcome="accepted"} 3' in text
        assert "777" not in text
        # An operator of one stream sees the names of no others (tests/server/test_run.py).
        assert 'veilstream_stream_up{stream="visits"} 1' in text
        assert "777" not in caplog.text


def test_the_operator_sees_late_rows_and_readers_do_not(start_server: StartServer) -> None:
    server = published(start_server)
    with server.client("ingest", "operate") as client:
        send(client, body(frame(1, 2, 3), CSV))
        (view,) = client.get("/v1/operate").json()["streams"]
        assert sum(hour["late"] for hour in view["hours"]) == 3
        whole = client.get("/v1/operate").json()
        assert (whole["ready"], whole["batches"], whole["batch_p99"] > 0) == (True, {"accepted": 2}, True)
    with server.client("read") as client:
        assert client.get("/v1/operate").status_code == 403
