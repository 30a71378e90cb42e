"""Fetch the records of a slice as columns, payloads by reference: what to assign, and when a partition is done.

A partition is done when a record at or past its end arrives, or when its position or the log's end is there. It is
unassigned at once, so that the broker stops sending it.

A slice may be fetched piece by piece, in order. What has come of later pieces meanwhile is kept for them, and their
partitions stay assigned, as long as there is memory for it: so nothing inside of the slice is sent twice.

A stretch begins at the first visible record from its start bound on that satisfies the bound's time, and ends before
the first one from its end bound on that satisfies that bound's time, or at its limit. Offsets may be missing anywhere:
only what arrives is judged, and what the log itself says of a partition's position.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress
from typing import Final

import numpy as np
from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition
from numpy.typing import NDArray

from ...core.order.cuts import Bound, Slice
from ...core.order.positions import TopicPartition
from ...errors import DataLossError
from ..clients.pools import PooledConsumer, ReadSettings
from ..lookup.log import PartitionEvent, PartitionEvents, What
from ..lookup.topics import recheck
from .columns import Bools, Columns, Headers, Ints, Part, Payloads, counting

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

    def stand_at(self, rank: Ints | int, position: Ints | int) -> None:
        """Note that nothing visible is left before this offset."""
        self.position[rank] = np.maximum(self.position[rank], position)

    def stop_within(self, rank: Ints, other: "StretchProgress", other_rank: Ints) -> None:
        """End where a stretch ends that this one is a piece of, if that is known and comes first."""
        self.stop[rank] = np.minimum(self.stop[rank], other.stop[other_rank])

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


class FetchedRecords:
    """The records of a slice in the order of their arrival."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self.parts: list[Part] = []
        self.records = 0
        self.bytes = 0
        self.lost: Counter[TopicPartition] = Counter()

    def take(self, part: Part) -> None:
        if count := len(part.columns.rank):
            self.parts.append(part)
            self.records += count
            self.bytes += part.bytes

    def joined(self) -> Part:
        """All of them as one part."""
        parts = self.parts or [Part.of([], _NO_COLUMNS, self._settings)]
        if len(parts) == 1:
            return parts[0]
        return Part(
            Columns(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True))),
            Payloads.joined([part.keys for part in parts]),
            Payloads.joined([part.values for part in parts]),
            Headers.joined([part.headers for part in parts if part.headers]) if parts[0].headers else None,
        )


