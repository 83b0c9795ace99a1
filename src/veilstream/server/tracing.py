"""Spans of OpenTelemetry where it is installed and set up; they name streams and outcomes, never numbers of rows."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any


@cache
def _tracer() -> Any:
    try:
        return import_module("opentelemetry.trace").get_tracer("veilstream")
    except ImportError:
        return None


@contextmanager
def span(name: str, **facts: str) -> Generator[None]:
    """A span around a block; nothing where OpenTelemetry is not installed.

    Errors are recorded by their kind alone: what they say may name columns and streams.
    """
    tracer = _tracer()
    if tracer is None:
        yield
        return
    attributes = {f"veilstream.{key}": value for key, value in facts.items()}
    with tracer.start_as_current_span(
        f"veilstream.{name}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except Exception as error:
            current.set_attribute("veilstream.error", type(error).__name__)
            raise
