"""JSON from outside, read in one place."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """What a text in JSON says; one that is nested too deeply to be read is a ``ValueError`` like any that is no JSON.

    >>> read_json("[1, 2]")
    [1, 2]
    >>> read_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
