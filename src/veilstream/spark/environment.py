"""What an executor must have in common with the driver, so that both take the same rows for one person.

Two machines that read ``"é"`` or a decimal differently would count a person twice. The rules live in veilstream's own
code, in Polars and NumPy, and in Python's tables of Unicode: all of these must agree, and a difference is refused
before a row is read.
"""

from __future__ import annotations

import hashlib
import pkgutil
import platform
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Final, TypeAlias

Versions: TypeAlias = Mapping[str, str]
"""From a part of the environment to its version."""
ENTRIES: Final = ("spark.worker", "spark.record_worker")
"""The modules whose functions executors run."""
_IMPORT: Final = re.compile(r"^from veilstream\.([\w.]+) import", re.MULTILINE)


@cache
def modules() -> tuple[str, ...]:
    """All that executors import of veilstream; beside it they need NumPy, Polars and PyArrow.

    >>> "errors" in modules(), "trusted.counts" in modules()
    (True, False)
    """
    known: dict[str, None] = {}
    waiting = list(ENTRIES)
    while waiting:
        module = waiting.pop()
        if module not in known:
            known[module] = None
            waiting += _IMPORT.findall(source(module).decode())
    return tuple(sorted(known))


def source(module: str) -> bytes:
    """The text of a module, from a folder or from an archive."""
    return pkgutil.get_data("veilstream", source_path(module)) or b""


def difference(here: Versions, there: Versions) -> tuple[str, str, str] | None:
    """The first part that differs, its version here and its version there.

    >>> difference(environment(), environment()) is None
    True
    >>> difference({"polars": "1.0"}, {"polars": "2.0"})
    ('polars', '1.0', '2.0')
    """
    return next(((name, here[name], there[name]) for name in here if here[name] != there[name]), None)


def source_path(module: str) -> str:
    """Where a module lies inside the package."""
    return module.replace(".", "/") + ".py"


@cache
def environment() -> Versions:
    """The versions of this process, which must be equal on the driver and on every executor."""
    code = hashlib.sha256()
    for module in modules():
        code.update(source(module))
    return {
        "veilstream": code.hexdigest()[:12],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "unicode": unicodedata.unidata_version,
        "numpy": version("numpy"),
        "polars": version("polars"),
        "pyarrow": version("pyarrow"),
    }
