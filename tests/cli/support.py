"""A small city for the command line: places, ages, two days of hours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from veilstream.cli import app
from veilstream.storage.ledger import Ledger

DOMAIN = {"place": ["harbour", "market"], "age": {"edges": [0, 18, 65, 120]}}
HEADER = "ts,id,place,age"
SECRET_PLACE = "4711-secret-place"
SECRET_USER = "jane.doe@example.org"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def veilstream(*args: object) -> Outcome:
    """Run the command line in this process."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def overridden(usual: Sequence[object], *more: object) -> list[object]:
    """The usual words, without the options that are given anew with their values, and the new ones."""
    kept = list(usual)
    for flag in more:
        if str(flag).startswith("--") and flag in kept:
            place = kept.index(flag)
            del kept[place : place + 2]
    return [*kept, *more]


def rows(hours: int = 6, people: int = 5) -> list[str]:
    return [
        f"2024-01-01T{hour:02d}:{person * 7:02d}:00,{person},{'harbour' if person % 2 else 'market'},{20 * person}"
        for hour in range(hours)
        for person in range(people)
    ]


@dataclass(frozen=True)
class City:
    """A folder with a file of events and a domain, and the options that publish them."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, lines: Sequence[str] | None = None) -> City:
        (folder / "domain.json").write_text(json.dumps(DOMAIN))
        city = cls(folder)
        city.write(rows() if lines is None else lines)
        return city

    def write(self, lines: Sequence[str], header: str = HEADER) -> None:
        self.events.write_text("\n".join([header, *lines]) + "\n")

    @property
    def events(self) -> Path:
        return self.folder / "visits.csv"

    @property
    def ledger(self) -> Path:
        return self.folder / "budget.db"

    @property
    def table(self) -> Path:
        return self.folder / "releases.csv"

    def options(self, **changes: object) -> list[object]:
        """The usual options; None leaves one out, True gives a flag."""
        chosen: dict[str, object] = {
            "time": "ts",
            "user": "id",
            "domain": self.folder / "domain.json",
            "every": "1h",
            "start": "2024-01-01",
            "end": "2024-01-01T06:00",
            "epsilon": "1",
            "window": "3",
            "ledger": self.ledger,
            "out": self.table,
        } | changes
        words: list[object] = []
        for name, value in chosen.items():
            option = "--" + name.replace("_", "-")
            if value is True:
                words.append(option)
            elif value is not None:
                for one in value if isinstance(value, list) else [value]:
                    words += [option, *(one if isinstance(one, tuple) else (one,))]
        return words

    def publish(self, *more: object, **changes: object) -> Outcome:
        return veilstream("publish", self.events, *self.options(**changes), *more)

    def untouched(self) -> bool:
        """No release, no charge, no stream."""
        if not self.ledger.exists():
            return True
        with Ledger.open(self.ledger) as ledger:
            return not ledger.streams()

    def released(self, stream: str = "default") -> list[list[float]]:
        with Ledger.open(self.ledger) as ledger:
            return [release.values.tolist() for release in ledger.releases(stream)]
