"""Real files from file to picture: the same settings as one command and as one call."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

BUNDLED: Final = Path(__file__).resolve().parent.parent / "src" / "veilstream" / "cli" / "bundled"
BEIJING: Final = {
    "lat": {"low": 39.75, "high": 40.1, "cells": 14},
    "lon": {"low": 116.15, "high": 116.65, "cells": 20},
}
LONG: Final = "bicycles"
HOURS: Final = 17_544
"""The hours of 2015 and 2016, in which the bicycles are published."""


@dataclass(frozen=True, slots=True)
class RealFile:
    """A file as its source wrote it, and the settings of a publishing job."""

    name: str
    path: Path
    settings: Mapping[str, Any]
    domain: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def there(self) -> bool:
        return self.path.exists()

    def words(self, folder: Path) -> list[str]:
        """The command, with its outputs in ``folder``."""
        found: list[str] = ["publish", str(self.path)]
        for name, value in self.settings.items():
            flag = f"--{name.replace('_', '-')}"
            found += [flag] if value is True else [flag, str(value)]
        if self.domain:
            path = folder / f"{self.key}.json"
            path.write_text(json.dumps(self.domain), encoding="utf-8")
            found += ["--domain", str(path)]
        found += ["--ledger", str(folder / f"{self.key}.db"), "--plot", str(self.picture(folder))]
        return found

    def picture(self, folder: Path) -> Path:
        return folder / f"{self.key}.png"

    @property
    def key(self) -> str:
        return self.name.replace(" ", "-")

    def shown(self, folder: Path) -> str:
        """The command as a reader pastes it."""
        words = [Path(word).name if word.startswith("/") else word for word in self.words(folder)]
        return f"veilstream {shlex.join(words)}"

    def call(self, folder: Path) -> dict[str, Any]:
        """The same settings for ``vs.publish``, with another ledger; a long stream is read from the command's."""
        ledger = folder / (f"{self.key}.db" if self.name == LONG else f"{self.key}-call.db")
        given = {**self.settings, "ledger": ledger}
        return {**given, "domain": dict(self.domain)} if self.domain else given


def real_files() -> list[RealFile]:
    """The five files: one is bundled, four are read from the directory that VEILSTREAM_DATA names."""
    data = Path(os.environ.get("VEILSTREAM_DATA", ".")).resolve()
    return [
        RealFile(
            "web requests",
            data / "worldcup98_sample_requests.csv.gz",
            {
                "time": "unixts", "user": "client_id", "time_format": "epoch-s", "every": "1m",
                "start": "1998-04-30T21:30", "end": "1998-04-30T22:01", "counts_per_user": 20, "bins_per_user": 3,
                "epsilon": 1, "window": "5m",
            },
            {"server": ["32", "96", "97"]},
        ),
        RealFile(
            "check-ins",
            data / "geolife_1min_182users.parquet",
            {
                "time": "time", "user": "user_id", "every": "1w", "start": "2008-10-06", "end": "2009-08-31",
                "unknown": "drop", "epsilon": 2, "window": 1,
            },
            {"lat": {"low": 39.75, "high": 40.1, "cells": 7}, "lon": {"low": 116.15, "high": 116.65, "cells": 10}},
        ),
        RealFile(
            "epidemics",
            BUNDLED / "ilinet_regions.csv.gz",
            {
                "time": "week_start", "value": "visits", "per_person": 1, "every": "1w", "start": "2021-10-03",
                "end": "2024-09-29", "epsilon": "1/4", "window": 52,
            },
            {
                "region": [f"Region {number}" for number in range(1, 11)],
                "age": ["0-4", "5-24", "25-49", "50-64", "65+"],
            },
        ),
        RealFile(
            "taxi trips",
            data / "tdrive_beijing_2008-02-02_16h.parquet",
            {
                "time": "time", "user": "taxi_id", "every": "10m", "start": "2008-02-02T16:00",
                "end": "2008-02-02T17:00", "unknown": "drop", "epsilon": 1, "window": "1h",
            },
            BEIJING,
        ),
        RealFile(
            LONG,
            data / "seattle_fremont_bridge_bikes_hourly.csv.gz",
            {
                "time": "time", "value": "east_sidewalk", "per_person": 2, "every": "1h", "start": "2015-01-01",
                "end": "2017-01-01", "unknown": "drop", "missing_value": "drop", "epsilon": 1, "window": "24h",
                "mechanism": "uniform",
            },
        ),
    ]  # fmt: skip
