"""What is drawn of attempts at loads into topics, and the laws that their rows are held to."""

import os
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.provenance import HEADER, WHOLE_RECORD, read_provenance
from support.attempts import World
from support.draws import MARKER, Change, Come, Shape, Trouble
from support.small_kafka import DEAD
from support.small_loads import Done, Load

EXAMPLES = settings(
    max_examples=int(os.environ.get("ORDEREDKAFKA_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Position = tuple[TopicPartition, int]
Identity = tuple[Position, int]


class Found(NamedTuple):
    """A row as it stands in an output: which row it is, where it stands, and by which write it came."""

    identity: Identity
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    write: int

    @property
    def source(self) -> Position:
        return self.identity[0]


keys = st.none() | st.sampled_from([b"a", b"b", b"c", b"d"])
kinds = st.sampled_from([b"one", b"one", b"one", b"two", b"none", b"large", b"sick", b"sick", MARKER])
astray = st.sampled_from([False, False, False, False, True])
come = st.builds(Come, st.integers(0, 5), st.integers(0, 12), keys, kinds, astray)
happenings = st.sampled_from(["compact", "retain", "grow", "clean", "anew", "delete"])
changes = st.builds(Change, happenings, st.integers(0, 5), st.integers(0, 15))
of_source = st.builds(Change, st.sampled_from(["compact", "retain"]), st.integers(0, 5), st.integers(0, 15))
troubles = st.one_of(
    st.builds(Trouble, st.just("output"), st.integers(0, 12), st.booleans()),
    st.builds(Trouble, st.just("source"), st.integers(0, 4), st.booleans()),
    st.builds(Trouble, st.just("store"), st.integers(0, 30), st.booleans()),
    st.builds(Trouble, st.just("question"), st.integers(0, 12), st.booleans()),
    st.builds(Trouble, st.just("look-up"), st.integers(0, 12), st.booleans()),
)


def lists(of: st.SearchStrategy[Any], most: int, least: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def is_possible(shape: Shape) -> bool:
    return not (
        (shape.routed and shape.keep_order == "partition")
        or (shape.keeps_last and (shape.compacted or shape.counts_losses))
        or (shape.joins and shape.keeps_last)
    )


shapes = st.builds(
    Shape,
    topics=lists(st.integers(1, 3), 2, 1),
    compacted=st.sampled_from([False, False, False, True]),
    counts_losses=st.booleans(),
    placed=st.booleans(),
    making=st.sampled_from(
        ["copy", "copy", "keep", "expand", "rekey", "route", "keep frames", "expand frames", "join frames"]
    ),
    keep_order=st.sampled_from(["key", "key", "partition", "none"]),
    batch_offsets=st.none() | st.integers(2, 12),
    limited=st.booleans(),
    loads=st.sampled_from([1, 1, 2]),
    keeps_last=st.sampled_from([False, False, False, True]),
    silent=st.booleans(),
).filter(is_possible)


def check_rows(world: World, load: Load, loaded: Range, rows: list[Found], done: list[Done]) -> None:
    """Each row of each record is there: of those in reach of the limit, and of those that could be read."""
    whole = in_letters(rows)
    found = {row.identity for row in rows if row.identity[1] == WHOLE_RECORD or row.source not in whole}
    named = [
        (each, ordinal)
        for each in in_order(world, loaded)
        for ordinal in ([WHOLE_RECORD] if each in whole else range(given_by(world, each)))
    ]
    gone = {each for each in load.taken if within(each, loaded.start.offsets, loaded.end.offsets)}
    if not gone:
        first = set(named[: loaded.rows_left])
        # Where rows came before others from a place that is said to be out of order, as many others pass the limit.
        unsure = world.outdated and load.reports[loaded.id].may_be_out_of_order
        assert found == first or (unsure and len(found) == len(first) and found <= set(named))
        return
    stop = load.reports[loaded.id].stop.offsets
    cut = {((TopicPartition(s.topic, s.partition), s.offset), s.rows) for s in (each.surplus for each in done) if s}
    assert found <= set(named)
    for each, ordinal in named:
        expected = within(each, loaded.start.offsets, stop) and each not in gone
        cut_off = any(each == record and ordinal >= most for record, most in cut)
        assert (each, ordinal) in found or not expected or cut_off, "lost"
        assert (each, ordinal) not in found or within(each, loaded.start.offsets, stop)


def check_order(world: World, load: Load, loaded: Range, rows: list[Found]) -> None:
    """Rows of a key, or of an output partition, stand in the order; where records went, in that of their offsets.

    Where keys were relied on to stay in their partitions and did not, the report counts what may be out of order.
    """
    order = world.shape.keep_order
    place = {each: number for number, each in enumerate(in_order(world, loaded))}
    gone = any(within(each, loaded.start.offsets, loaded.end.offsets) for each in load.taken)
    groups = defaultdict(list)
    for row in rows:
        if row.topic == DEAD or order == "none" or (order == "key" and row.key is None):
            continue
        group = (row.topic, row.partition, row.key if order == "key" else None, row.source[0] if gone else None)
        groups[group].append((place[row.source], row.identity[1]))
    counted = load.reports[loaded.id].may_be_out_of_order
    assert sum(map(overtaken, groups.values())) <= counted, "out of order"
    assert counted or all(found == sorted(found) for found in groups.values()), "out of order"
    unknown = world.outdated or (world.shape.keeps_last and (world.denied or not world.outputs.compacted))
    assert not counted or unknown or (order == "key" and any(astray(world, each) for each in place)), "counted in vain"


def check_order_of_ranges(world: World, load: Load) -> None:
    """What a range has read that belongs behind a record of a later one is counted, in its report.

    Where records went, the order times of the others tell of those that were there.
    """
    if load.taken:
        return
    order = world.source.history.in_order
    before: list[tuple[str, Any]] = []
    beyond: Counter[str] = Counter()
    for loaded in load.ranges.values():
        read = {row.source for row in rows_of(world, {loaded.id})}
        found = [each for each in order(loaded.span) if (each.partition, each.offset) in read]
        beyond.update(range_id for range_id, each in before if found and each > found[0])
        before = [(range_id, each) for range_id, each in before if not found or each <= found[0]]
        before += [(loaded.id, each) for each in found]
    assert all(count <= load.reports[each].may_be_out_of_order for each, count in beyond.items()), "out of order"
    assert not beyond or world.outdated, "out of order"


def in_letters(rows: list[Found]) -> set[Position]:
    """The records that are dead letters as a whole."""
    return {row.source for row in rows if row.identity[1] == WHOLE_RECORD}


def overtaken(rows: list[tuple[int, int]]) -> int:
    """How many records have to be left out for the others to be in order."""
    ends: list[int] = []
    records = [record for record, ordinal in rows if ordinal == 0]
    for record in records:
        at = bisect_right(ends, record)
        ends[at : at + 1] = [record]
    return len(records) - len(ends)


def astray(world: World, position: Position) -> bool:
    """Whether a record stands in another partition than its key belongs to."""
    partition, key = position[0], world.source.records[position].key
    homes = {world.home(partition.topic, key, fewer) for fewer in range(world.grown[partition.topic] + 1) if key}
    return bool(homes - {partition})


def rows_of(world: World, ranges: set[str]) -> list[Found]:
    """The rows of some ranges, in the order of each output partition; none of them is another than it says it is.

    Of rows that were written again to compacted outputs, perhaps as dead letters, the last are those that stay; of
    those of a join the first.
    """
    found = all_rows_of(world, ranges)
    if world.shape.joins:
        first = {row.identity: row for row in sorted(found, key=lambda row: row.write, reverse=True)}
        return [row for row in found if row is first[row.identity]]
    if not world.shape.keeps_last:
        return found
    last = {found[place].identity: place for place in sorted(range(len(found)), key=lambda place: found[place].write)}
    stay = [row for place, row in enumerate(found) if last[row.identity] == place]
    letters = {row.source: row.write for row in stay if row.identity[1] == WHOLE_RECORD}
    return [row for row in stay if row.write >= letters.get(row.source, 0)]


def all_rows_of(world: World, ranges: set[str]) -> list[Found]:
    return [found for row in world.outputs.rows() for found in _found(world, row, ranges)]


def rewritten(world: World, loaded: Range) -> int:
    """How often a row of a range was written again, to compacted outputs or of a join."""
    return len(all_rows_of(world, {loaded.id})) - len(rows_of(world, {loaded.id}))


def _found(world: World, row: Any, ranges: set[str]) -> Iterator[Found]:
    provenance = read_provenance([(HEADER, row.provenance)])
    assert provenance is not None
    assert provenance.source is not None
    assert provenance.offset is not None
    if provenance.range_id in ranges:
        source = provenance.source, provenance.offset
        assert row.value == world.source.records[source].value
        yield Found((source, provenance.ordinal), row.name, row.number, row.key, row.value, row.write)


def in_order(world: World, loaded: Range) -> list[Position]:
    """The records of a range, all that ever were there, in the order as its definition says."""
    return [(each.partition, each.offset) for each in world.source.history.in_order(loaded.span)]


def given_by(world: World, position: Position) -> int:
    return world.shape.rows(world.source.records[position].value)


def within(position: Position, start: Offsets, end: Offsets) -> bool:
    partition, offset = position
    return start.get(partition, 0) <= offset < end.get(partition, 0)
