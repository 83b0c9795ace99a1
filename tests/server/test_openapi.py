"""The description of the interface is true: generated requests get answers that it announces."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.server.conftest import StartServer, definition

schemathesis: Any = import_module("schemathesis")
accepts_valid: Any = import_module("schemathesis.specs.openapi.checks").positive_data_acceptance
ENDLESS = ("/v1/live", "/v1/streams/{name}/live")


@pytest.mark.filterwarnings("ignore")
def test_answers_are_those_that_the_description_announces(start_server: StartServer) -> None:
    server = start_server(definition(), definition("open", public=True))
    token, _ = server.service.tokens.create("t", ("admin",))
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        tried.append(f"{operation.method} {operation.path}")

        @settings(
            max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
        )
        @given(case=operation.as_strategy())
        def check(case: Any, rows: bool = operation.path.endswith("/events")) -> None:
            answer = case.call(headers={"Authorization": f"Bearer {token}"})
            # Any text is a valid body to the description, and few texts are rows of this stream.
            case.validate_response(answer, excluded_checks=[accepts_valid] if rows else [])
            assert answer.status_code < 500

        check()
    assert len(tried) >= 14
