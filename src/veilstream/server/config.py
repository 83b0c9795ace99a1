"""The file that describes a service: where its ledger is, and its streams."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from veilstream.errors import InvalidInputError
from veilstream.live.definition import StreamDefinition
from veilstream.live.sources import Source, open_source
from veilstream.privacy.population import Population

NAMES: Final = ("ledger", "spool", "hosts", "populations", "streams", "sources")
NOT_READ: Final = "nothing was opened"


@dataclass(frozen=True, slots=True)
class Config:
    """What a configuration file holds."""

    ledger: str | None
    spool: str | None
    hosts: tuple[str, ...]
    populations: tuple[Population, ...]
    streams: tuple[StreamDefinition, ...]
    sources: tuple[tuple[str, Source], ...]


def read_config(path: Path) -> Config:
    """Read a configuration; paths in it are relative to its own directory."""
    try:
        settings: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(name="config", value=path, limit=f"{error.strerror}", outcome=NOT_READ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInputError(name="config", value=path, limit="not valid TOML", outcome=NOT_READ) from None
    for name in settings:
        if name not in NAMES:
            raise InvalidInputError(
                name="config setting", value=name, limit=f"unknown, choose among {', '.join(NAMES)}", outcome=NOT_READ
            )
    streams = _mapping(settings.get("streams", {}))
    return Config(
        _place(path, settings.get("ledger")),
        _place(path, settings.get("spool")),
        tuple(str(host) for host in settings.get("hosts", ())),
        tuple(_population(name, one) for name, one in _mapping(settings.get("populations", {})).items()),
        tuple(StreamDefinition.from_json({**_texts(one), "name": name}) for name, one in streams.items()),
        tuple(_source(one, streams) for one in settings.get("sources", ())),
    )


def _population(name: str, settings: Any) -> Population:
    given = _mapping(settings)
    known = ("epsilon", "window", "every", "start", "zone", "delta", "unit")
    unknown = [one for one in given if one not in known]
    if unknown or not {"epsilon", "window"} <= set(given):
        raise InvalidInputError(
            name="population",
            value=name,
            limit=f"unknown setting {unknown[0]!r}" if unknown else "epsilon and window are needed ('user': for ever)",
            outcome=NOT_READ,
        )
    texts: dict[str, Any] = {key: value if isinstance(value, int) else str(value) for key, value in given.items()}
    window = texts.pop("window")
    return Population(name, window=None if window == "user" else window, **texts)


def _source(settings: Any, streams: dict[str, Any]) -> tuple[str, Source]:
    own = dict(settings)
    name, kind = str(own.pop("stream", "")), str(own.pop("kind", ""))
    if name not in streams:
        raise InvalidInputError(
            name="source for stream", value=name, limit="name a [streams.NAME] of this file", outcome=NOT_READ
        )
    return name, open_source(kind, own)


def _place(config: Path, given: str | None) -> str | None:
    return given if given is None or "://" in given else str(config.parent / given)


def _texts(settings: Any) -> dict[str, Any]:
    """TOML writes dates and numbers without quotes; a definition keeps them as text, exactly."""
    given = _mapping(settings)
    dated = {name: str(given[name]) for name in ("start",) if not isinstance(given.get(name, 0), int)}
    return {**given, **dated}


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInputError("streams: write each as a table [streams.NAME]", outcome=NOT_READ)
    return cast("dict[str, Any]", value)
