"""What children do in tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from veilstream.errors import InvalidBudgetError

Answers = Iterator[tuple[Mapping[str, Any], bytes]]


def echo(given: Mapping[str, Any], content: bytes) -> Answers:
    for _ in range(given.get("times", 1)):
        yield {"child": os.getpid(), "name": given.get("name")}, content


def harm(given: Mapping[str, Any], content: bytes) -> Answers:
    match given["kind"]:
        case "abort":
            os.abort()
        case "memory":
            yield {"size": len(bytearray(1 << 30))}, b""
        case "processor":
            while True:
                pass
        case "time":
            time.sleep(60)
        case "refuse":
            raise InvalidBudgetError(name="epsilon", value=-1, limit="more than 0", next_step="give more")
        case "private":
            raise KeyError("secret row")
        case "file":
            Path(given["path"]).write_text("secret row", encoding="utf-8")
        case _:
            yield {}, os.environ.get("SECRET", "").encode()
