"""The catalogues of mechanisms as tables, from the classes themselves."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from veilstream.errors import VeilstreamError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.named import parameters
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import STREAMS, Sample
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import simulate

LEVELS = {
    "event": Guarantee(1, w=1),
    "w-event": Guarantee(1, w=3),
    "user": Guarantee(1, w=None),
    "delta > 0": Guarantee(1, w=3, delta="1e-6"),
}
TRIAL_STEPS = 4


def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Every mechanism with what it does, its parameters and the privacy models under which it runs.

    >>> [row["name"] for row in catalogue()["histograms"]][:2]
    ['geometric', 'gaussian']
    """
    return {
        "streams": [_row(name, kind, _stream_trial(kind)) for name, kind in STREAMS.items()],
        "histograms": [_row(name, kind, Sample(kind())) for name, kind in HISTOGRAMS.items()],
    }


def _row(name: str, kind: type[Any], trial: StreamMechanism[Any]) -> dict[str, Any]:
    own = [p for p in parameters(kind) if not p.is_histogram]
    return {
        "name": name,
        "does": _first_sentence(kind),
        "parameters": {p.name: str(p).removeprefix(f"{p.name} ").strip("()") for p in own},
        "models": [level for level, guarantee in LEVELS.items() if _runs(trial, guarantee)],
    }


def _first_sentence(kind: type[Any]) -> str:
    paragraph = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "").replace("*", "")


def _stream_trial(kind: type[Any]) -> StreamMechanism[Any]:
    """The mechanism with its defaults; a horizon, where it takes one, stands for what a user would give."""
    names = {p.name for p in parameters(kind)}
    mechanism: StreamMechanism[Any] = kind(**({"horizon": TRIAL_STEPS} if "horizon" in names else {}))
    return mechanism


def _runs(mechanism: StreamMechanism[Any], guarantee: Guarantee) -> bool:
    try:
        simulate(mechanism, guarantee, np.zeros((TRIAL_STEPS, 2), dtype=np.int64), seed=1)
    except VeilstreamError:
        return False
    return True


def print_catalogue() -> None:
    from rich.console import Console

    console = Console()
    for title, rows in catalogue().items():
        console.print(_table(title, rows))


def _table(title: str, rows: list[Mapping[str, Any]] | list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_lines=True, expand=True)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it does", ratio=2)
    table.add_column("parameters (--set name=value)", ratio=2)
    table.add_column("privacy", ratio=1)
    for row in rows:
        settings = "\n".join(f"{name}: {text}" for name, text in row["parameters"].items()) or "none"
        table.add_row(row["name"], row["does"], settings, ", ".join(row["models"]))
    return table
