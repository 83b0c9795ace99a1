"""A topic of the Kafka protocol: one JSON object a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from veilstream.errors import MissingExtraError, UnreadableFileError
from veilstream.live.sources.base import Batch, rows_of_messages

MOST_MESSAGES: Final = 10_000
SECONDS: Final = 1.0
PARTITION_END: Final = -191
"""The code of librdkafka for the end of a partition."""


@dataclass(slots=True)
class KafkaSource:
    """All partitions of a topic. Offsets are stored with the rows, in the spool; the broker's are not used.

    ``settings`` go to librdkafka as they are: ``bootstrap.servers``, TLS, SASL.
    """

    topic: str
    settings: Mapping[str, str] = field(repr=False)
    _consumer: Any = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        return f"kafka:{self.topic}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        if self._consumer is None:
            self._consumer = self._open(known)
        consumer: Any = self._consumer
        while True:
            messages = consumer.consume(MOST_MESSAGES, SECONDS)
            if not messages:
                return
            good = [message for message in messages if message.error() is None]
            failed = [message for message in messages if message.error() is not None]
            if any(message.error().code() != PARTITION_END for message in failed):
                self.close()
                raise UnreadableFileError(f"topic {self.topic}: the broker reports an error; it will be tried again")
            if good:
                rows, unreadable = rows_of_messages([message.value() for message in good], columns)
                ends = {str(message.partition()): str(message.offset() + 1) for message in good}
                yield Batch(rows, ends, unreadable)

    def _open(self, known: Mapping[str, str]) -> Any:
        try:
            kafka: Any = import_module("confluent_kafka")
        except ImportError:
            raise MissingExtraError("Kafka needs: pip install 'veilstream[kafka]'") from None
        own = {
            "group.id": "veilstream",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
        }
        consumer = kafka.Consumer({**self.settings, **own})
        try:
            found = consumer.list_topics(self.topic, timeout=10).topics[self.topic]
            if found.error is not None:
                raise UnreadableFileError(f"topic {self.topic}: the broker does not know it")
            consumer.assign(
                [
                    kafka.TopicPartition(self.topic, number, int(known.get(str(number), kafka.OFFSET_BEGINNING)))
                    for number in found.partitions
                ]
            )
        except kafka.KafkaException:
            consumer.close()
            raise UnreadableFileError(f"topic {self.topic}: the broker cannot be reached") from None
        return consumer

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
