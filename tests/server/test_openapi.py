"""The description of the interface is true: generated requests get answers that it announces."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.server.conftest import StartServer, definition

ENDLESS = ("/v1/live", "/v1/streams/{name}/live")


def check(operation: Any, token: str) -> None:
    """Requests of one operation, made from its description."""
    # Any text is a valid body to the description, and few texts are rows or durations.
    loose = "/events" in operation.path or "/guide/" in operation.path
    accepts_valid: Any = import_module("schemathesis.specs.openapi.checks").positive_data_acceptance

    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(case=operation.as_strategy())
    def answers(case: Any) -> None:
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        case.validate_response(answer, excluded_checks=[accepts_valid] if loose else [])
        assert answer.status_code < 500

    answers()


@pytest.mark.filterwarnings("ignore")
def test_answers_are_those_that_the_description_announces(start_server: StartServer) -> None:
    measured = definition("fares", public=True, mean="fare", between=[0, 100])
    server = start_server(definition(), definition("open", public=True), measured)
    token, _ = server.service.tokens.create("t", ("admin",))
    schemathesis: Any = import_module("schemathesis")
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path not in ENDLESS:
            tried.append(operation.path)
            check(operation, token)
    assert len(tried) >= 17
