"""Parts that need packages which are not installed with veilstream alone, and how to get them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from veilstream.errors import MissingExtraError

EXTRAS: Final = {
    "cli": ("typer", "rich"),
    "plot": ("matplotlib",),
    "duckdb": ("duckdb",),
    "postgres": ("psycopg",),
    "server": ("fastapi", "uvicorn", "httpx", "starlette"),
    "telemetry": ("opentelemetry",),
    "kafka": ("confluent_kafka",),
    "nats": ("nats",),
    "redis": ("redis",),
    "lake": ("deltalake", "pyiceberg"),
    "spark": ("pyspark",),
}
"""Extra -> the packages that it brings, as they are imported."""


def extra_of(module: str) -> str | None:
    """The extra that brings a module.

    >>> extra_of("nats.js.api"), extra_of("json")
    ('nats', None)
    """
    package = module.partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def missing(extra: str, purpose: str) -> MissingExtraError:
    """The error that says how to install an extra."""
    cure = f"pip install 'veilstream[{extra}]'"
    return MissingExtraError(f"{purpose} needs: {cure}", name=extra, next_step=cure)


def require(module: str, purpose: str) -> None:
    """Refuse what needs an absent package, before anything is spent, and say how to install it."""
    extra = extra_of(module)
    if extra is not None and find_spec(module.partition(".")[0]) is None:
        raise missing(extra, purpose)


def load(module: str, purpose: str) -> Any:
    """A module of an extra."""
    require(module, purpose)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        extra = extra_of(error.name or "")
        if extra is None:
            raise
        raise missing(extra, purpose) from None


def drawing(part: str = "") -> Any:
    """A module of Matplotlib, which is slow to load and needed for pictures alone."""
    return load(f"matplotlib.{part}" if part else "matplotlib", "drawing pictures")
