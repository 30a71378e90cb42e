"""Consume partitions: their records as they arrive, and the events of the client.

A partition's position follows its records and the ends of its log that the client reports, so it also passes markers
and compacted records, which consumers do not see. If retention has deleted a position, reading continues at the log's
start.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.consumers import PooledConsumer
from airflow_provider_orderedkafka.kafka.clients.events import PartitionEvents, What

_ASK: Final = 2_000
_BLINK: Final = 0.05
_TOPIC, _PARTITION, _OFFSET, _ERROR = Message.topic, Message.partition, Message.offset, Message.error


class PartitionReader:
    """Reads partitions until they are let go; `positions` has the next offset of each.

    `gone` counts offsets that retention deleted before they were read. `recheck` is called when nothing arrived for a
    while, and may raise what it finds out about the partitions.
    """

    def __init__(
        self,
        pooled: PooledConsumer,
        limits: Mapping[TopicPartition, int],
        deadline: float,
        recheck: Callable[[], None],
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.gone = 0
        self._pooled = pooled
        self._limits = limits
        self._events = PartitionEvents(pooled, deadline, recheck)

    def begin(self, starts: Mapping[TopicPartition, int]) -> None:
        self.positions |= starts
        if starts:
            self._pooled.consumer.incremental_assign([KafkaPartition(*p, offset) for p, offset in starts.items()])

    def let_go(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these, so that the broker stops sending them."""
        gone = [
            KafkaPartition(*partition) for partition in partitions if self.positions.pop(partition, None) is not None
        ]
        if gone:
            self._pooled.consumer.incremental_unassign(gone)

    def take(self) -> list[Message]:
        """The next records, in order within each partition; none if nothing arrived for a moment.

        Raises UnreachableError if nothing arrives until the deadline, AccessDeniedError, UnknownTopicError, or
        DataLossError if a log was truncated or a record is damaged.
        """
        messages: list[Message] = self._pooled.consumer.consume(_ASK, 0) or self._pooled.consumer.consume(1, _BLINK)
        if any(map(_ERROR, messages)):
            for event in [message for message in messages if message.error() is not None]:
                self._hear(event)
            messages = [message for message in messages if message.error() is None]
        if not messages:
            self._events.silence(self.positions, self._limits)
        places = zip(map(_TOPIC, messages), map(_PARTITION, messages), strict=True)
        for (topic, number), offset in dict(zip(places, map(_OFFSET, messages), strict=True)).items():
            self._move(TopicPartition(topic, number), offset + 1)
        return messages

    def _move(self, partition: TopicPartition, position: int) -> None:
        if partition in self.positions:
            self._events.progress()
            self.positions[partition] = max(position, self.positions[partition])

    def _hear(self, message: Message) -> None:
        event = self._events.event(message)
        if event is None or event.partition not in self.positions:
            return
        if event.what is What.LOG_END:
            self._move(event.partition, event.offset)
        else:
            self._go_on_at_log_start(event.partition)

    def _go_on_at_log_start(self, partition: TopicPartition) -> None:
        position = self.positions[partition]
        start = self._events.log_start(partition, position)
        self.gone += max(start - position, 0)
        self.let_go([partition])
        self.begin({partition: max(start, position)})
