"""Read topics back, record by record as they lie there: the source of a range, and the rows in its outputs."""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from ..core.documents import Isolation, Range, Report
from ..core.notation.subscriptions import Discovery, Named
from ..core.order.positions import LARGEST, TopicPartition
from ..errors import DocumentError, SettingError, UnknownTopicError
from ..kafka.lookup.log import reading_all
from ..kafka.lookup.topics import discover, high_ends, log_starts
from ..kafka.provenance import HEADER, located
from ..kafka.read.columns import headers_of
from .comparing import Found
from .following import LoadedOrder, named_topics, stops
from .numbers import UNCOMPARED, Columns, Ints, Source, in_order, of_headers, records, rows

Spots = Mapping[TopicPartition, int]
Spans = Mapping[TopicPartition, tuple[int, int]]


def messages_in(config: Mapping[str, str], spans: Spans, isolation: Isolation) -> Iterator[list[Message]]:
    """The records between these offsets as they arrive, in order within each partition."""
    left = {partition: start for partition, (start, end) in spans.items() if start < end}
    ends = {partition: end for partition, (_, end) in spans.items()}
    with reading_all(config, left, ends, isolation) as reader:
        while reader.positions:
            found = reader.take()
            yield [each for each in found if each.offset() < ends[TopicPartition(each.topic(), each.partition())]]
            reader.let_go([each for each, at in reader.positions.items() if at >= ends[each]])


def read_source(config: Mapping[str, str], report: Report) -> Source:
    """The records that a range has loaded, as they are there now."""
    counted = not (report.limit_reached or report.replayed or report.lost)
    return read_range(config, report.range, stops(report), report.read_in if counted else None)


def read_range(config: Mapping[str, str], loaded: Range, stop: Spots, read: Spots | None = None) -> Source:
    """The records of a range before `stop`, as they are there now; how many were `read`, where that is certain."""
    partitions = loaded.start.offsets.partitions
    topics = _topics(config, loaded)
    found = records()
    certain = dict.fromkeys(partitions, LARGEST)
    if topics is not None:
        starts, ends = log_starts(config, partitions), high_ends(config, partitions, loaded.isolation)
        spans = {}
        for each in partitions:
            whole = each.topic not in topics.compacted and stop[each] <= ends[each]
            certain[each] = max(starts[each], loaded.start.offsets[each]) if whole else LARGEST
            spans[each] = (max(starts[each], loaded.start.offsets[each]), min(stop[each], ends[each]))
        _take_records(config, spans, loaded, found)
    floors = np.array([loaded.start.floor.of(each) for each in partitions], np.int64)
    return Source(
        partitions=partitions,
        start=_by(partitions, loaded.start.offsets),
        stop=_by(partitions, stop),
        certain=_by(partitions, certain),
        read=np.array([-1 if read is None else read.get(each, 0) for each in partitions], np.int64),
        columns=in_order(found, floors, loaded.latest),
    )


def _by(partitions: Sequence[TopicPartition], values: Spots) -> Ints:
    return np.array([values[each] for each in partitions], np.int64)


def _topics(config: Mapping[str, str], loaded: Range) -> Discovery | None:
    """The source's topics; None if they are not those that were loaded any more."""
    try:
        found = discover(config, Named(tuple(sorted(loaded.topics))))
    except UnknownTopicError:
        return None
    if loaded.cluster_id and found.cluster_id and found.cluster_id != loaded.cluster_id:
        raise SettingError(
            f"range {loaded.id!r} was loaded from the cluster {loaded.cluster_id!r}, but "
            f"{config['bootstrap.servers']} is the cluster {found.cluster_id!r}: name the one that it was loaded from"
        )
    return found if found.ids == dict(loaded.topics) else None


def _take_records(config: Mapping[str, str], spans: Spans, loaded: Range, found: Columns) -> None:
    codes = {(each.topic, each.partition): code for code, each in enumerate(loaded.start.offsets.partitions)}
    for batch in messages_in(config, spans, loaded.isolation):
        headers = map(of_headers, headers_of(batch)) if loaded.include_headers else [of_headers(())] * len(batch)
        found.extend(
            code=[codes[each.topic(), each.partition()] for each in batch],
            offset=map(Message.offset, batch),
            timestamp=[each.timestamp()[1] for each in batch],
            timestampType=[each.timestamp()[0] - 1 for each in batch],
            key=map(hash, map(Message.key, batch)),
            value=map(hash, map(Message.value, batch)),
            headers=headers,
        )


def codes_of(loaded: Range) -> dict[tuple[bytes, int], int]:
    """The place of each partition of a range's source in their order."""
    partitions = loaded.start.offsets.partitions
    return {(each.topic.encode(), each.partition): code for code, each in enumerate(partitions)}


