"""A log in memory that answers like a broker, and the order as its definition says: an oracle without cuts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Subscription, Topic, covers
from airflow_provider_orderedkafka.core.order.cuts import Bound, Floor, Slice, Span, Stretch, counts
from airflow_provider_orderedkafka.core.order.marks import LogEnd, Seen, digest
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Answer, BatchSize, Sighting


class Entry(NamedTuple):
    """What stands at an offset; markers and aborted records are not visible."""

    offset: int
    timestamp: int
    visible: bool = True
    epoch: int = 0


class Ordered(NamedTuple):
    """A record in the order, as it compares there."""

    order_time: int
    partition: TopicPartition
    offset: int


@dataclass
class SimulatedLog:
    """Partitions with their entries; offsets rise but need not be dense. Counts what it is asked.

    `hidden` has the highest timestamp of what stands behind the entries of a partition, above the high watermark: no
    consumer sees that yet, but the newest record of the partition is one that no answer may name.
    """

    entries: dict[TopicPartition, list[Entry]]
    hidden: dict[TopicPartition, int] = field(default_factory=dict)
    gone_before: dict[TopicPartition, int] = field(default_factory=dict)
    lookups: int = 0
    looks: int = 0
    scanned: list[TopicPartition] = field(default_factory=list)
    epochs: Counter[TopicPartition] = field(default_factory=Counter)

    def log_ends(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogEnd]:
        return {partition: LogEnd(end, self.epochs[partition]) for partition, end in ends.items()}

    def last_records(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Seen]:
        found = {}
        for partition, (start, end) in spans.items():
            for entry in self.entries[partition]:
                if entry.visible and start <= entry.offset < end:
                    digested = digest(entry.epoch, entry.timestamp, None, b"%d" % entry.offset)
                    found[partition] = Seen(entry.offset, entry.epoch, digested)
        return found

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """Lose everything from an offset on, as an unclean election does; what comes then is of another leader."""
        self.entries[partition] = [entry for entry in self.entries[partition] if entry.offset < offset]
        self.epochs[partition] += 1

    def first_at(
        self, partitions: Sequence[TopicPartition], times: Sequence[int]
    ) -> Sequence[Mapping[TopicPartition, Answer]]:
        self.lookups += len(times)
        return [self._first_at(partitions, time) for time in times]

    def _first_at(self, partitions: Sequence[TopicPartition], time: int) -> Mapping[TopicPartition, Answer]:
        found = {}
        for partition in partitions:
            for entry in self.entries[partition]:
                if entry.timestamp >= time:
                    found[partition] = Answer(entry.offset, entry.timestamp)
                    break
        return found

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        found = {p: max(self.entries[p], key=lambda entry: entry.timestamp) for p in partitions if self.entries[p]}
        return {
            p: Answer(entry.offset, entry.timestamp)
            for p, entry in found.items()
            if entry.timestamp >= self.hidden.get(p, entry.timestamp)
        }

    def look(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], latest: int, patience: int
    ) -> Mapping[TopicPartition, Sighting]:
        self.looks += len(bounds)
        return {p: self._look(p, bound, limits[p], latest, patience) for p, bound in bounds.items()}

    def _look(self, partition: TopicPartition, bound: Bound, limit: int, latest: int, patience: int) -> Sighting:
        passed = 0
        for offset, timestamp in self.scan(partition, bound.offset, limit, count=False):
            if bound.time is None or (counts(timestamp, latest) and timestamp >= bound.time):
                return Sighting(offset, timestamp, passed)
            passed += 1
            if passed > patience:
                return Sighting(offset, timestamp, passed, gave_up=True)
        return Sighting(None, 0, passed)

    def scan(self, partition: TopicPartition, start: int, end: int, *, count: bool = True) -> Iterator[tuple[int, int]]:
        if count:
            self.scanned.append(partition)
        for entry in self.entries[partition]:
            if entry.visible and start <= entry.offset < end:
                yield entry.offset, entry.timestamp

    def batch_at(self, partition: TopicPartition, start: int, end: int) -> BatchSize | None:
        """As if each record had been sent alone."""
        return BatchSize(1, 100, 100) if any(self.scan(partition, start, end, count=False)) else None

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Lose everything before an offset, as retention does."""
        self.gone_before[partition] = offset
        self.entries[partition] = [entry for entry in self.entries[partition] if entry.offset >= offset]

    def ends(self) -> Offsets:
        return Offsets((p, entries[-1].offset + 1 if entries else 0) for p, entries in self.entries.items())

    def starts(self) -> Offsets:
        return Offsets((p, entries[0].offset if entries else 0) for p, entries in self.entries.items())

    def in_order(self, span: Span) -> list[Ordered]:
        """The order of a span by its definition: running maxima, then one sort of the whole."""
        found = []
        for partition, start in span.start.items():
            highest = span.floor.of(partition)
            for offset, timestamp in self.scan(partition, start, span.end[partition], count=False):
                highest = max(highest, timestamp) if counts(timestamp, span.latest) else highest
                found.append(Ordered(highest, partition, offset))
        return sorted(found)

    def read(self, slice_: Slice) -> list[Ordered]:
        """Read a slice by the rule of bounds, as a reader does."""
        return sorted(record for stretch in slice_.stretches for record in self._stretch(stretch, slice_.latest))

    def _stretch(self, stretch: Stretch, latest: int) -> Iterator[Ordered]:
        # What retention took is known by its offsets alone: a bound below the log's start stands at the log's start.
        log_start = self.gone_before.get(stretch.partition, 0)
        if stretch.end.offset < log_start:
            return
        highest, begun = stretch.floor, stretch.start.time is None or stretch.start.offset < log_start
        for offset, timestamp in self.scan(stretch.partition, stretch.start.offset, stretch.limit, count=False):
            valid = counts(timestamp, latest)
            if offset >= stretch.end.offset and (stretch.end.time is None or (valid and timestamp >= stretch.end.time)):
                return
            begun = begun or (valid and timestamp >= (stretch.start.time or 0))
            if begun:
                highest = max(highest, timestamp) if valid else highest
                yield Ordered(highest, stretch.partition, offset)


