"""Outputs that would overwrite what a job reads or keeps are refused before anything is read."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from veilstream.arguments import refuses
from veilstream.data.domain import is_written_out
from veilstream.errors import InvalidInputError

NEXT_STEP = "give the output a name of its own, in a folder that is not read"


@refuses("output", "no file can have the name of the output or of an input")
def refuse_overwriting(outputs: Mapping[str, str | Path | None], inputs: Mapping[str, Any]) -> None:
    """Refuse an output that is an input, lies in a folder or matches a glob that is read, or is another output.

    >>> refuse_overwriting({"out": "visits.csv"}, {"file": "visits.csv"})
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: out visits.csv: it would overwrite file visits.csv; nothing was read
    """
    try:
        _refuse_overwriting(outputs, inputs)
    except OSError as error:
        raise InvalidInputError(
            name="output",
            limit=f"whether it would overwrite what is read cannot be told: {error.strerror}",
            outcome="nothing was read",
        ) from None


def _refuse_overwriting(outputs: Mapping[str, str | Path | None], inputs: Mapping[str, Any]) -> None:
    taken: dict[str, Path] = {}
    for name, given in outputs.items():
        if given is None:
            continue
        target = Path(given)
        for other, source in inputs.items():
            written = other == "domain" and is_written_out(source)
            for path in () if written else _paths(source):
                if _same(target, path):
                    raise _refused(name, target, f"it would overwrite {other} {path}")
                if path.is_dir() and target.resolve().is_relative_to(path.resolve()) and other == "file":
                    raise _refused(name, target, f"it lies in the folder {path}, which is read as input")
                if fnmatch.fnmatch(str(target.absolute()), str(path.absolute())):
                    raise _refused(name, target, f"it would be read as input by {path}")
        for other, path in taken.items():
            if _same(target, path):
                raise _refused(name, target, f"it is the same file as {other}")
        taken[name] = target


def _paths(source: Any) -> list[Path]:
    """The paths that a source names; tables, servers and standard input name none."""
    if isinstance(source, str | Path):
        text = str(source).removeprefix("sqlite:///")
        return [] if "://" in text or text in ("", "-") else [Path(text)]
    if isinstance(source, list | tuple):
        return [path for part in cast(Sequence[Any], source) if isinstance(part, str | Path) for path in _paths(part)]
    return []


def _same(one: Path, other: Path) -> bool:
    if one.resolve() == other.resolve():
        return True
    return one.exists() and other.exists() and one.samefile(other)


def _refused(name: str, value: Path, limit: str) -> InvalidInputError:
    return InvalidInputError(name=name, value=value, limit=limit, outcome="nothing was read", next_step=NEXT_STEP)
