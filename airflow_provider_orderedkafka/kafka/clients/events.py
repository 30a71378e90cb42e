"""Handle the events of a consumer: errors, ends of partitions, and silence.

An event of a partition is the end of its log, or an offset that the broker does not have; everything else is a refusal,
a damaged record, or a transient error. If nothing at all comes until the deadline, the error says what was waited for
and what the client reported.
"""

import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import (
    AccessDeniedError,
    DataLossError,
    OrderedKafkaError,
    UnknownTopicError,
    UnreachableError,
)

from .answers import RECHECK_AFTER, UNKNOWN, listed, refusal
from .pools import PooledConsumer

_ANSWER_SECONDS: Final = 10.0
_DAMAGED: Final = {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG}
# A consumer looks up its group's coordinator although it never joins, and does not need permission to.
_OF_NO_CONCERN: Final = {KafkaError.GROUP_AUTHORIZATION_FAILED}


class What(Enum):
    LOG_END = "the log ends here for now"
    NOT_THERE = "the broker does not have this offset"


class PartitionEvent(NamedTuple):
    what: What
    partition: TopicPartition
    offset: int


_TOLD: Final = {KafkaError._PARTITION_EOF: What.LOG_END, KafkaError._AUTO_OFFSET_RESET: What.NOT_THERE}


class PartitionEvents:
    """The events of one consumer while it reads partitions.

    `recheck` is called once whenever the consumer has been silent for a while, and may raise what it finds out about
    the partitions.
    """

    def __init__(self, pooled: PooledConsumer, deadline: float, recheck: Callable[[], None]) -> None:
        self._pooled = pooled
        self._deadline = deadline
        self._recheck = recheck
        self._rechecked = False
        self._log_ends: dict[TopicPartition, int] = {}
        self._last_progress = time.monotonic()

    def progress(self) -> None:
        self._last_progress = time.monotonic()
        self._rechecked = False

    def event(self, message: Message) -> PartitionEvent | None:
        """The event in a message that is not a record; None if it can be ignored.

        Raises AccessDeniedError, or DataLossError for a damaged record.
        """
        error = message.error()
        code = error.code()
        if message.topic() is None or message.partition() < 0:
            self._note(error)
            return None
        partition = TopicPartition(message.topic(), message.partition())
        if code in _TOLD:
            event = PartitionEvent(_TOLD[code], partition, message.offset())
            if event.what is What.LOG_END:
                self._log_ends[partition] = event.offset
            return event
        if refused := self._refusal(error, f"to give {partition}"):
            raise refused
        if code in _DAMAGED:
            damaged = f"{partition.at(message.offset())}: the record cannot be read: {error.str()}"
            raise DataLossError(damaged, **partition._asdict(), offset=message.offset())
        self._note(error)
        return None

    def log_start(self, partition: TopicPartition, position: int) -> int:
        """The start of the log of a partition whose broker does not have `position`.

        It is `position` or less if that exists after all, or if the broker cannot tell now. Raises DataLossError if the
        log ends before it.
        """
        try:
            start, end = self._pooled.consumer.get_watermark_offsets(KafkaPartition(*partition), _ANSWER_SECONDS)
        except KafkaException as error:
            self._note(error.args[0])
            return position
        if position > end:
            self._recheck()
            gone = (
                f"{partition.at(position)} is gone, the log ends at {partition.at(end)}: it was truncated or recreated"
            )
            raise DataLossError(gone, **partition._asdict(), offset=position)
        return int(start)

    def silence(self, positions: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]) -> None:
        """Note that nothing arrived for a moment, while reading from these positions up to these stops.

        Raises AccessDeniedError, what `recheck` raises, or UnreachableError after the deadline.
        """
        for error in self._pooled.troubles:
            if refused := self._refusal(error, "this client"):
                raise refused
        silent = time.monotonic() - self._last_progress
        if silent > min(RECHECK_AFTER, self._deadline) and not self._rechecked:
            self._rechecked = True
            self._recheck()
        if silent > self._deadline:
            raise self._overdue(positions, stops)

    def _overdue(
        self, positions: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]
    ) -> OrderedKafkaError:
        wanted = listed([partition.at(position) for partition, position in positions.items()])
        waited = f"nothing came for {self._deadline:g} s while waiting for {wanted}"
        unknown = [error for error in self._pooled.troubles if error.code() in UNKNOWN]
        if unknown:
            return UnknownTopicError(f"{waited}: {unknown[-1].str()}")
        for partition, end in self._log_ends.items():
            if positions.get(partition) == end:
                return UnreachableError(
                    f"{waited}: the log ends at {partition.at(end)}, and should go on to "
                    f"{partition.at(stops[partition])}; its leader may lag, or have lost records"
                )
        reported = [error.str() for error in self._pooled.troubles if error.code() != KafkaError._ALL_BROKERS_DOWN]
        return UnreachableError(f"{waited}: {reported[-1]}" if reported else waited)

    def _refusal(self, error: Any, what: str) -> AccessDeniedError | None:
        return None if error.code() in _OF_NO_CONCERN else refusal(error, self._pooled.config, what)

    def _note(self, error: Any) -> None:
        if error.code() not in _OF_NO_CONCERN:
            self._pooled.troubles.append(error)
