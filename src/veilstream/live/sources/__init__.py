"""Where rows come from beside HTTP: each source remembers, with the rows it brought, how far it was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from veilstream.errors import InvalidInputError
from veilstream.live.sources.base import Batch, Source, SourceState, drain, follow
from veilstream.live.sources.directory import DirectorySource
from veilstream.live.sources.kafka import KafkaSource
from veilstream.live.sources.lake import DeltaSource, IcebergSource
from veilstream.live.sources.nats import NatsSource
from veilstream.live.sources.redis import RedisSource

SOURCES: Final[Mapping[str, type[Any]]] = {
    "directory": DirectorySource,
    "delta": DeltaSource,
    "iceberg": IcebergSource,
    "kafka": KafkaSource,
    "nats": NatsSource,
    "redis": RedisSource,
}

__all__ = ["SOURCES", "Batch", "Source", "SourceState", "drain", "follow", "open_source"]


def open_source(kind: str, settings: Mapping[str, Any]) -> Source:
    """The source called ``kind``.

    >>> open_source("directory", {"path": "incoming"}).name
    'directory:incoming'
    """
    if kind not in SOURCES:
        raise InvalidInputError(name="source", value=kind, limit=f"unknown, choose among {', '.join(SOURCES)}")
    try:
        made: Source = SOURCES[kind](**settings)
    except TypeError:
        wanted = ", ".join(SOURCES[kind].__dataclass_fields__)
        raise InvalidInputError(name="source", value=kind, limit=f"its settings are {wanted}") from None
    return made
