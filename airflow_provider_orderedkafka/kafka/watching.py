"""Partitions under a consumer's eyes: their records as they come, and what else the client tells of them.

A partition's position moves with its records and with the ends of its log that the client reports, so it also passes
markers and compacted records, which nobody sees. Where retention has taken a position, watching goes on at the log's
start: what is seen is true of the log as it is.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.errors import (
    AccessDeniedError,
    DataLossError,
    UnreachableError,
)
from airflow_provider_orderedkafka.kafka.answers import DENIED, listed
from airflow_provider_orderedkafka.kafka.consumers import KeptConsumer

_ASK: Final = 2_000
_BLINK: Final = 0.05
_ANSWER_SECONDS: Final = 10.0
_TOPIC, _PARTITION, _OFFSET, _ERROR = Message.topic, Message.partition, Message.offset, Message.error
_DAMAGED: Final = {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG}
# A consumer looks for its group's coordinator although it never joins; it need not be allowed to.
_OF_NO_CONCERN: Final = {KafkaError.GROUP_AUTHORIZATION_FAILED}


class Watch:
    """Watches partitions up to where they are let go; `positions` says up to where each was seen."""

    def __init__(self, kept: KeptConsumer, limits: Mapping[TopicPartition, int], deadline: float) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self._kept = kept
        self._limits = limits
        self._deadline = deadline
        self._log_ends: dict[TopicPartition, int] = {}
        self._last_progress = time.monotonic()

    def begin(self, starts: Mapping[TopicPartition, int]) -> None:
        """Watch these partitions from these offsets on."""
        self.positions |= starts
        if starts:
            self._kept.consumer.incremental_assign([KafkaPartition(*p, offset) for p, offset in starts.items()])

    def let_go(self, partitions: Iterable[TopicPartition]) -> None:
        """Watch these no longer: the broker stops sending them."""
        gone = [
            KafkaPartition(*partition) for partition in partitions if self.positions.pop(partition, None) is not None
        ]
        if gone:
            self._kept.consumer.incremental_unassign(gone)

    def take(self) -> list[Message]:
        """Some records of what is watched, of each partition in order; none where nothing came for a moment.

        Raises UnreachableError when nothing came of anything for as long as the deadline, AccessDeniedError, or
        DataLossError when a log was cut back or a record is damaged.
        """
        messages: list[Message] = self._kept.consumer.consume(_ASK, 0) or self._kept.consumer.consume(1, _BLINK)
        if any(map(_ERROR, messages)):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
            for event in events:
                self._handle(event)
        if not messages:
            self._check()
        places = zip(map(_TOPIC, messages), map(_PARTITION, messages), map(_OFFSET, messages), strict=True)
        for (topic, number), offset in {(topic, number): offset for topic, number, offset in places}.items():
            self._move(TopicPartition(topic, number), offset + 1)
        return messages

    def _move(self, partition: TopicPartition, position: int) -> None:
        if partition in self.positions:
            self._last_progress = time.monotonic()
            self.positions[partition] = max(position, self.positions[partition])

    def _handle(self, event: Message) -> None:
        """Act on what the client says beside the records."""
        error, topic = event.error(), event.topic()
        code = error.code()
        partition = None if topic is None else TopicPartition(topic, event.partition())
        if code in _OF_NO_CONCERN or (partition is not None and partition not in self.positions):
            return
        if partition is not None and code == KafkaError._PARTITION_EOF:
            self._log_ends[partition] = event.offset()
            self._move(partition, event.offset())
        elif partition is not None and code == KafkaError._AUTO_OFFSET_RESET:
            self._go_on_at_log_start(partition)
        elif partition is not None and code in DENIED:
            raise AccessDeniedError(f"Kafka refuses to give {partition}: {error.str()}; {DENIED[code]}")
        elif partition is not None and code in _DAMAGED:
            raise DataLossError(f"{partition.at(event.offset())}: the record cannot be read: {error.str()}")
        else:
            self._kept.troubles.append(error)

    def _go_on_at_log_start(self, partition: TopicPartition) -> None:
        position = self.positions[partition]
        try:
            start, end = self._kept.consumer.get_watermark_offsets(KafkaPartition(*partition), _ANSWER_SECONDS)
        except KafkaException as error:
            self._kept.troubles.append(error.args[0])
            start, end = position, position
        if position > end:
            raise DataLossError(
                f"{partition.at(position)} is gone, the log ends at {partition.at(end)}: it was cut back or made anew"
            )
        self.let_go([partition])
        self.begin({partition: max(start, position)})

    def _check(self) -> None:
        """Nothing came for a moment: look whether this is a refusal, and whether it was long enough."""
        for error in self._kept.troubles:
            if error.code() in DENIED:
                raise AccessDeniedError(f"Kafka refuses this client: {error.str()}; {DENIED[error.code()]}")
        if time.monotonic() - self._last_progress > self._deadline:
            raise self._overdue()

    def _overdue(self) -> UnreachableError:
        """Why nothing comes, as far as the client told."""
        wanted = [partition.at(position) for partition, position in self.positions.items()]
        waited = f"nothing came for {self._deadline:g} s while waiting for {listed(wanted)}"
        for partition, end in self._log_ends.items():
            if partition in self.positions:
                limit = partition.at(self._limits[partition])
                return UnreachableError(
                    f"{waited}: the log ends at {partition.at(end)}, and should go on to {limit}; its leader may lag, "
                    f"or have lost records"
                )
        reason = f": {self._kept.troubles[-1].str()}" if self._kept.troubles else ""
        return UnreachableError(waited + reason)
