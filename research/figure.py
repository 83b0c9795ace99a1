"""What an experiment is: measurements to run, a picture of their table, and what it says about the paper's claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import polars as pl

from veilstream.errors import UnreadableFileError
from veilstream.evaluate.drawing import Drawing
from veilstream.evaluate.runner import Measurement


class Scale(StrEnum):
    """Small runs in seconds to show that it runs; paper is as large as the paper's own, or says where not."""

    SMALL = "small"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Setting:
    """How large, and where real data lie (None: nowhere)."""

    scale: Scale
    data: Path | None = None

    @property
    def small(self) -> bool:
        return self.scale is Scale.SMALL

    def file(self, name: str) -> Path:
        """A file of real data."""
        path = None if self.data is None else self.data / name
        if path is None or not path.is_file():
            raise UnreadableFileError(f"{name}: there is no such file in the directory of data sets")
        return path


class Verdict(StrEnum):
    """Whether the paper's claim holds here."""

    HOLDS = "holds"
    PARTLY = "holds in part"
    FAILS = "does not hold"


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict from the table of results, and an explanation that names its figures; ``table`` is printed below."""

    verdict: Verdict
    explanation: str
    table: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a paper.

    ``name`` is paper-number, as in ``dsat-2``; ``claim`` what the paper reports; ``setup`` what was run here and where
    it differs from the paper; ``needs`` the files of real data; ``record`` the figure whose measurements are also this
    one's, if it runs the same measurements.
    """

    name: str
    title: str
    claim: str
    setup: str
    measurements: Callable[[Setting], Sequence[Measurement]]
    draw: Callable[[pl.DataFrame], Drawing]
    judge: Callable[[pl.DataFrame], Finding]
    needs: tuple[str, ...] = ()
    record: str = ""

    @property
    def number(self) -> str:
        return self.name.rpartition("-")[2]

    def missing(self, setting: Setting) -> tuple[str, ...]:
        """The files it lacks."""
        return tuple(name for name in self.needs if setting.data is None or not (setting.data / name).is_file())


@dataclass(frozen=True, slots=True)
class Paper:
    """The figures of one document, a page of docs/experiments each; ``reference`` is its citation."""

    name: str
    title: str
    reference: str
    figures: tuple[Figure, ...]
