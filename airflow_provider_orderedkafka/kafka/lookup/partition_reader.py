"""Consume partitions: their records as they come, and the events of the client.

A partition's position moves with its records and with the ends of its log that the client reports, so it also passes
markers and compacted records, which nobody sees. Where retention has taken a position, watching goes on at the log's
start: what is seen is true of the log as it is.
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
    """Watches partitions up to where they are let go; `positions` says up to where each was seen.

    `gone` counts the offsets that retention had taken before they were seen.

    `recheck` is called when nothing came for a while, and may raise what it found out about the partitions.
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
        """Watch these partitions from these offsets on."""
        self.positions |= starts
        if starts:
            self._pooled.consumer.incremental_assign([KafkaPartition(*p, offset) for p, offset in starts.items()])

    def let_go(self, partitions: Iterable[TopicPartition]) -> None:
        """Watch these no longer: the broker stops sending them."""
        gone = [
            KafkaPartition(*partition) for partition in partitions if self.positions.pop(partition, None) is not None
        ]
        if gone:
            self._pooled.consumer.incremental_unassign(gone)

    def take(self) -> list[Message]:
        """Some records of what is watched, of each partition in order; none where nothing came for a moment.

        Raises UnreachableError when nothing came of anything for as long as the deadline, AccessDeniedError,
        UnknownTopicError, or DataLossError when a log was cut back or a record is damaged.
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
