"""What should come out of a topic, and what did: an oracle and checks that share no code with the package."""

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from support.records import Records, Seen

Position = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Expected:
    """A record in its place in the order."""

    order_time: int
    position: Position
    record: Seen


def in_order(records: Iterable[Seen]) -> list[Expected]:
    """Records by the definition of the order: running maxima of each partition, then one sort."""
    by_partition: dict[tuple[str, int], list[Seen]] = defaultdict(list)
    for record in records:
        by_partition[record.topic, record.partition].append(record)
    found = []
    for (topic, partition), rows in by_partition.items():
        highest = -1
        for row in sorted(rows, key=lambda each: each.offset):
            highest = max(highest, row.timestamp)
            found.append(Expected(highest, (topic, partition, row.offset), row))
    return sorted(found, key=lambda each: (each.order_time, each.position))


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the provenance header of an output record says."""

    range_id: str
    ordinal: int
    source: Position
    order_time: int


def stamp(record: Seen) -> Stamp:
    """Read the header by its documented layout."""
    (value,) = [value for name, value in record.headers if name == "orderedkafka"]
    assert value[0] == 1
    end = 2 + value[1]
    ordinal, partition, offset, order_time = struct.unpack_from(">Iiqq", value, end)
    topic = value[end + 24 :].decode()
    return Stamp(value[2:end].decode(), ordinal, (topic, partition, offset), order_time)


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with an output; empty lists when nothing is."""

    missing: list[Position] = field(default_factory=list)
    doubled: list[Position] = field(default_factory=list)
    unexpected: list[Position] = field(default_factory=list)
    changed: list[Position] = field(default_factory=list)
    out_of_order: list[tuple[Position, Position]] = field(default_factory=list)


Lane = Callable[[Seen], object]


def by_key(record: Seen) -> object:
    """Order is asked for among the records of one key."""
    return record.key


def by_nothing(record: Seen) -> object:
    """No order is asked for."""
    return record.topic, record.partition, record.offset


def by_partition(record: Seen) -> object:
    """Order is asked for in each output partition."""
    return record.partition


def check(expected: Sequence[Expected], output: Iterable[Seen], keeps: Lane = by_key) -> Findings:
    """Compare a plain copy with what it should be: every record once, unchanged, in order."""
    output = list(output)
    findings = check_rows(expected, output, 1, keeps)
    records = {each.position: each for each in expected}
    for record in output:
        found = stamp(record)
        before = records.get(found.source)
        same = (record.key, record.value, record.timestamp, found.order_time)
        if before and same != (before.record.key, before.record.value, before.record.timestamp, before.order_time):
            findings.changed.append(found.source)
    return findings


def check_rows(
    expected: Sequence[Expected], output: Iterable[Seen], each_gives: int, keeps: Lane = by_key, most: int | None = None
) -> Findings:
    """Whether every record gave so many rows, up to so many in all, each of them once and in order."""
    rows = [(each.position, ordinal) for each in expected for ordinal in range(each_gives)][:most]
    places = {row: place for place, row in enumerate(rows)}
    findings, seen = Findings(), set()
    last: dict[object, tuple[Position, int]] = {}
    for record in sorted(output, key=lambda each: (each.topic, each.partition, each.offset)):
        found = stamp(record)
        row = (found.source, found.ordinal)
        if row not in places:
            findings.unexpected.append(found.source)
            continue
        if row in seen:
            findings.doubled.append(found.source)
            continue
        seen.add(row)
        lane = (record.topic, record.partition, keeps(record))
        if lane in last and places[last[lane]] > places[row]:
            findings.out_of_order.append((last[lane][0], found.source))
        last[lane] = row
    findings.missing.extend(row[0] for row in places if row not in seen)
    return findings


FLAWLESS = Findings()


def times_of(output: Iterable[Seen]) -> Counter[Position]:
    """How often each source record is in an output, whatever else is wrong with it."""
    return Counter(stamp(record).source for record in output)


def expected_of(records: Records, *topics: str) -> list[Expected]:
    """The order of everything in some topics."""
    return in_order(record for topic in topics for record in records.read(topic))
