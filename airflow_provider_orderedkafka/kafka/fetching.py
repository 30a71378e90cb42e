"""Fetching the records of a slice: what is assigned, when a partition is done, what may go wrong on the way.

A partition is done when a record at or past its end arrives, or when its position or the log's end stands there. One
that is done is unassigned at once, so that the broker stops sending it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.cuts import Slice
from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.errors import (
    AccessDeniedError,
    DataLossError,
    OrderedKafkaError,
    UnknownTopicError,
    UnreachableError,
)
from airflow_provider_orderedkafka.kafka.catch import Catch, Columns
from airflow_provider_orderedkafka.kafka.consumers import KeptConsumer
from airflow_provider_orderedkafka.kafka.reading import OnDataLoss, ReadSettings
from airflow_provider_orderedkafka.kafka.stretches import Progress

Ints = NDArray[np.int64]

_ASK = 2_000
_BLINK = 0.05
_ANSWER_SECONDS = 10.0
_TOPIC, _PARTITION, _OFFSET, _TIME = Message.topic, Message.partition, Message.offset, Message.timestamp

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_DAMAGED = {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG}


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The slice holds more bytes than a piece may: cut it into pieces of about this many offsets."""

    offsets: int


class Fetch:
    """Fetches one slice; `run` gives what it caught."""

    def __init__(self, slice_: Slice, settings: ReadSettings, kept: KeptConsumer, byte_budget: int | None) -> None:
        self._slice = slice_
        self._settings = settings
        self._kept = kept
        self._consumer = kept.consumer
        self._budget = byte_budget
        self._progress = Progress(slice_)
        self._open = np.zeros(len(slice_.stretches), np.bool_)
        self._partitions = [stretch.partition for stretch in slice_.stretches]
        self._ranks = _rank_finder(self._partitions)
        self._rank_of = {partition: rank for rank, partition in enumerate(self._partitions)}
        self._log_ends: dict[int, int] = {}
        self._last_progress = time.monotonic()
        self.catch = Catch(settings)

    def run(self) -> Catch | OverBudget:
        """Fetch every record of the slice, or stop where it is larger than the budget.

        Raises DataLossError, UnreachableError, AccessDeniedError or UnknownTopicError.
        """
        self._assign(~self._progress.finished())
        while self._open.any():
            messages = self._consumer.consume(_ASK, 0) or self._consumer.consume(1, _BLINK)
            if messages:
                self._take(messages)
            else:
                self._wait()
            self._close_finished()
            if self._budget is not None and self.catch.bytes > self._budget:
                half = self._budget // 2
                return OverBudget(max(1, self.catch.records * half // self.catch.bytes))
        return self.catch

    def _take(self, messages: list[Message]) -> None:
        self._last_progress = time.monotonic()
        stamps = np.fromiter(chain.from_iterable(map(_TIME, messages)), np.int64, 2 * len(messages))
        kind, timestamp = stamps[::2], stamps[1::2]
        if not kind.all():  # only events have no kind of timestamp, and records of formats older than Kafka 0.10
            records = np.array([bool(known) or self._is_record(m) for known, m in zip(kind, messages, strict=True)])
            messages = [message for message, is_record in zip(messages, records, strict=True) if is_record]
            kind, timestamp = kind[records], timestamp[records]
            if not messages:
                return
        rank = self._ranks(messages)
        offset = np.fromiter(map(_OFFSET, messages), np.int64, len(messages))
        columns = Columns(rank, offset, timestamp, kind)
        self.catch.add(messages, columns, self._progress.admit(rank, offset, timestamp))

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if message.topic() is None:
            self._kept.troubles.append(error)
            return False
        partition = TopicPartition(message.topic(), message.partition())
        rank = self._rank_of.get(partition)
        if rank is not None:
            self._handle(rank, message.offset(), error)
        return False

    def _handle(self, rank: int, offset: int, error: KafkaError) -> None:
        """Act on what the client says about one partition."""
        code = error.code()
        position = self._partitions[rank].at(offset)
        if code == KafkaError._PARTITION_EOF:
            self._log_ends[rank] = offset
            self._progress.stand_at(rank, offset)
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._missing(rank, offset)
        elif code in _DENIED:
            raise AccessDeniedError(f"{position}: Kafka refused to give it: {error.str()}")
        elif code in _DAMAGED:
            raise DataLossError(f"{position}: the record cannot be read: {error.str()}")
        else:
            self._kept.troubles.append(error)

    def _close_finished(self) -> None:
        finished = np.flatnonzero(self._open & self._progress.finished())
        if finished.size:
            self._open[finished] = False
            self._consumer.incremental_unassign([KafkaPartition(*self._partitions[rank]) for rank in finished])

    def _assign(self, which: NDArray[np.bool_]) -> None:
        ranks = np.flatnonzero(which)
        self._open[ranks] = True
        if ranks.size:
            self._consumer.incremental_assign(
                [KafkaPartition(*self._partitions[rank], int(self._progress.position[rank])) for rank in ranks]
            )

    def _missing(self, rank: int, position: int) -> None:
        """The broker does not have this offset: retention took it, or the log was cut back."""
        partition = self._partitions[rank]
        try:
            start, end = self._consumer.get_watermark_offsets(KafkaPartition(*partition), _ANSWER_SECONDS)
        except KafkaException as error:
            self._kept.troubles.append(error.args[0])
            start, end = position, position
        if position > end:
            gone, now = partition.at(position), partition.at(end)
            raise DataLossError(f"{gone} is gone, the log ends at {now}: it was cut back, or created again")
        if position < start:
            self._lose(rank, position, start)
        self._progress.stand_at(rank, max(start, position))
        self._reassign(rank)

    def _lose(self, rank: int, position: int, log_start: int) -> None:
        partition = self._partitions[rank]
        if self._settings.on_data_loss is OnDataLoss.FAIL:
            raise DataLossError(f"{partition.at(position)} is gone, the log starts at {partition.at(log_start)}")
        lost = min(log_start, self._progress.promised_end(rank)) - position
        if lost > 0:
            self.catch.lost[partition] = self.catch.lost.get(partition, 0) + lost

    def _reassign(self, rank: int) -> None:
        self._consumer.incremental_unassign([KafkaPartition(*self._partitions[rank])])
        self._open[rank] = False
        if self._progress.position[rank] < self._progress.stop[rank]:
            self._assign(np.arange(len(self._open)) == rank)

    def _wait(self) -> None:
        """Nothing came for a moment: look whether the log moved past what no reader sees, and for how long to wait."""
        ranks = np.flatnonzero(self._open)
        wanted = [KafkaPartition(*self._partitions[rank]) for rank in ranks]
        for rank, at in zip(ranks, self._consumer.position(wanted), strict=True):
            if at.offset > self._progress.position[rank]:
                self._last_progress = time.monotonic()
                self._progress.stand_at(int(rank), at.offset)
        self._raise_denied()
        if time.monotonic() - self._last_progress > self._settings.deadline:
            raise self._overdue(int(ranks[0]), len(ranks) - 1)

    def _raise_denied(self) -> None:
        for error in self._kept.troubles:
            if error.code() in _DENIED:
                raise AccessDeniedError(f"Kafka refused this client: {error.str()}")

    def _overdue(self, rank: int, others: int) -> OrderedKafkaError:
        wanted = self._partitions[rank].at(int(self._progress.position[rank]))
        more = f" and {others} more partitions" if others else ""
        waited = f"nothing came for {self._settings.deadline:g} s while waiting for {wanted}{more}"
        unknown = [error for error in self._kept.troubles if error.code() in _UNKNOWN]
        if unknown:
            return UnknownTopicError(f"{waited}: {unknown[-1].str()}")
        if rank in self._log_ends:
            end = self._partitions[rank].at(self._log_ends[rank])
            stop = self._partitions[rank].at(int(self._progress.stop[rank]))
            return UnreachableError(f"{waited}: the log ended at {end}, and the slice goes on to {stop}")
        reason = f": {self._kept.troubles[-1].str()}" if self._kept.troubles else ""
        return UnreachableError(waited + reason)


def _rank_finder(partitions: Sequence[TopicPartition]) -> Callable[[list[Message]], Ints]:
    """How messages are given their rank: by number alone where there is one topic, which is the fast way."""
    if len({partition.topic for partition in partitions}) == 1:
        ranks = np.full(partitions[-1].partition + 1, -1, np.int64)
        ranks[[partition.partition for partition in partitions]] = np.arange(len(partitions))
        return lambda messages: ranks[np.fromiter(map(_PARTITION, messages), np.int64, len(messages))]
    by_name = {tuple(partition): rank for rank, partition in enumerate(partitions)}
    return lambda messages: np.fromiter(
        map(by_name.__getitem__, zip(map(_TOPIC, messages), map(_PARTITION, messages), strict=True)),
        np.int64,
        len(messages),
    )
