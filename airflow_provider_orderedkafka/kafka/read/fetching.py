"""Fetch the records of a slice as columns, payloads by reference: what to assign, and when a partition is done.

A partition is done when a record at or past its end arrives, or when its position or the log's end is there. It is
unassigned at once, so that the broker stops sending it.

A stretch begins at the first visible record from its start bound on that satisfies the bound's time, and ends before
the first one from its end bound on that satisfies that bound's time, or at its limit. Offsets may be missing anywhere:
only what arrives is judged, and what the log itself says of a partition's position.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, repeat
from typing import Final, NamedTuple

import numpy as np
from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition
from numpy.typing import NDArray

from airflow_provider_orderedkafka.core.order.cuts import Bound, Slice
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError
from airflow_provider_orderedkafka.kafka.clients.events import PartitionEvent, PartitionEvents, What
from airflow_provider_orderedkafka.kafka.clients.pools import PooledConsumer
from airflow_provider_orderedkafka.kafka.lookup.topics import recheck
from airflow_provider_orderedkafka.kafka.read_settings import ReadSettings

from .columns import Arrivals, Header, Headers, Payloads, headers_of
from .sorting import counting

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_KEY, _VALUE = Message.key, Message.value
_RECORD_OVERHEAD = 200  # of a record in memory, besides its key, value and headers
_HEADER_OVERHEAD = 200  # ... and of a header, besides its name and value


class Columns(NamedTuple):
    """The integer columns of some records; `kind` is the timestamp type."""

    rank: Ints
    offset: Ints
    timestamp: Ints
    kind: Ints

    def only(self, which: NDArray[np.bool_]) -> "Columns":
        return Columns(*(column[which] for column in self))


class FetchedRecords:
    """The records of a slice in the order of their arrival.

    Payloads are taken out of the client's messages at once, so that their memory is reused while it is cached.
    """

    def __init__(self, settings: ReadSettings) -> None:
        self._keys = _PayloadChunks()
        self._values = _PayloadChunks()
        self._headers = _HeaderChunks() if settings.include_headers else None
        self._columns: list[Columns] = []
        self.records = 0
        self.lost: dict[TopicPartition, int] = {}

    @property
    def bytes(self) -> int:
        """About how much memory it takes."""
        headers = 0 if self._headers is None else self._headers.bytes
        return self._keys.bytes + self._values.bytes + headers + self.records * _RECORD_OVERHEAD

    def add(self, messages: list[Message], columns: Columns, belongs: NDArray[np.bool_]) -> None:
        """Add those of these messages that belong to the slice."""
        if not belongs.all():
            messages = list(compress(messages, belongs.tolist()))
            columns = columns.only(belongs)
        self.records += len(messages)
        self._columns.append(columns)
        self._keys.add(list(map(_KEY, messages)))
        self._values.add(list(map(_VALUE, messages)))
        if self._headers is not None:
            self._headers.add(headers_of(messages))

    def lose(self, partition: TopicPartition, offsets: int) -> None:
        if offsets > 0:
            self.lost[partition] = self.lost.get(partition, 0) + offsets

    def columns(self) -> Columns:
        empty = np.empty(0, np.int64)
        columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)] or [empty] * 4
        return Columns(*columns)

    def arrivals(self, kind: Ints) -> Arrivals:
        """What the records have besides their place in the order."""
        headers = None if self._headers is None else self._headers.joined()
        return Arrivals(self._keys.joined(), self._values.joined(), kind - 1, headers)


class _PayloadChunks:
    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._sizes: list[Ints] = []
        self.bytes = 0

    def add(self, payloads: list[bytes | None]) -> None:
        try:
            sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))  # type: ignore[arg-type]
            self._data.extend(payloads)  # type: ignore[arg-type]
        except TypeError:  # one of them is null
            sizes = np.array([-1 if payload is None else len(payload) for payload in payloads], np.int64)
            self._data.extend(payload or b"" for payload in payloads)
        self._sizes.append(sizes)
        self.bytes += int(np.maximum(sizes, 0).sum())

    def joined(self) -> Payloads:
        data = np.fromiter(self._data, np.object_, len(self._data))
        return Payloads(data, np.concatenate(self._sizes or [np.empty(0, np.int64)]))


class _HeaderChunks:
    def __init__(self) -> None:
        self._lists: list[list[Header] | None] = []
        self._sizes: list[int] = []
        self.bytes = 0

    def add(self, headers: list[list[Header] | None]) -> None:
        self._lists.extend(headers)
        if not any(headers):
            self._sizes.extend(repeat(0, len(headers)))
            return
        sizes = [sum(len(name) + len(value or b"") for name, value in each or ()) for each in headers]
        self._sizes.extend(sizes)
        self.bytes += sum(sizes) + _HEADER_OVERHEAD * sum(len(each or ()) for each in headers)

    def joined(self) -> Headers:
        return Headers(self._lists, np.array(self._sizes, np.int64))


# A record without a timestamp that counts satisfies a bound without a time, and no other.
_ANY_TIME = -3
_NO_TIME = -2


def _time(bound: Bound) -> int:
    return _ANY_TIME if bound.time is None else bound.time


class StretchProgress:
    """The progress of each stretch of one slice, by rank: its index in the slice.

    `position` is the next offset to read, `stop` the offset that the stretch ends before: its limit or literal end
    until a record satisfies the end bound.
    """

    def __init__(self, slice_: Slice) -> None:
        stretches = slice_.stretches
        self._latest = slice_.latest
        self._start_time = np.array([_time(s.start) for s in stretches], np.int64)
        self._end = np.array([s.end.offset for s in stretches], np.int64)
        self._end_time = np.array([_time(s.end) for s in stretches], np.int64)
        self._begun = self._start_time == _ANY_TIME
        self._seeking = not self._begun.all()
        self._running_on = bool((self._end_time != _ANY_TIME).any())
        self.position = np.array([s.start.offset for s in stretches], np.int64)
        limits = np.array([s.limit for s in stretches], np.int64)
        self._begin = np.where(self._begun, self.position, limits)
        self.stop = np.where(self._end_time == _ANY_TIME, np.minimum(limits, self._end), limits)

    def admit(self, rank: Ints, offset: Ints, timestamp: Ints) -> Bools:
        """A mask of the records that belong to the slice; they come in the order of offsets within a partition."""
        if self._seeking:
            self._look_for_starts(rank, offset, timestamp)
        if self._running_on:
            self._look_for_ends(rank, offset, timestamp)
        self.position[rank] = offset + 1  # of several records of a partition, the last one's stays
        belongs: Bools = (offset >= self._begin[rank]) & (offset < self.stop[rank])
        return belongs

    def stand_at(self, rank: int, position: int) -> None:
        """Note that nothing visible is left before this offset."""
        self.position[rank] = max(int(self.position[rank]), position)

    def nearest_end(self, among: Bools) -> int:
        """The fewest offsets left, by the index, in any of these stretches; 0 or less past an end."""
        return int((self._end - self.position)[among].min())

    def finished(self) -> Bools:
        reached: Bools = self.position >= self.stop
        return reached

    def gone_before(self, rank: int, log_start: int) -> int:
        """Move past what retention deleted before the log's start; return how many offsets of this stretch it was.

        A bound below the log's start moves there, for this slice and its neighbours alike, so each remaining record is
        in exactly one of them.
        """
        position, end = int(self.position[rank]), int(self._end[rank])
        lost = min(log_start, end, int(self.stop[rank])) - position
        if end < log_start:
            self.stop[rank] = min(int(self.stop[rank]), log_start)
        if not self._begun[rank]:
            self._begin[rank], self._begun[rank] = log_start, True
            self._seeking = not self._begun.all()
        self.stand_at(rank, log_start)
        return max(lost, 0)

    def _look_for_starts(self, rank: Ints, offset: Ints, timestamp: Ints) -> None:
        found = ~self._begun[rank] & (self._counting(timestamp) >= self._start_time[rank])
        if found.any():
            ranks, first = np.unique(rank[found], return_index=True)
            self._begin[ranks] = offset[found][first]
            self._begun[ranks] = True
            self._seeking = not self._begun.all()

    def _look_for_ends(self, rank: Ints, offset: Ints, timestamp: Ints) -> None:
        found = (offset >= self._end[rank]) & (offset < self.stop[rank])
        if found.any():
            found &= self._counting(timestamp) >= self._end_time[rank]
            ranks, first = np.unique(rank[found], return_index=True)
            self.stop[ranks] = offset[found][first]

    def _counting(self, timestamp: Ints) -> Ints:
        return np.where(counting(timestamp, self._latest), timestamp, _NO_TIME)


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
