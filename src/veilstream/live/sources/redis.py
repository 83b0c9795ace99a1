"""A Redis stream: the fields of an entry are the columns of a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import polars as pl

from veilstream.errors import MissingExtraError, UnreadableFileError
from veilstream.live.sources.base import Batch

MOST_ENTRIES: Final = 10_000
ENTRY: Final = "entry"


@dataclass(slots=True)
class RedisSource:
    """Entries in the order of their ids; the last id is stored with the rows."""

    url: str = field(repr=False)
    key: str
    _client: Any = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        return f"redis:{self.key}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        try:
            redis: Any = import_module("redis")
        except ImportError:
            raise MissingExtraError("Redis needs: pip install 'veilstream[redis]'") from None
        if self._client is None:
            self._client = redis.Redis.from_url(self.url)
        last = known.get(ENTRY, "0-0")
        while True:
            try:
                answer = self._client.xrange(self.key, min=f"({last}", count=MOST_ENTRIES)
            except redis.RedisError as error:
                raise UnreadableFileError(f"Redis stream {self.key}: {type(error).__name__}") from None
            if not answer:
                return
            rows, unreadable = _rows([fields for _, fields in answer], columns)
            last = answer[-1][0].decode()
            yield Batch(rows, {ENTRY: last}, unreadable)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _rows(entries: list[dict[bytes, bytes]], columns: Sequence[str]) -> tuple[pl.DataFrame, int]:
    names = {name: name.encode() for name in columns}
    good: list[dict[str, str | None]] = []
    for entry in entries:
        try:
            good.append({name: entry[key].decode() if key in entry else None for name, key in names.items()})
        except UnicodeDecodeError:
            continue
    return pl.DataFrame(good, schema=dict.fromkeys(columns, pl.String)), len(entries) - len(good)