_NO_COLUMNS: Final = Columns(*[np.empty(0, np.int64)] * 4)

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
    """Fetches one slice, whole or piece by piece, with a consumer that is not shared meanwhile.

    What has come of later pieces is kept, up to `ahead` bytes, or the budget.
    """

    def __init__(self, slice_: Slice, settings: ReadSettings, pooled: PooledConsumer, ahead: int | None = None) -> None:
        self._settings = settings
        self._ahead = settings.byte_budget if ahead is None else ahead
        self._consumer = pooled.consumer
        self._partitions = [stretch.partition for stretch in slice_.stretches]
        self._rank_of = {partition: rank for rank, partition in enumerate(self._partitions)}
        self._ranks = _rank_finder(self._partitions)
        self._progress = StretchProgress(slice_)
        self._assigned = np.zeros(len(self._partitions), np.bool_)
        # Where the records begin that did not come or are kept; None where nothing is known of what came.
        self._bounds: list[Bound | None] = [stretch.start for stretch in slice_.stretches]
        self._kept = FetchedRecords(settings)
        self.asked = True
        """Whether the last piece asked the brokers for anything, or had come with those before."""
        # No reference cycle through this fetch: its records would stay in memory until a garbage collection.
        rechecks = partial(recheck, settings.kafka, self._partitions, settings.topic_ids)
        self._events = PartitionEvents(pooled, settings.deadline, rechecks)

    def run(self, piece: Slice, byte_budget: int | None = None) -> FetchedRecords | OverBudget:
        """Fetch the records of this piece of the slice; those that came before and are not known to follow come again.

        It stops at the memory budget; the piece is to be cut then. Raises DataLossError, UnreachableError,
        AccessDeniedError, UnknownTopicError or TopicChangedError.
        """
        self._begin(piece)
        self.asked = bool(self._open.any())
        while not (over := byte_budget is not None and self._fetched.bytes > byte_budget) and self._open.any():
            # Never wait for more than the first record, and ask for little near an end: what follows it would be
            # thrown away.
            ask = min(max(self._progress.nearest_end(self._assigned), _LEAST_ASKED), _MOST_ASKED)
            messages = self._consumer.consume(ask, 0) or self._consumer.consume(1, _BLINK)
            if not self._take(messages):
                self._pause()
            self._close()
        if over:
            assert byte_budget is not None
            self._put_back()
            return OverBudget(max(1, self._fetched.records * (byte_budget // 2) // self._fetched.bytes))
        self._end([stretch.end for stretch in piece.stretches])
        return self._fetched

    def _begin(self, piece: Slice) -> None:
        """Go on where the piece before ended, with what was kept for this one."""
        self._events.progress()
        self._fetched = FetchedRecords(self._settings)
        self._piece = StretchProgress(piece)
        self._ranks_of_piece = np.array([self._rank_of[stretch.partition] for stretch in piece.stretches], np.int64)
        self._rank_in_piece = np.full(len(self._partitions), _NOT_OURS, np.int64)
        self._rank_in_piece[self._ranks_of_piece] = np.arange(len(piece.stretches))
        starts = dict(zip(self._ranks_of_piece.tolist(), (stretch.start for stretch in piece.stretches), strict=True))
        self._begin_again({rank: start for rank, start in starts.items() if self._bounds[rank] != start})
        kept, self._kept = self._kept, FetchedRecords(self._settings)
        for part in kept.parts:
            if self._comes_later(part):
                self._kept.take(part)
            else:
                self._share_out(part)
        self._look()
        self._assign(np.flatnonzero(self._open & ~self._assigned))

    def _begin_again(self, starts: Mapping[int, Bound]) -> None:
        """Fetch from these on, whatever came of their partitions before."""
        if not starts:
            return
        ranks, kept = list(starts), self._kept
        self._kept = FetchedRecords(self._settings)
        for part in kept.parts:
            self._kept.take(part.only(~np.isin(part.columns.rank, ranks)))
        self._unassign([rank for rank in ranks if self._assigned[rank]])
        for rank, start in starts.items():
            self._bounds[rank] = start
            self._progress.position[rank] = start.offset

    def _end(self, ends: Sequence[Bound]) -> None:
        for rank, end in zip(self._ranks_of_piece.tolist(), ends, strict=True):
            self._bounds[rank] = end
        self._forget_lost()

    def _put_back(self) -> None:
        """Keep what came of the piece, for the pieces that it is cut into."""
        fetched, kept = self._fetched, self._kept
        self._kept = FetchedRecords(self._settings)
        for part in (*(_ranked(each, self._ranks_of_piece) for each in fetched.parts), *kept.parts):
            self._kept.take(part)
        self._forget_lost()

    def _forget_lost(self) -> None:
        """What retention took is counted for each piece, so the next one has to come across it, too."""
        for partition in self._fetched.lost:
            self._bounds[self._rank_of[partition]] = None

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
            if not belongs.all():
                messages, columns = list(compress(messages, belongs.tolist())), columns.only(belongs)
            self._share_out(Part.of(messages, columns, self._settings))
        return bool(ours.any())

    def _share_out(self, part: Part) -> None:
        """Take what belongs to the piece, and keep what comes after it."""
        rank, offset, timestamp, _ = part.columns
        in_piece = self._rank_in_piece[rank]
        mine = in_piece != _NOT_OURS
        belongs, later = np.zeros(len(rank), np.bool_), ~mine
        belongs[mine] = self._piece.admit(in_piece[mine], offset[mine], timestamp[mine])
        later[mine] = offset[mine] >= self._piece.stop[in_piece[mine]]
        self._fetched.take(_ranked(part.only(belongs), self._rank_in_piece))
        self._kept.take(part.only(later))

    def _comes_later(self, part: Part) -> bool:
        """Whether all of it comes after the piece, by where its runs begin."""
        rank, offset = part.runs
        in_piece = self._rank_in_piece[rank]
        return bool(((in_piece == _NOT_OURS) | (offset >= self._piece.stop[in_piece])).all())

    def _look(self) -> None:
        """See how far the piece has come: as far as the slice, once what was kept is shared out."""
        everywhere = np.arange(len(self._ranks_of_piece))
        self._piece.stop_within(everywhere, self._progress, self._ranks_of_piece)
        self._piece.stand_at(everywhere, self._progress.position[self._ranks_of_piece])
        self._open = np.zeros(len(self._partitions), np.bool_)
        self._open[self._ranks_of_piece] = ~self._piece.finished()

    def _hear(self, event: PartitionEvent | None) -> None:
        rank = None if event is None else self._rank_of.get(event.partition)
        if event is None or rank is None or not self._assigned[rank]:
            return
        if event.what is What.LOG_END:
            self._stand_at(rank, event.offset)
        elif self._open[rank]:
            self._go_on(rank, event.offset)
        else:  # whatever is gone is of a later piece, which will come across it
            self._unassign([rank])

    def _go_on(self, rank: int, position: int) -> None:
        """Continue at the log's start if retention deleted the position; an error, unless losses are counted."""
        partition = self._partitions[rank]
        start = self._events.log_start(partition, position)
        if start > position:
            if self._settings.on_data_loss == "fail":
                gone = f"{partition.at(position)} is gone, the log starts at {partition.at(start)}"
                raise DataLossError(gone, **partition._asdict(), offset=position)
            self._fetched.lost += Counter({partition: self._piece.gone_before(int(self._rank_in_piece[rank]), start)})
            self._progress.gone_before(rank, start)
            self._events.progress()
        self._unassign([rank])
        self._look()
        if self._open[rank]:
            self._assign([rank])

    def _assign(self, ranks: Sequence[int] | NDArray[np.intp]) -> None:
        self._assigned[ranks] = True
        starts = [KafkaPartition(*self._partitions[rank], int(self._progress.position[rank])) for rank in ranks]
        if starts:
            self._consumer.incremental_assign(starts)

    def _unassign(self, ranks: Sequence[int] | NDArray[np.intp]) -> None:
        self._assigned[ranks] = False
        if len(ranks):
            self._consumer.incremental_unassign(self._named(ranks))

    def _close(self) -> None:
        """Stop what is done; and what is ahead of the piece, if more would not fit into memory."""
        self._look()
        self._unassign(np.flatnonzero(self._assigned & self._progress.finished()))
        if self._kept.bytes > self._ahead:
            self._unassign(np.flatnonzero(self._assigned & ~self._open))

    def _pause(self) -> None:
        """Nothing arrived: update positions past what readers do not see, and check the deadline."""
        ranks = np.flatnonzero(self._open).tolist()
        for rank, at in zip(ranks, self._consumer.position(self._named(ranks)), strict=True):
            self._stand_at(rank, at.offset)
        positions = {self._partitions[rank]: int(self._progress.position[rank]) for rank in ranks}
        stops = {self._partitions[rank]: int(self._piece.stop[self._rank_in_piece[rank]]) for rank in ranks}
        self._events.silence(positions, stops)

    def _stand_at(self, rank: int, position: int) -> None:
        if position > self._progress.position[rank]:
            self._events.progress()
            self._progress.stand_at(rank, position)

    def _named(self, ranks: Sequence[int] | NDArray[np.intp]) -> list[KafkaPartition]:
        return [KafkaPartition(*self._partitions[rank]) for rank in ranks]


def _ranked(part: Part, ranks: Ints) -> Part:
    """The same records, by other ranks of their partitions."""
    return replace(part, columns=part.columns._replace(rank=ranks[part.columns.rank]))


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
