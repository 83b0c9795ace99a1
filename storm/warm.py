"""Everything loaded once, before processes are forked by the thousand.

A statement is compiled when an engine first meets it, and every process opens its own ledger: compiling would take
most of the time between two kills. Engines of this experiment therefore share what was compiled, as those of a process
that has run for long do by themselves.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from unittest import mock

import sqlalchemy as sa
from sqlalchemy import Engine
from sqlalchemy.util import LRUCache

from storm.subjects import Place, Subject
from veilstream.release import transacting

LOADED: Final = ("pandas", "pyarrow.compute", "pyarrow.csv", "zoneinfo")
"""Parts that are loaded when they are first needed."""
SNAPSHOTS: Final = 4
"""After so many commits the accountant is written down: far more often than usual, so that it is met by kills."""
_create_engine: Final = sa.create_engine
_dialects: Final[dict[str, Any]] = {}
_compiled: Final[LRUCache[Any, Any]] = LRUCache(4096)


def _sharing_engine(url: Any, **options: Any) -> Engine:
    engine = _create_engine(url, **options)
    engine.dialect = _dialects.setdefault(engine.dialect.name, engine.dialect)
    vars(engine)["_compiled_cache"] = _compiled
    return engine


def share_compiled() -> None:
    """From now on engines share what they compiled."""
    mock.patch.object(sa, "create_engine", _sharing_engine).start()


def warm_up(subjects: Iterable[Subject], servers: Iterable[str] = ()) -> None:
    """Run every kind of work once, on a file and on the given servers, so that children start warm."""
    share_compiled()
    mock.patch.object(transacting, "INTERVAL", SNAPSHOTS).start()
    for name in LOADED:
        import_module(name)
    for subject in subjects:
        with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
            for ledger in (f"{folder}/ledger.db", *servers):
                for _ in range(2):
                    subject.work(Place(ledger, Path(folder)), lambda _: None)
    gc.collect()
    gc.freeze()


def fast_folder() -> str | None:
    """Where files need no disk: a kill does not ask whether they had one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