@dataclass
class OutputTopics:
    """Reads the rows of some ranges in their output topics, all at once, each topic once.

    `others` counts the rows of other ranges, by their ids; `silent` those that do not say where they came from.
    `loaded_order` is that of all ranges of their loads.
    """

    config: Mapping[str, str]
    reports: Sequence[Report]
    loaded_order: LoadedOrder
    others: Counter[str] = field(default_factory=Counter)
    silent: int = 0

    def read(self) -> dict[str, Found]:
        """The rows by range: from where its outputs ended before the first batch, up to their present ends."""
        named = {topic for report in self.reports for topic in topics_of(report)}
        now, lost = _existing(self.config, named) if named else (Discovery("", (), ()), set())
        committed = any(report.destination is not None and report.destination.committed for report in self.reports)
        isolation: Isolation = "read_committed" if committed else "read_uncommitted"
        ends = high_ends(self.config, now.partitions, "read_uncommitted")  # what is not decided yet is waited for
        starts = log_starts(self.config, now.partitions)
        first = {each: min(_before(report, each, now) for report in self.reports) for each in now.partitions}
        spans = {each: (max(first[each], starts[each]), ends[each]) for each in now.partitions}
        holes = {each: _Holes(first[each]) for each in now.partitions}
        mine = {report.range_id.encode(): _Mine.of(report, now.partitions) for report in self.reports}
        for batch in messages_in(self.config, spans, isolation):
            for message, headers in zip(batch, headers_of(batch), strict=True):
                holes[TopicPartition(message.topic(), message.partition())].pass_to(message.offset())
                self._take(message, headers or [], mine)
        for each, hole in holes.items():
            hole.pass_to(ends[each])
        found = {report.range_id: mine[report.range_id.encode()] for report in self.reports}
        return {
            report.range_id: Found(
                found[report.range_id].columns,
                now.partitions,
                _taken(report, now, holes, lost),
                found[report.range_id].nameless,
                grown=_grown(report),
                behind=found[report.range_id].behind,
            )
            for report in self.reports
        }

    def _take(
        self, message: Message, headers: Sequence[tuple[str, bytes | None]], mine: "Mapping[bytes, _Mine]"
    ) -> None:
        values = [value for name, value in headers if name == HEADER and value is not None]
        if not values:
            self.silent += 1
            return
        end = 2 + values[-1][1] if len(values[-1]) > 1 else 0
        name = values[-1][2:end]
        of = mine.get(name)
        try:
            row = located(values[-1], end)
        except (struct.error, IndexError, DocumentError):
            self.others["a damaged header"] += 1
            return
        if of is None:
            self.others[name.decode(errors="replace")] += 1
        later = self.loaded_order.before(name, message, row)
        if of is not None:
            of.take(message, headers, row, later)


@dataclass
class _Holes:
    """The offsets of a partition of which there is no record."""

    next: int
    spans: list[tuple[int, int]] = field(default_factory=list)

    def pass_to(self, offset: int) -> None:
        """Go on to the record at this offset."""
        if offset > self.next:
            self.spans.append((self.next, offset))
        self.next = max(self.next, offset + 1)

    def within(self, start: int, end: int) -> int:
        return sum(max(min(to, end) - max(since, start), 0) for since, to in self.spans)


@dataclass
class _Mine:
    """Collects the rows of one range. `nameless` counts those that do not say which record they are of."""

    codes: Mapping[tuple[bytes, int], int]
    places: Mapping[tuple[str, int], int]
    outputs: frozenset[str]
    columns: Columns = field(default_factory=rows)
    nameless: int = 0
    behind: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, report: Report, places: Sequence[TopicPartition]) -> Self:
        return cls(
            codes_of(report.range),
            {(each.topic, each.partition): place for place, each in enumerate(places)},
            frozenset(named_topics(report.destination.output if report.destination else "")),
        )

    def take(self, message: Message, headers: Sequence[Any], row: tuple[int, int, int, int, bytes], later: str) -> None:
        """Keep a row, and the `later` range behind whose row it lies."""
        ordinal, partition, offset, time, topic = row
        if partition < 0:
            self.nameless += 1
            return
        if later:
            self.behind[len(self.columns)] = later
        kind, stamp = message.timestamp()
        self.columns.append(
            ordinal,
            message.topic() not in self.outputs,
            time,
            self.codes.get((topic, partition), -1),
            offset,
            UNCOMPARED if kind == TIMESTAMP_LOG_APPEND_TIME else stamp,
            UNCOMPARED,
            hash(message.key()),
            hash(message.value()),
            of_headers(headers),
            UNCOMPARED,
            0,
            self.places[message.topic(), message.partition()],
            message.offset(),
        )


def topics_of(report: Report) -> list[str]:
    """Those that a range may have written to."""
    to, before = report.destination, report.before
    named = [] if to is None else [*named_topics(to.output), *named_topics(to.dead_letters)]
    return [*named, *(() if before is None else before.ids)]


def _existing(config: Mapping[str, str], names: set[str]) -> tuple[Discovery, set[str]]:
    """Those of the topics that exist, and the names of the others."""
    lost: set[str] = set()
    while True:
        try:
            return discover(config, Named(tuple(sorted(names - lost)))), lost
        except UnknownTopicError as error:
            if error.topic is None or error.topic in lost or len(lost) + 1 == len(names):
                raise
            lost.add(error.topic)


def _before(report: Report, partition: TopicPartition, now: Discovery) -> int:
    """Where a partition ended before the range's first batch; the whole of one that was made since is read."""
    before = report.before
    if before is None:
        return LARGEST
    same = before.ids.get(partition.topic) == now.ids[partition.topic]
    return before.topics.get(partition, 0) if same else 0


def _grown(report: Report) -> bool:
    """Whether partitions were added to its outputs between its first batch and its last."""
    before, after = report.before, report.after
    return before is not None and (after is None or after.topics.keys() != before.topics.keys())


def _taken(report: Report, now: Discovery, holes: Mapping[TopicPartition, _Holes], lost: set[str]) -> int | None:
    """How many offsets are gone that may have had rows of the range; None if an output is not the one that it was."""
    before, after = report.before, report.after
    if before is None:
        return 0
    if any(topic in lost or now.ids[topic] != was for topic, was in before.ids.items()):
        return None
    ends = {} if after is None else after.topics
    of_range = [(each, hole) for each, hole in holes.items() if each.topic in before.ids]
    return sum(hole.within(before.topics.get(each, 0), ends.get(each, LARGEST)) for each, hole in of_range)
