"""A Redis stream: the fields of an entry are the columns of a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.errors import UnreadableFileError
from veilstream.extras import load
from veilstream.live.sources.base import MILLISECOND, Batch

MOST_ENTRIES: Final = 10_000
ENTRY: Final = "entry"
NO_SUCH_KEY: Final = "no such key"
LATEST: Final = 1 << 52
"""Milliseconds that a tick can hold; an id that is later was not given by a clock."""


@dataclass(slots=True)
class RedisSource:
    """Entries in the order of their ids; the last id is stored with the rows.

    They arrived at the time that their ids tell: let Redis give them (``XADD key *``).
    """

    url: str = field(repr=False)
    key: str
    _client: Any = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        return f"redis:{self.key}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        redis = load("redis", "Redis")
        if self._client is None:
            self._client = redis.Redis.from_url(self.url, socket_timeout=30, socket_connect_timeout=5)
        last = known.get(ENTRY, "0-0")
        try:
            end = self._end(redis)
            if _parts(end) < _parts(last) and end != "0-0":
                raise UnreadableFileError(
                    f"Redis stream {self.key}: it ends before what was read of it; it was made again with older ids",
                    next_step="add entries with XADD key *, or give the stream another key",
                )
            # What comes meanwhile is for the next time: a busy stream would never be read to its end.
            while _parts(last) < _parts(end):
                answer = self._client.xrange(self.key, min=f"({last}", max=end, count=MOST_ENTRIES)
                if not answer:
                    return
                last = answer[-1][0].decode()
                yield batch_of_entries(answer, columns)
        except redis.RedisError as error:
            raise UnreadableFileError(f"Redis stream {self.key}: {type(error).__name__}") from None

    def _end(self, redis: Any) -> str:
        try:
            return str(self._client.xinfo_stream(self.key)["last-generated-id"].decode())
        except redis.ResponseError as error:
            if NO_SUCH_KEY in str(error):
                return "0-0"
            raise

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _parts(entry: str) -> tuple[int, int]:
    first, _, second = entry.partition("-")
    return int(first), int(second)


def batch_of_entries(entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]], columns: Sequence[str]) -> Batch:
    """Entries of a stream with their ids, each a row of its own."""
    names = {name: name.encode() for name in columns}
    rows: list[dict[str, str | None]] = []
    arrived: list[int] = []
    for entry, fields in entries:
        try:
            rows.append({name: fields[key].decode() if key in fields else None for name, key in names.items()})
        except UnicodeDecodeError:
            continue
        arrived.append(min(_parts(entry.decode())[0], LATEST) * MILLISECOND)
    frame = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String))
    return Batch(frame, {ENTRY: entries[-1][0].decode()}, len(entries) - len(rows), np.array(arrived, np.int64))
