"""A stream of NATS JetStream: one JSON object a message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple

from veilstream.errors import UnreadableFileError
from veilstream.extras import load
from veilstream.live.clock import EPOCH
from veilstream.live.sources.base import Batch, batch_of_messages

MOST_MESSAGES: Final = 5_000
SECONDS: Final = 5.0
MICROSECOND: Final = timedelta(microseconds=1)


class _Fetched(NamedTuple):
    """Messages, and the stream that they are of: one that is made again under its name is another."""

    stream: str
    messages: list[Any]
    more: bool


@dataclass(slots=True)
class NatsSource:
    """Messages of a subject in the order of the stream; how far it was read is stored with the rows.

    They arrived when the server of NATS stored them.
    """

    url: str = field(repr=False)
    jetstream: str
    subject: str

    @property
    def name(self) -> str:
        return f"nats:{self.jetstream}/{self.subject}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        positions, more = dict(known), True
        while more:
            fetched = asyncio.run(self._fetch(positions))
            more = fetched.more
            if fetched.messages:
                positions[fetched.stream] = str(fetched.messages[-1].metadata.sequence.stream)
                yield batch_of_messages(
                    [message.data for message in fetched.messages],
                    [(message.metadata.timestamp - EPOCH) // MICROSECOND for message in fetched.messages],
                    columns,
                    {fetched.stream: positions[fetched.stream]},
                )

    async def _fetch(self, positions: Mapping[str, str]) -> _Fetched:
        nats, api, errors = (load(f"nats{part}", "NATS") for part in ("", ".js.api", ".errors"))
        connection: Any = None
        try:
            connection = await nats.connect(self.url, connect_timeout=5, allow_reconnect=False)
            jetstream = connection.jetstream()
            found = await jetstream.stream_info(self.jetstream)
            stream, last = str(found.created), int(positions.get(str(found.created), 0))
            if found.state.last_seq < last:
                raise UnreadableFileError(
                    f"NATS stream {self.jetstream}: it ends before what was read of it; an old copy was put back",
                    next_step="put the present one back, or make the stream again",
                )
            config = api.ConsumerConfig(
                deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=last + 1,
                ack_policy=api.AckPolicy.NONE,
                inactive_threshold=30,
            )
            if found.state.last_seq == last:
                return _Fetched(stream, [], more=False)
            queue = await jetstream.pull_subscribe(self.subject, stream=self.jetstream, config=config)
            pending = (await queue.consumer_info()).num_pending
            if not pending:
                return _Fetched(stream, [], more=False)
            messages = await queue.fetch(min(MOST_MESSAGES, pending), timeout=SECONDS)
            # What came meanwhile is for the next time: a busy stream would never be read to its end.
            more = (
                bool(messages[-1].metadata.num_pending) and messages[-1].metadata.sequence.stream < found.state.last_seq
            )
            return _Fetched(stream, messages, more)
        except (errors.Error, TimeoutError) as error:
            raise UnreadableFileError(f"NATS stream {self.jetstream}: {type(error).__name__}") from None
        except OSError:
            raise UnreadableFileError(f"NATS stream {self.jetstream}: the server cannot be reached") from None
        finally:
            if connection is not None:
                await connection.close()

    def close(self) -> None:
        """Nothing is held open."""
