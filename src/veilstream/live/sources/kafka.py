"""A topic of the Kafka protocol: one JSON object a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from veilstream.errors import UnreadableFileError
from veilstream.extras import load
from veilstream.live.sources.base import MILLISECOND, Batch, batch_of_messages

MOST_MESSAGES: Final = 10_000
SECONDS: Final = 1.0
MOST_EMPTY: Final = 20
"""So many times in a row nothing may come of what the broker says is there."""
PARTITION_END: Final = -191
"""The code of librdkafka for the end of a partition."""
LOG_APPEND_TIME: Final = 2


@dataclass(slots=True)
class KafkaSource:
    """All partitions of a topic. Offsets are stored with the rows, in the spool; the broker's are not used.

    Messages arrived when the broker appended them, which ``message.timestamp.type=LogAppendTime`` of the topic has it
    note. ``settings`` go to librdkafka as they are: ``bootstrap.servers``, TLS, SASL.
    """

    topic: str
    settings: Mapping[str, str] = field(repr=False)
    _consumer: Any = field(default=None, init=False, repr=False)
    _at: dict[int, int] = field(default_factory=dict[int, int], init=False, repr=False)
    _ended: set[int] = field(default_factory=set[int], init=False, repr=False)

    @property
    def name(self) -> str:
        return f"kafka:{self.topic}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        kafka = load("confluent_kafka", "Kafka")
        try:
            yield from self._poll(kafka, known, columns)
        except kafka.KafkaException:
            raise UnreadableFileError(f"topic {self.topic}: the broker cannot be reached") from None

    def _poll(self, kafka: Any, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        self._open(kafka, known)
        # What comes meanwhile is for the next time: a busy topic would never be read to its end.
        ends = {number: self._end(kafka, number) for number in self._at}
        empty = 0
        while behind := {number for number, end in ends.items() if self._at[number] < end}:
            messages = self._consumer.consume(MOST_MESSAGES, SECONDS)
            good = [message for message in messages if message.error() is None]
            for message in messages:
                self._note(message)
            empty = 0 if messages else empty + 1
            if empty > 1 and behind <= self._ended:
                return
            if empty > MOST_EMPTY:
                raise UnreadableFileError(f"topic {self.topic}: the broker sends nothing of what it has")
            if good:
                yield batch_of_messages(
                    [message.value() for message in good],
                    [_appended(message) for message in good],
                    columns,
                    {str(message.partition()): str(message.offset() + 1) for message in good},
                )

    def _note(self, message: Any) -> None:
        """How far a partition is read. Its end may be short of its last offset, which a transaction holds back."""
        if message.error() is None:
            self._at[message.partition()] = message.offset() + 1
            self._ended.discard(message.partition())
        elif message.error().code() == PARTITION_END:
            self._ended.add(message.partition())
        else:
            raise UnreadableFileError(f"topic {self.topic}: the broker reports an error; it will be tried again")

    def _end(self, kafka: Any, number: int) -> int:
        first, end = self._consumer.get_watermark_offsets(kafka.TopicPartition(self.topic, number), timeout=10)
        if self._at[number] < 0:
            self._at[number] = int(first)
        if not first <= self._at[number] <= end:
            raise UnreadableFileError(
                f"topic {self.topic}: messages expired before they were read, or the topic was made again",
                next_step="read a topic of another name",
            )
        return int(end)

    def _open(self, kafka: Any, known: Mapping[str, str]) -> None:
        own = {
            "group.id": "veilstream",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        if self._consumer is None:
            self._consumer, self._at = kafka.Consumer({**self.settings, **own}), {}
        found = self._consumer.list_topics(self.topic, timeout=10).topics[self.topic]
        if found.error is not None:
            raise UnreadableFileError(f"topic {self.topic}: the broker does not know it")
        if set(found.partitions) == set(self._at):
            return
        self._at = {number: int(known.get(str(number), kafka.OFFSET_BEGINNING)) for number in found.partitions}
        self._ended = set()
        self._consumer.assign([kafka.TopicPartition(self.topic, number, at) for number, at in self._at.items()])

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _appended(message: Any) -> int | None:
    kind, moment = message.timestamp()
    return moment * MILLISECOND if kind == LOG_APPEND_TIME else None
