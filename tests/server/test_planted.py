"""Answers of the service tell nothing of the rows that it refuses."""

from __future__ import annotations

import logging

import pytest

from tests.cli.test_planted import ID, VALUE, assert_nothing_planted
from tests.server.conftest import StartServer, definition


def test_http_errors_tell_nothing_of_the_rows(start_server: StartServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="veilstream")
    server = start_server(definition(bad_rows="refuse"))
    good = "2024-01-01T00:10:00"
    bodies = [
        f"id,ts,place\n{ID},{good},{VALUE}\n",
        f"id,ts,place\n{ID},{VALUE},a\n",
        f"id,ts,place\n{ID},{good}\n",
        f"id,ts,place\n{ID},{good},a,{VALUE}\n",
        f"{ID},{VALUE},x\n",
        f'id,ts,place\n"{ID},{good},{VALUE}\n',
        f'{{"id": "{ID}", "place": "{VALUE}"',
        f'{{"id": ["{ID}"], "ts": "{good}", "place": "{VALUE}"}}\n',
    ]
    refused = 0
    with server.client("ingest") as client:
        for body in bodies:
            for kind in ("text/csv", "application/x-ndjson", "application/vnd.apache.parquet", "text/plain"):
                answer = client.post("/v1/streams/visits/events", content=body, headers={"content-type": kind})
                refused += answer.status_code >= 400
                assert answer.status_code < 500, answer.text
                assert_nothing_planted(answer.text + str(answer.headers))
    assert refused == 4 * len(bodies)
    assert_nothing_planted(caplog.text)
