"""The catalogues of mechanisms as tables, from the classes themselves."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

import numpy as np
import typer

from veilstream.cli.options import AsJson
from veilstream.cli.reporting import print_json
from veilstream.errors import VeilstreamError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.named import parameters
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import STREAMS, Sample
from veilstream.mechanisms.traits import Traits
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import simulate

LEVELS = {
    "event": Guarantee(1, w=1),
    "w-event": Guarantee(1, w=3),
    "user": Guarantee(1, w=None),
    "delta > 0": Guarantee(1, w=3, delta="1e-6"),
}
TRIAL_STEPS = 4
SHOWN_TRAITS = ("window_sums", "cumulative", "needs_weights", "sparse")
"""Traits that tell a user what a mechanism is for; the others are for simulations and the ledger."""
WIDEST = 100
AUTOMATIC = (
    "The default. A stream that exists keeps the mechanism with which it began; a new one releases by models (model) "
    "with the seasons of its steps. A histogram alone, and measured columns, are released in every step (uniform)."
)


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
        "traits": [trait for trait, has in asdict(Traits.of(kind)).items() if has and trait in SHOWN_TRAITS],
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


def mechanisms(as_json: AsJson = False) -> None:
    """List stream mechanisms and histograms with their parameters."""
    known = catalogue()
    if as_json:
        print_json(known)
        return
    width = min(get_terminal_size().columns, WIDEST)
    for title, rows in known.items():
        typer.echo(f"{title.upper()}\n")
        if title == "streams":
            typer.echo("\n".join(["auto", *_indented(AUTOMATIC, width)]) + "\n")
        for row in rows:
            typer.echo("\n".join(_lines(row, width)) + "\n")


def _indented(text: str, width: int) -> list[str]:
    return wrap(text, width, initial_indent="  ", subsequent_indent="  ")


def _lines(row: Mapping[str, Any], width: int) -> list[str]:
    """A paragraph about one mechanism: its name and the privacy models it has, what it does, its parameters."""
    marks = [*row["models"], *(trait.replace("_", " ") for trait in row["traits"])]
    lines = [row["name"], *_indented(row["does"], width)]
    lines += wrap(f"works for: {', '.join(marks)}", width, initial_indent="  ", subsequent_indent="    ")
    for name, text in row["parameters"].items():
        lines += wrap(f"--set {name}= {text}", width, initial_indent="  ", subsequent_indent="      ")
    return lines
