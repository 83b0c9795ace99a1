"""A stream of NATS JetStream: one JSON object a message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from veilstream.errors import MissingExtraError, UnreadableFileError
from veilstream.live.sources.base import Batch, rows_of_messages

MOST_MESSAGES: Final = 5_000
SECONDS: Final = 1.0
SEQUENCE: Final = "sequence"


@dataclass(slots=True)
class NatsSource:
    """Messages of a subject in the order of the stream; how far it was read is stored with the rows."""

    url: str = field(repr=False)
    stream: str
    subject: str

    @property
    def name(self) -> str:
        return f"nats:{self.stream}/{self.subject}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        last = int(known.get(SEQUENCE, 0))
        while True:
            found = asyncio.run(self._fetch(last))
            if not found:
                return
            rows, unreadable = rows_of_messages([data for data, _ in found], columns)
            last = found[-1][1]
            yield Batch(rows, {SEQUENCE: str(last)}, unreadable)

    async def _fetch(self, last: int) -> list[tuple[bytes, int]]:
        try:
            nats, api = import_module("nats"), import_module("nats.js.api")
            errors: Any = import_module("nats.errors")
        except ImportError:
            raise MissingExtraError("NATS needs: pip install 'veilstream[nats]'") from None
        connection: Any = None
        try:
            connection = await nats.connect(self.url, connect_timeout=5, allow_reconnect=False)
            config = api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=last + 1,
                ack_policy=api.AckPolicy.NONE,
                inactive_threshold=30,
            )
            queue = await connection.jetstream().pull_subscribe(self.subject, stream=self.stream, config=config)
            messages = await queue.fetch(MOST_MESSAGES, timeout=SECONDS)
            return [(message.data, message.metadata.sequence.stream) for message in messages]
        except TimeoutError:
            return []
        except errors.Error as error:
            raise UnreadableFileError(f"NATS stream {self.stream}: {type(error).__name__}") from None
        except OSError:
            raise UnreadableFileError(f"NATS stream {self.stream}: the server cannot be reached") from None
        finally:
            if connection is not None:
                await connection.close()

    def close(self) -> None:
        """Nothing is held open."""