class SimulatedKafka:
    """A cluster with the topics of a `present` log, which all its brokers know, and no consumer groups."""

    servers = "nowhere:1"
    compacted: frozenset[str] = frozenset()
    present: SimulatedLog

    def log_end_offsets(self) -> Mapping[TopicPartition, int]:
        return self.present.ends()

    def discover(self, subscription: Subscription) -> Discovery:
        found = tuple(sorted(partition for partition in self.present.entries if covers(subscription, partition)))
        counts = {partition.topic: partition.partition + 1 for partition in found}
        topics = (Topic(name, f"id-{name}", count, name in self.compacted) for name, count in counts.items())
        return Discovery("cluster", tuple(topics), found)

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return Offsets({partition: self.present.gone_before.get(partition, 0) for partition in partitions})

    def high_ends(self, partitions: Iterable[TopicPartition], _isolation: str) -> Offsets:
        ends = self.log_end_offsets()
        return Offsets({partition: ends[partition] for partition in partitions})

    def committed(self, _group: str, _partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def log(self, _isolation: str) -> Any:
        return self.present

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LogEnd]:
        ends = self.log_end_offsets()
        return self.present.log_ends({partition: ends[partition] for partition in partitions})

    def last_records(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, Seen]:
        return self.present.last_records(spans)


class SteadyLog:
    """Partitions with a record every few milliseconds, each a little later than the one before; none is kept."""

    def __init__(self, partitions: int, each: int) -> None:
        self.each = each
        self.every = 7
        self.partitions = [TopicPartition("large", number) for number in range(partitions)]
        self.asked = 0

    def _first(self, partition: TopicPartition, time: int) -> int:
        return max(-(-(time - partition.partition) // self.every), 0)

    def first_at(
        self, partitions: Sequence[TopicPartition], times: Sequence[int]
    ) -> Sequence[Mapping[TopicPartition, Answer]]:
        self.asked += len(times)
        return [
            {p: Answer(o, o * self.every + p.partition) for p in partitions if (o := self._first(p, t)) < self.each}
            for t in times
        ]

    def newest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Answer]:
        return {p: Answer(self.each - 1, (self.each - 1) * self.every + p.partition) for p in partitions}

    def look(
        self, bounds: Mapping[TopicPartition, Bound], limits: Mapping[TopicPartition, int], *_: int
    ) -> Mapping[TopicPartition, Sighting]:
        found = {p: max(bound.offset, self._first(p, bound.time or 0)) for p, bound in bounds.items()}
        return {
            p: Sighting(o, o * self.every + p.partition, 0) if o < limits[p] else Sighting(None, 0, 0)
            for p, o in found.items()
        }

    def scan(self, partition: TopicPartition, start: int, end: int) -> Iterator[tuple[int, int]]:
        raise AssertionError(f"{partition} is read")

    def batch_at(self, partition: TopicPartition, start: int, end: int) -> BatchSize | None:
        raise AssertionError(f"{partition} is read")

    def ends(self) -> Offsets:
        return Offsets(dict.fromkeys(self.partitions, self.each))


def span_of(log: SimulatedLog, floor: Floor, latest: int, start: Offsets | None = None) -> Span:
    """The span from `start`, or the log's, to the log's ends."""
    return Span(start or log.starts(), log.ends(), floor, latest)
