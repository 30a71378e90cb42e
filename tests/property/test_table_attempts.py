"""Tables get each row once, whatever kills an attempt around a commit, and whatever becomes of their history.

Loads as in `test_attempts.py`, into one table or folder. At last nothing goes wrong any more: then the rows are those
of the definition, or the load has stopped because nobody can know, and said so.
"""

import os
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.attempt_laws import lists, within
from support.draws import Attempt, Change, Come, Trouble
from support.small_kafka import DEAD
from support.small_lake import KEYS, OWNERS, TableRow, TableShape, TableWorld
from support.small_loads import Load

from airflow_provider_orderedkafka.core.commits import IDENTITY
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.provenance import HEADER, read_provenance

EXAMPLES = settings(
    max_examples=int(os.environ.get("ORDEREDKAFKA_EXAMPLES", "75")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

pytestmark = pytest.mark.timeout(1200)

Position = tuple[TopicPartition, int]


kinds = st.sampled_from([b"one", b"one", b"two", b"none"])
come = st.builds(Come, st.integers(0, 2), st.integers(0, 8), st.sampled_from(KEYS), kinds)
of_table = st.builds(Change, st.sampled_from([*OWNERS, "another", "expire", "replace"]), st.just(0), st.integers(1, 9))
of_source = st.builds(Change, st.sampled_from(["compact", "retain"]), st.integers(0, 2), st.integers(0, 12))
troubles = st.one_of(
    st.builds(Trouble, st.just("output"), st.integers(0, 7), st.booleans()),
    st.builds(Trouble, st.just("source"), st.integers(0, 4), st.booleans()),
    st.builds(Trouble, st.just("store"), st.integers(0, 30), st.booleans()),
    st.builds(Trouble, st.just("question"), st.integers(0, 12), st.booleans()),
)
shapes = st.builds(
    TableShape,
    topics=lists(st.integers(1, 2), 2, 1),
    compacted=st.sampled_from([False, False, True]),
    counts_losses=st.booleans(),
    placed=st.just(False),
    making=st.sampled_from(["copy", "keep frames", "expand frames"]),
    keep_order=st.just("none"),
    batch_offsets=st.none() | st.integers(2, 8),
    limited=st.booleans(),
    loads=st.sampled_from([1, 2]),
    kind=st.sampled_from(["iceberg", "iceberg", "delta", "delta", "files"]),
    decoded=st.booleans(),
).filter(lambda shape: not (shape.limited and shape.decoded))
attempts = st.builds(
    Attempt,
    load=st.integers(0, 1),
    slice_offsets=st.sampled_from([1, 3, 100]),
    raised=st.integers(0, 9),
    come=lists(come, 3),
    changes=lists(of_table | of_table | of_source, 2),
    troubles=lists(troubles, 2, 1),
    fates=lists(st.integers(0, 5), 4, 1),
    meanwhile=lists(st.tuples(st.integers(0, 12), come | of_table | of_source), 2),
    denied=lists(st.sampled_from([False, False, True]), 4, 1),
    stale=lists(st.sampled_from([False, False, True]), 4, 1),
)


# What went wrong once, or is rare.
ICEBERG = TableShape((1,), False, False, False, "keep frames", "none", 4, False, 1)
DELTA = replace(ICEBERG, kind="delta")
ROWS = tuple(Come(0, time, None, b"one") for time in range(6))
NOTHING = tuple(Come(0, time, None, b"none") for time in range(6))
TOUCHES_A_BATCH = 4  # it is noted, committed (before and after), and its commit is looked for
LOOKS = 2  # at the table, before its first commit: it is prepared, and its newest version is noted
AFTER_ITS_COMMIT = Attempt(troubles=(Trouble("output", LOOKS + 1, kills=True),))
BEFORE_ITS_COMMIT = Attempt(troubles=(Trouble("output", LOOKS, kills=True),))
IN_FLIGHT = replace(BEFORE_ITS_COMMIT, fates=(0, 1))
REPLACED = Attempt(changes=(Change("replace", 0, 2),))
ANOTHER_TABLE = Attempt(changes=(Change("replace", 0, 1),))
THEN_ANOTHER = Attempt(troubles=(Trouble("output", LOOKS, kills=False),), fates=(1,))
EXPIRED = Change("expire", 0, 9)
EMPTIED = Attempt(changes=(Change("empty", 0, 1), EXPIRED))
EXPIRED_SINCE = Attempt(changes=(EXPIRED,))

# A batch landed without what retention had taken before; what compaction takes after it does not stand for that.
COMPACTED = TableShape((1,), True, True, False, "copy", "none", None, False, 1)
TAKEN_BEFORE_IT_LANDED = (
    Attempt(troubles=(Trouble("output", 0, kills=True),)),
    replace(AFTER_ITS_COMMIT, changes=(Change("retain", 0, 2),)),
    Attempt(changes=(Change("compact", 0, 2),)),
)

# Of two commits of a batch the first expires before anybody looks: before it is counted, or before the next attempt.
FIRST_EXPIRES = Change("expire", 0, 1)
WHOLE = replace(ICEBERG, batch_offsets=None)
AND_THEN_COUNTED = (IN_FLIGHT, Attempt(meanwhile=((6, FIRST_EXPIRES),)))
AND_THEN_KILLED = (IN_FLIGHT, AFTER_ITS_COMMIT, Attempt(changes=(FIRST_EXPIRES,)))
AND_THEN_EMPTIED = (IN_FLIGHT, AFTER_ITS_COMMIT, Attempt(changes=(FIRST_EXPIRES, Change("empty", 0, 1))))

# And some rows of the same record do not stand for as many records.
EXPANDED = replace(ICEBERG, counts_losses=True, making="expand frames", batch_offsets=None)
RETAINED_BEFORE_AND_AFTER = (
    BEFORE_ITS_COMMIT,
    replace(AFTER_ITS_COMMIT, changes=(Change("retain", 0, 1),)),
    Attempt(changes=(Change("retain", 0, 3),)),
)


@EXAMPLES
@example(DELTA, NOTHING, (AFTER_ITS_COMMIT, EXPIRED_SINCE), 0)
@example(ICEBERG, NOTHING, (AFTER_ITS_COMMIT, EXPIRED_SINCE), 0)
@example(ICEBERG, ROWS, (IN_FLIGHT, AFTER_ITS_COMMIT, EXPIRED_SINCE), 0)
@example(ICEBERG, ROWS, (Attempt(meanwhile=((LOOKS + 1, EXPIRED),)),), 0)
@example(ICEBERG, ROWS, (AFTER_ITS_COMMIT, REPLACED), 0)
@example(ICEBERG, ROWS, (AFTER_ITS_COMMIT, ANOTHER_TABLE), 0)
@example(ICEBERG, ROWS, (AFTER_ITS_COMMIT, EMPTIED), 0)
@example(WHOLE, ROWS, AND_THEN_COUNTED, 0)
@example(WHOLE, ROWS, AND_THEN_KILLED, 0)
@example(WHOLE, ROWS, AND_THEN_EMPTIED, 0)
@example(ICEBERG, ROWS, (IN_FLIGHT, THEN_ANOTHER), 0)
@example(EXPANDED, tuple(Come(0, time, None, b"two") for time in range(6)), RETAINED_BEFORE_AND_AFTER, 0)
@example(COMPACTED, ROWS, TAKEN_BEFORE_IT_LANDED, 0)
@given(shapes, lists(come, 12, 1), lists(attempts, 4, 1), st.integers(0, 20))
def test_whatever_happens_each_row_is_in_the_table_once_or_it_is_said_that_nobody_knows(shape, records, tried, raised):
    world = TableWorld(shape)
    world.come(records)
    for attempt in tried:
        world.run(replace(attempt, load=attempt.load % shape.loads))
    for load in world.loads:
        load.limit = None if load.limit is None else load.limit + raised
    world.finish()
    for number, load in enumerate(world.loads):
        check_load(world, load, world.stopped.get(number))


whole_shapes = st.builds(
    replace,
    shapes.filter(lambda shape: not shape.limited),
    loads=st.just(1),
    compacted=st.just(False),
    counts_losses=st.just(False),
)
others = st.builds(
    Attempt,
    slice_offsets=st.sampled_from([1, 3, 100]),
    come=lists(come, 2),
    troubles=lists(troubles, 1),
    fates=lists(st.integers(0, 5), 4, 1),
)
still = st.builds(
    Attempt,
    slice_offsets=st.sampled_from([1, 3, 100]),
    come=lists(come, 3),
    troubles=lists(troubles, 1),
    fates=lists(st.integers(0, 5), 4, 1),
    beside=lists(st.tuples(st.integers(0, 90), others), 2, 1),
)


@EXAMPLES
@given(whole_shapes, lists(come, 12, 1), lists(still, 3, 1))
def test_an_attempt_that_stood_still_while_another_ran_takes_no_row_away_and_adds_none_that_it_need_not(
    shape, records, tried
):
    """But for a write that it was in: no catalog refuses an append to Iceberg, no broker a dead letter."""
    world = TableWorld(shape)
    world.come(records)
    for attempt in tried:
        world.run(attempt)
    world.finish()
    [load] = world.loads
    assert not world.stopped or silent(world), world.stopped
    for loaded in load.reports.keys() & load.ranges.keys():
        report = load.report(loaded)
        rows = [row for row in world.rows() if row.range_id == loaded]
        given, bad = given_by(world, load.ranges[loaded])
        found, letters = Counter(map(position_of, rows)), dead_letters(world, load.ranges[loaded])
        assert report.complete
        assert (given - found, bad - letters) == (Counter(), Counter()), "lost"
        assert (found.keys() - given, letters.keys() - bad) == (set(), set()), "a row of no record"
        twice, again = (found - given).total(), (letters - bad).total()
        assert not twice or shape.kind == "iceberg", "doubled"
        assert loaded in world.unheard or twice + again <= report.may_be_doubled, "doubled"


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize(
    ("die", "then", "old"),
    [(BEFORE_ITS_COMMIT, Attempt(), 4), (AFTER_ITS_COMMIT, Attempt(), 8), (AFTER_ITS_COMMIT, EXPIRED_SINCE, 8)],
    ids=["before a commit", "after a commit", "after a commit that has expired"],
)
def test_where_a_transform_is_changed_between_attempts_each_batch_keeps_the_code_that_wrote_it(kind, die, then, old):
    world = TableWorld(replace(ICEBERG, kind=kind, making="expand frames"))
    world.come(tuple(Come(0, time, None, b"two") for time in range(12)))
    [trouble] = die.troubles
    world.run(replace(die, troubles=(trouble._replace(after=trouble.after + TOUCHES_A_BATCH),)))
    world.shape = replace(world.shape, making="keep frames")
    world.run(then)
    world.finish()
    [load], [report] = world.loads, world.loads[0].reports.values()
    found = Counter(offset for _, offset in map(position_of, world.rows()))
    assert found == {offset: 2 if offset < old else 1 for offset in range(12)}
    assert (report.rows_emitted, report.may_be_doubled, report.lost) == (12 + old, 0, 0)
    assert load.ledger().rows == 12 + old


def check_load(world: TableWorld, load: Load, stopped: str | None) -> None:
    """Compare what a load has come to with what the definition says."""
    ledger = load.ledger()
    assert ledger is not None
    assert stopped is None or silent(world), stopped
    assert stopped or ledger.open is None
    assert stopped or ledger.rows == sum(each.rows_emitted + each.dead_letters for each in load.reports.values())
    for loaded in load.ranges.values():
        rows = [row for row in world.rows() if row.range_id == loaded.id]
        check_rows(world, load, loaded, rows)
        if loaded.id in load.reports:
            check_counts(world, load, loaded, rows)


def check_rows(world: TableWorld, load: Load, loaded: Range, rows: list[TableRow]) -> None:
    """Each row of each record is there once: of those in reach of the limit, and of those that could be read."""
    given, bad = given_by(world, loaded)
    gone = {each for each in load.taken if within(each, loaded.start.offsets, loaded.end.offsets)}
    given = given if gone else first(given, loaded.rows_left)
    found, letters = Counter(map(position_of, rows)), dead_letters(world, loaded)
    twice = doubled(loaded, rows)
    twice = (found - given).total() if twice is None else twice
    assert not (letters - bad), "a dead letter is doubled, or of no bad record"
    assert not twice or world.shape.kind == "iceberg" or world.table.forgot, "doubled"
    if (report := load.reports.get(loaded.id)) is None:
        return
    if world.table.emptied:
        assert report.may_be_doubled >= twice or world.table.late, "doubled"
    elif not (gone and (world.table.late or loaded.rows_left is not None)):
        assert report.may_be_doubled == twice or (silent(world) and report.may_be_doubled > twice), "doubled"
    if not gone:
        assert (found - (found - given), letters) == (given, bad), "lost"
    elif loaded.rows_left is None:
        assert all(each in gone for each in (given - found) | (bad - letters)), "lost"


def silent(world: TableWorld) -> bool:
    """Whether neither the history nor the rows may say how often they landed."""
    unclear = world.table.unclear or world.shape.loads > 1
    return unclear and world.table.emptied


def doubled(loaded: Range, rows: list[TableRow]) -> int | None:
    """How many rows say that they are the same as another one; None where rows say nothing."""
    said = [row.values.get(IDENTITY) for row in rows]
    if None in said:
        return None
    assert {each["range_id"] for each in said} <= {loaded.id}
    named = [((TopicPartition(each["topic"], each["partition"]), each["offset"]), each["ordinal"]) for each in said]
    assert [position for position, _ in named] == list(map(position_of, rows))
    return len(named) - len(set(named))


def check_counts(world: TableWorld, load: Load, loaded: Range, rows: list[TableRow]) -> None:
    """The report counts what can be counted."""
    report = load.reports[loaded.id]
    letters = dead_letters(world, loaded)
    assert report.complete
    if world.table.late and load.taken:  # what landed late had records that the batch lacks by now
        return
    doubtful = report.may_be_doubled if silent(world) else 0
    assert 0 <= report.rows_emitted + report.may_be_doubled - len(rows) <= doubtful
    assert report.dead_letters == letters.total()
    there = {position_of(row) for row in rows}
    lost, perhaps = (
        sum(within(each, loaded.start.offsets, report.stop.offsets) for each in gone)
        for gone in (load.expired - there - set(letters), (load.expired | load.expiring) - there)
    )
    assert report.lost >= lost
    # Of a batch that landed only the rows are counted: what else is missing, and several rows of a record, hide some.
    hidden = world.shape.compacted or world.shape.making == "expand frames"
    assert report.lost <= perhaps or hidden


@pytest.mark.parametrize("decoded", [True, False])
def test_dead_letters_in_a_topic_are_placed_as_a_range_was_begun_and_without_them_it_does_not_matter(decoded):
    world = TableWorld(replace(ICEBERG, decoded=decoded))
    world.come(ROWS)
    world.run(BEFORE_ITS_COMMIT)
    world.run(Attempt(moved=True))
    assert world.moved == [not decoded]  # what is refused is set back
    world.finish()


def given_by(world: TableWorld, loaded: Range) -> tuple[Counter[Position], Counter[Position]]:
    """How many rows each record of a range gives, in their order, and those that are bad."""
    given, bad = Counter[Position](), Counter[Position]()
    for each in world.source.history.in_order(loaded.span):
        record = world.source.records[position := (each.partition, each.offset)]
        if world.shape.is_bad(record.key):
            bad[position] = 1
        else:
            given[position] = world.shape.rows(record.value)
    return +given, bad


def first(given: Counter[Position], most: int | None) -> Counter[Position]:
    """The first so many rows."""
    return Counter(list(given.elements())[:most])


def dead_letters(world: TableWorld, loaded: Range) -> Counter[Position]:
    found = [read_provenance([(HEADER, row.provenance)]) for row in world.outputs.rows() if row.name == DEAD]
    return Counter((each.source, each.offset) for each in found if each.range_id == loaded.id)


def position_of(row: TableRow) -> Position:
    return TopicPartition(row.values["topic"], row.values["partition"]), row.values["offset"]
