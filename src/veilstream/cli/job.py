"""A publishing job: what the command line says, or a TOML file with the same names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from veilstream.errors import InvalidInputError

Moment: TypeAlias = int | str | datetime | date
Policy: TypeAlias = Literal["error", "drop"]
PATHS = ("file", "domain", "ledger", "out", "plot", "key_file")


class Job(BaseModel):
    """Everything ``veilstream publish`` needs to know; unknown names are errors.

    >>> job = Job.build({"time": "ts", "user": "id", "every": "1h", "epsilon": "1", "window": 24})
    >>> job.mechanism, job.max_contribution
    ('uniform', 1)
    >>> Job.build({"time": "ts", "user": "id", "every": "1h", "epsilon": "1", "windw": 24})
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: window: missing, it must be given; windw: no such setting; nothing was read
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    file: str | None = None
    time: str
    user: str | None = None
    by: tuple[str, ...] | None = None
    value: str | None = None
    per_person: int | None = None

    domain: str | dict[str, Any] | None = None
    every: str | int
    start: Moment | None = None
    end: Moment | None = None
    zone: str = "UTC"
    public_from_data: bool = False

    epsilon: str | int | float
    window: int | Literal["user"]
    delta: str | int | float = 0
    mechanism: str = "uniform"
    histogram: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict, alias="set")
    bins_per_user: int = 1
    counts_per_user: int = 1
    unknown: Policy = "error"
    missing_time: Policy = "error"
    exhausted: Literal["error", "repeat"] = "error"

    ledger: str | None = None
    stream: str = Field(default="default", min_length=1)
    key_file: str | None = None
    out: str | None = None
    plot: str | None = None
    level: float = Field(default=0.95, gt=0, lt=1)

    @property
    def max_contribution(self) -> int:
        """How many counts one person may add to a step."""
        return self.counts_per_user if self.per_person is None else self.per_person

    @model_validator(mode="after")
    def _one_kind_of_input(self) -> Self:
        if self.value is None and self.per_person is not None:
            raise ValueError("per_person: only for counts that come with 'value'; events are bounded instead")
        if self.value is None and self.user is None:
            raise ValueError(
                "user: missing, it must name the column of people's ids (or give 'value' and 'per_person' for "
                "counts that are aggregated already)"
            )
        if self.value is not None and self.user is not None:
            raise ValueError("user: not allowed with 'value', which takes counts without people")
        if self.value is not None and self.per_person is None:
            raise ValueError(
                "per_person: missing, with 'value' you must declare how much one person can add to the counts of one "
                "step; it cannot be learned from counts"
            )
        return self

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> Self:
        """Check the settings; one line says all that is wrong with them."""
        try:
            return cls.model_validate(dict(settings))
        except ValidationError as error:
            problems = "; ".join(_problem(dict(item)) for item in error.errors(include_url=False))
            raise InvalidInputError(f"{problems}", outcome="nothing was read") from None

    @classmethod
    def load(cls, config: Path | None, given: Mapping[str, Any]) -> Self:
        """The job of a TOML file, overridden by what was ``given`` on the command line.

        Relative paths in the file are relative to the file's own directory, so that a job runs the same from anywhere.
        """
        settings = {} if config is None else _read_toml(config)
        chosen = {name: value for name, value in given.items() if value is not None and name != "set"}
        merged = {**dict(settings.get("set") or {}), **dict(given.get("set") or {})}
        return cls.build({**settings, **chosen, "set": merged})


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInputError(
            name="config", value=path, limit="there is no such file", outcome="nothing was read"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            name="config", value=path, limit=f"not valid TOML ({error})", outcome="nothing was read"
        ) from None
    except OSError as error:
        raise InvalidInputError(
            name="config", value=path, limit=f"{error.strerror}", outcome="nothing was read"
        ) from None
    for name in PATHS:
        value = settings.get(name)
        if isinstance(value, str) and "://" not in value:
            settings[name] = str(path.parent / value)
    return settings


def _problem(item: Mapping[str, Any]) -> str:
    name = ".".join(str(part) for part in item["loc"][:1])
    match item["type"]:
        case "extra_forbidden":
            return f"{name}: no such setting"
        case "missing":
            return f"{name}: missing, it must be given"
        case "value_error":
            return str(item["ctx"]["error"])
        case _:
            return f"{name} {item['input']!r}: {str(item['msg']).lower()}"
