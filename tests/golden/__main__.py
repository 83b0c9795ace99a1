"""Writes what every golden case gives now."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.cases import CASES
from tests.golden.recording import RECORDED, plain, repeated_noise

found: dict[str, Any] = {}
for name, case in CASES.items():
    with tempfile.TemporaryDirectory() as folder, repeated_noise(name):
        found[name] = plain(case(Path(folder)))
lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(found.items())]
RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
