"""Fetch the records of a slice: what to assign, and when a partition is done.

A partition is done when a record at or past its end arrives, or when its position or the log's end is there. It is
unassigned at once, so that the broker stops sending it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from typing import Final

import numpy as np
from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError
from airflow_provider_orderedkafka.kafka.clients.consumers import PooledConsumer
from airflow_provider_orderedkafka.kafka.clients.events import PartitionEvent, PartitionEvents, What
from airflow_provider_orderedkafka.kafka.lookup.topics import recheck
from airflow_provider_orderedkafka.kafka.read.fetched import Columns, FetchedRecords
from airflow_provider_orderedkafka.kafka.read.stretches import StretchProgress
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

Ints = NDArray[np.int64]

_BLINK: Final = 0.05
_LEAST_ASKED: Final = 128
_MOST_ASKED: Final = 2_000
_NOT_OURS: Final = -1
_TOPIC, _PARTITION, _OFFSET, _TIME = Message.topic, Message.partition, Message.offset, Message.timestamp


@dataclass(frozen=True, slots=True)
class OverBudget:
    """The slice is larger than the memory budget: cut it into pieces of about this many offsets."""

    offsets: int


class Fetch:
    """Fetches one slice, with a consumer that is not shared meanwhile."""

    def __init__(self, slice_: Slice, settings: ReadSettings, pooled: PooledConsumer, byte_budget: int | None) -> None:
        self._settings = settings
        self._consumer = pooled.consumer
        self._budget = byte_budget
        self._partitions = [stretch.partition for stretch in slice_.stretches]
        self._rank_of = {partition: rank for rank, partition in enumerate(self._partitions)}
        self._ranks = _rank_finder(self._partitions)
        self._progress = StretchProgress(slice_)
        self._open = np.zeros(len(self._partitions), np.bool_)
        # No reference cycle through this fetch: its records would stay in memory until a garbage collection.
        rechecks = partial(recheck, settings.kafka, self._partitions, settings.topic_ids)
        self._events = PartitionEvents(pooled, settings.deadline, rechecks)
        self._fetched = FetchedRecords(settings)

    def run(self) -> FetchedRecords | OverBudget:
        """Fetch the records of the slice, or stop at the memory budget.

        Raises DataLossError, UnreachableError, AccessDeniedError, UnknownTopicError or TopicChangedError.
        """
        self._assign(np.flatnonzero(~self._progress.finished()))
        while self._open.any():
            # Never wait for more than the first record, and ask for little near an end: what follows it would be
            # thrown away.
            ask = min(max(self._progress.nearest_end(self._open), _LEAST_ASKED), _MOST_ASKED)
            messages = self._consumer.consume(ask, 0) or self._consumer.consume(1, _BLINK)
            if not self._take(messages):
                self._pause()
            self._close(np.flatnonzero(self._open & self._progress.finished()))
            if self._budget is not None and self._fetched.bytes > self._budget:
                half = self._budget // 2
                return OverBudget(max(1, self._fetched.records * half // self._fetched.bytes))
        return self._fetched

    def _take(self, messages: list[Message]) -> bool:
        """Handle messages; whether there was a record. Events are no progress: a broker may repeat them."""
        stamps = np.fromiter(chain.from_iterable(map(_TIME, messages)), np.int64, 2 * len(messages))
        kind, timestamp = stamps[::2], stamps[1::2]
        if kind.all():
            return self._admit(messages, kind, timestamp)
        # A message without a timestamp type is an event, or a record in a format before Kafka 0.10.
        records = np.array([message.error() is None for message in messages])
        found = self._admit(list(compress(messages, records)), kind[records], timestamp[records])
        for message in compress(messages, ~records):  # an event is about what follows the records before it
            self._hear(self._events.event(message))
        return found

    def _admit(self, messages: list[Message], kind: Ints, timestamp: Ints) -> bool:
        rank = self._ranks(messages)
        offset = np.fromiter(map(_OFFSET, messages), np.int64, len(messages))
        columns, ours = Columns(rank, offset, timestamp, kind), rank != _NOT_OURS
        if not ours.all():
            messages, columns = list(compress(messages, ours.tolist())), columns.only(ours)
        if messages:
            self._events.progress()
            belongs = self._progress.admit(columns.rank, columns.offset, columns.timestamp)
            self._fetched.add(messages, columns, belongs)
        return bool(messages)

    def _hear(self, event: PartitionEvent | None) -> None:
        rank = None if event is None else self._rank_of.get(event.partition)
        if event is None or rank is None or not self._open[rank]:
            return
        if event.what is What.LOG_END:
            self._stand_at(rank, event.offset)
        else:
            self._go_on(rank, event.offset)

    def _go_on(self, rank: int, position: int) -> None:
        """Continue at the log's start if retention deleted the position; an error, unless losses are counted."""
        partition = self._partitions[rank]
        start = self._events.log_start(partition, position)
        if start > position:
            if self._settings.on_data_loss == "fail":
                gone = f"{partition.at(position)} is gone, the log starts at {partition.at(start)}"
                raise DataLossError(gone, **partition._asdict(), offset=position)
            self._fetched.lose(partition, self._progress.gone_before(rank, start))
            self._events.progress()
        self._close([rank])
        if self._progress.position[rank] < self._progress.stop[rank]:
            self._assign([rank])

    def _assign(self, ranks: Sequence[int] | NDArray[np.intp]) -> None:
        self._open[ranks] = True
        starts = [KafkaPartition(*self._partitions[rank], int(self._progress.position[rank])) for rank in ranks]
        if starts:
            self._consumer.incremental_assign(starts)

    def _close(self, ranks: Sequence[int] | NDArray[np.intp]) -> None:
        self._open[ranks] = False
        if len(ranks):
            self._consumer.incremental_unassign(self._named(ranks))

    def _pause(self) -> None:
        """Nothing arrived: update positions past what readers do not see, and check the deadline."""
        ranks = np.flatnonzero(self._open).tolist()
        for rank, at in zip(ranks, self._consumer.position(self._named(ranks)), strict=True):
            self._stand_at(rank, at.offset)
        positions, stops = (
            {self._partitions[rank]: int(column[rank]) for rank in ranks}
            for column in (self._progress.position, self._progress.stop)
        )
        self._events.silence(positions, stops)

    def _stand_at(self, rank: int, position: int) -> None:
        if position > self._progress.position[rank]:
            self._events.progress()
            self._progress.stand_at(rank, position)

    def _named(self, ranks: Sequence[int] | NDArray[np.intp]) -> list[KafkaPartition]:
        return [KafkaPartition(*self._partitions[rank]) for rank in ranks]


def _rank_finder(partitions: Sequence[TopicPartition]) -> Callable[[list[Message]], Ints]:
    """A function that gives messages their rank; with one topic by partition number alone, which is faster."""
    if len({partition.topic for partition in partitions}) == 1:
        ranks = np.full(partitions[-1].partition + 2, _NOT_OURS, np.int64)  # the last is for all greater numbers
        ranks[[partition.partition for partition in partitions]] = np.arange(len(partitions))
        return lambda messages: ranks.take(np.fromiter(map(_PARTITION, messages), np.int64, len(messages)), mode="clip")
    by_name = defaultdict(lambda: _NOT_OURS, {tuple(partition): rank for rank, partition in enumerate(partitions)})
    return lambda messages: np.fromiter(
        map(by_name.__getitem__, zip(map(_TOPIC, messages), map(_PARTITION, messages), strict=True)),
        np.int64,
        len(messages),
    )
