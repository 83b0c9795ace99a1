"""What is wrong with the settings of a job, in one error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from veilstream.errors import InvalidInputError, VeilstreamError


def refusal(problems: Sequence[Mapping[str, Any]], known: Sequence[str]) -> VeilstreamError:
    """One error that says all that is wrong with settings; its fields are those of the first problem."""
    own = problems[0]["ctx"]["error"] if problems[0]["type"] == "value_error" else None
    if len(problems) == 1 and isinstance(own, VeilstreamError):
        return own
    name, limit, given = _problem(problems[0], known)
    missing = limit.startswith("missing")
    flag = f"--{name.replace('_', '-')}"
    advice = f"give {_missing(problems, known)}" if missing else f"correct {flag} and try again"
    if len(problems) == 1:
        return InvalidInputError(name=name, limit=limit, outcome="nothing was read", next_step=advice, **given)
    listed = "; ".join(_sentence(*_problem(problem, known)) for problem in problems)
    return InvalidInputError(listed, name=name, limit=limit, outcome="nothing was read", next_step=advice)


def _missing(problems: Sequence[Mapping[str, Any]], known: Sequence[str]) -> str:
    """The options that are missing."""
    told = (_problem(item, known) for item in problems)
    flags = [f"--{name.replace('_', '-')}" for name, limit, _ in told if limit.startswith("missing")]
    return f"{', '.join(flags)} (in Python and in a job file without the dashes)"


def _sentence(name: str, limit: str, given: Mapping[str, Any]) -> str:
    return f"{name} {given['value']!r}: {limit}" if given else f"{name}: {limit}"


def _problem(item: Mapping[str, Any], known: Sequence[str]) -> tuple[str, str, dict[str, Any]]:
    """The setting's name, what is wrong with it, and its value where that is to blame."""
    name = ".".join(str(part) for part in item["loc"][:1])
    match item["type"]:
        case "extra_forbidden":
            near = get_close_matches(name, known, n=1)
            return name, "no such setting" + (f", did you mean '{near[0]}'?" if near else ""), {}
        case "missing":
            return name, "missing, it must be given", {}
        case "value_error":
            about, _, limit = str(item["ctx"]["error"]).partition(": ")
            return about, limit, {}
        case _:
            return name, str(item["msg"]).lower(), {"value": item["input"]}
