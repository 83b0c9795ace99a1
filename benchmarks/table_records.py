"""Measured runs of a suite that takes long, kept in a directory so that it can be broken off and gone on with.

A record is found again only by the code that made it: its key holds a digest of the sources of the models.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypedDict

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ("src/veilstream/synthesis", "src/veilstream/mechanisms/histograms")
KEPT: Final = os.environ.get("TABLES_KEPT", "")
"""A directory for records; without it nothing is kept."""
MINUTES: Final = float(os.environ.get("TABLES_MINUTES", "inf"))
"""After so many minutes no further run is begun, and the suite ends: run it again to go on."""


class PeerFigure(TypedDict):
    """A mean of so many runs."""

    runs: int
    means: list[float]


class Records:
    """Numbers by the name of a run; with ``finished``, of those alone that are kept."""

    def __init__(self, finished: bool = False) -> None:
        self.finished = finished
        digest = hashlib.sha256()
        for folder in SOURCES:
            for path in sorted((ROOT / folder).rglob("*.py")):
                digest.update(path.read_bytes())
        self.path = Path(KEPT) / f"runs-{digest.hexdigest()[:16]}.json" if KEPT else None
        self.known: dict[str, list[float]] = {}
        self.begun = time.monotonic()
        if self.path is not None and self.path.exists():
            self.known = json.loads(self.path.read_text())

    def get(self, name: str, measure: Callable[[], list[float]]) -> list[float]:
        """What was measured under this name, now or before; nothing if it is not kept and none is to be measured."""
        if name not in self.known and self.finished:
            return []
        if name not in self.known:
            if time.monotonic() - self.begun > 60 * MINUTES:
                raise SystemExit(f"{len(self.known)} runs are kept; run the suite again to go on")
            self.known[name] = measure()
            if self.path is not None:
                self.path.write_text(json.dumps(self.known))
        return self.known[name]


class PeerFigures:
    """Means of what peers reached, by table, ε and peer, in a file of the repository.

    Their fits take hours and do not change with our code: a run without them takes what is kept, one with them keeps
    what it measured in at least as many runs.
    """

    def __init__(self, path: Path = ROOT / "benchmarks" / "table_peers.json") -> None:
        self.path = path
        self.known: dict[str, PeerFigure] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def get(self, key: str, measured: Sequence[Sequence[float]]) -> list[list[float]]:
        """One row for every run: those that were measured now, or the kept mean as often as it was measured."""
        kept = self.known.get(key)
        if measured and (kept is None or len(measured) >= kept["runs"]):
            means = [float(f"{sum(column) / len(measured):.4g}") for column in zip(*measured, strict=True)]
            self.known[key] = kept = {"runs": len(measured), "means": means}
            rows = [f"  {json.dumps(name)}: {json.dumps(figure)}" for name, figure in sorted(self.known.items())]
            self.path.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        return [list(kept["means"])] * kept["runs"] if kept else []
