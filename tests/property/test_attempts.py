"""Never lost, never doubled, in order, limits exact: whatever kills an attempt, and whatever changes before the next.

Loads of any shape are killed anywhere, and what there is to read, where it goes and how it is run changes in between.
At last nothing goes wrong any more. Then the outputs are compared with what the definition says, which knows nothing of
batches, slices, lanes and attempts.
"""

from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.attempt_laws import (
    EXAMPLES,
    Found,
    changes,
    check_order,
    check_order_of_ranges,
    check_rows,
    come,
    in_letters,
    lists,
    of_source,
    rewritten,
    rows_of,
    shapes,
    troubles,
    within,
)
from support.attempts import World
from support.draws import MARKER, Attempt, Change, Come, Shape, Trouble
from support.small_kafka import DEAD
from support.small_loads import Done, Load
from support.small_spark import SmallFrame

from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import DataLossError, TaskFailedError
from airflow_provider_orderedkafka.kafka.provenance import WHOLE_RECORD

pytestmark = pytest.mark.timeout(1200)

attempts = st.builds(
    Attempt,
    load=st.integers(0, 1),
    writers=st.sampled_from([None, 1, 2, 3]),
    slice_offsets=st.sampled_from([1, 2, 3, 5, 100]),
    batch_bytes=st.sampled_from([1, 300, 10_000]),
    raised=st.integers(0, 12),
    grown=st.integers(0, 1),
    names_dead_letters=st.booleans(),
    sick=st.booleans(),
    moved=st.booleans(),
    come=lists(come, 4),
    changes=lists(changes, 2),
    troubles=lists(troubles, 2, 1),
    fates=lists(st.integers(0, 5), 6, 1),
    meanwhile=lists(st.tuples(st.integers(0, 12), come | of_source), 2),
    denied=lists(st.sampled_from([False, False, True]), 4, 1),
    stale=lists(st.sampled_from([False, False, True]), 4, 1),
    beside=lists(st.tuples(st.integers(0, 60), come | of_source), 2),
    outdated=st.sampled_from([(False,), (False,), (True,), (False, True), (True, False, False)]),
)


# What went wrong once, or is rare.
LIMITED = Shape((1, 3), False, True, False, "keep", "key", None, True, 1)
EXPANDED = Shape((1,), False, False, False, "expand", "key", None, True, 1)
TWO_OF_EACH = tuple(Come(0, time, b"a", b"two") for time in range(4))
ONE_THEN_TWO_OF_EACH = tuple(Come(0, time, None, b"two" if time > 1 else b"one") for time in range(4))
LATE_AND_EARLY = (
    *(Come(0, 4, None, b"one"), Come(0, 5, None, b"one"), Come(1, 0, None, b"one"), Come(2, 4, None, b"none")),
    *([Come(0, 0, None, b"one")] * 13),
    *(Come(1, 0, None, b"one"), Come(3, 0, None, b"one")),
)
EXPIRES_WHILE_IT_IS_COUNTED = Attempt(
    slice_offsets=1,
    batch_bytes=1,
    raised=4,
    troubles=(Trouble("output", 0, False),),
    fates=(0,),
    meanwhile=((0, Change("compact", 0, 0)), (4, Change("retain", 0, 1))),
)
FEWER_SLICES_WHILE_IT_IS_COUNTED = Attempt(
    slice_offsets=1, batch_bytes=1, raised=5, meanwhile=((2, Change("retain", 0, 2)),)
)
KEYLESS = Shape(
    topics=(1,),
    compacted=False,
    counts_losses=False,
    placed=False,
    making="copy",
    keep_order="partition",
    batch_offsets=None,
    limited=False,
    loads=1,
)
ONE_LEADER_WAS_SLOW = Attempt(writers=1, troubles=(Trouble("output", 3, kills=True),), fates=(0, 0, 1, 0))

HIDDEN_BY_A_MARKER = tuple(
    Come(0, time, None, kind) for time, kind in [(0, b"one"), (10, MARKER), (1, b"one"), (12, b"one")]
)
ALL_LANDED = Attempt(slice_offsets=1, troubles=(Trouble("output", 2, kills=True),), fates=(2,))

SICK = replace(EXPANDED, limited=False)
SICK_AND_COMPACTED = replace(SICK, keeps_last=True)
OF_A_SICK_ONE = tuple(Come(0, time, b"a", kind) for time, kind in enumerate((b"one", b"sick", b"one", b"one")))
ITS_LETTER_LANDED = Attempt(
    names_dead_letters=True, sick=True, troubles=(Trouble("output", 3, kills=True),), fates=(2,)
)
A_ROW_OF_IT_LANDED = Attempt(troubles=(Trouble("output", 3, kills=True),), fates=(2,))
DIED_BEHIND_ITS_LETTER = Attempt(names_dead_letters=True, sick=True, troubles=(Trouble("output", 1, kills=True),))
INDEX_OF_BEFORE = replace(KEYLESS, topics=(3, 1), limited=True)
THREE_AND_A_LATER_ONE = tuple(Come(0, time, None, b"one") for time in (0, 0, 0, 6))
LOOKED_UP_AS_BEFORE = Attempt(
    slice_offsets=2, batch_bytes=1, raised=11, come=(Come(2, 0, None, b"one"),), outdated=(True,)
)
BATCHES_OF_THREE = replace(KEYLESS, topics=(2,), batch_offsets=3)
TWO_PARTITIONS = (Come(1, 6, None, b"one"), Come(0, 4, None, b"one"))
ENDS_AS_BEFORE = Attempt(come=(Come(1, 6, None, b"one"), Come(0, 7, None, b"one")), outdated=(True,))
BAD_SINCE = Attempt(names_dead_letters=True, sick=True)

RISING = tuple(Come(0, time, None, b"one") for time in range(4))
LARGE = tuple(Come(0, time, None, b"large") for time in range(4))
GROWN_AND_NOT_EVERYBODY_KNOWS = Attempt(
    slice_offsets=1,
    batch_bytes=1,
    changes=(Change("grow", 0, 0),),
    troubles=(Trouble("output", 0, kills=False),),
    stale=(False, False, True),
)
GROWN_AND_ONLY_PRODUCERS_KNOW = Attempt(
    grown=1, names_dead_letters=True, troubles=(Trouble("output", 3, kills=False),), fates=(5,), stale=(True,)
)
GROWN_AND_THE_NEXT_BROKER_DOES_NOT_KNOW = replace(
    GROWN_AND_ONLY_PRODUCERS_KNOW, names_dead_letters=False, stale=(False,) * 8 + (True,) * 30
)
BEFORE_THE_SECOND_BATCH = Attempt(troubles=(Trouble("output", 2, kills=True),))
ANEW_AND_ONLY_PRODUCERS_KNOW = Attempt(
    changes=(Change("anew", 0, 0),), troubles=(Trouble("output", 3, kills=False),), fates=(5,), stale=(True,)
)
ONE_WRITER_OF_TWO = Attempt(writers=2, troubles=(Trouble("output", 2, kills=True),))
OTHER_SLICES = Attempt(writers=2, slice_offsets=1)
SEVEN = tuple(Come(0, time, None, b"one") for time in range(7))
EXPIRED_SINCE = Attempt(changes=(Change("retain", 0, 2),))

PLACED = replace(KEYLESS, topics=(2,), placed=True, keep_order="key")
ASTRAY = tuple(
    Come(partition, time, key, b"one", astray=partition == 1)
    for partition, time, key in [(0, 5, b"a"), (0, 6, b"b"), (1, 0, b"d"), (1, 1, b"a"), (1, 9, b"d")]
)
ONE_OF_TWO_WAS_DONE = Attempt(writers=2, troubles=(Trouble("output", 1, kills=True),), fates=(2,))

OF_ONE_KEY = tuple(Come(0, time, b"a", b"one") for time in range(4))
OF_FOUR_KEYS = tuple(Come(0, time, key, b"one") for time in (1, 2) for key in (b"a", b"b", b"c", b"d"))
HALF_LANDED = Attempt(troubles=(Trouble("output", 4, kills=True),), fates=(5,))
GROWN_SINCE = Attempt(grown=1)
OUTPUT_DOES_NOT_ANSWER = Attempt(troubles=(Trouble("question", 4, kills=False),))  # when it is asked what landed
ANEW_AND_HALF_LANDED = replace(HALF_LANDED, changes=(Change("anew", 0, 0),))
COMPACTED = replace(KEYLESS, keep_order="key", keeps_last=True)
SENT_AS_NOBODY_KNOWS_WHAT_FITS = Attempt(troubles=(Trouble("output", 1, kills=True),), fates=(1,), denied=(True,))
SILENT_AND_COMPACTED = replace(COMPACTED, silent=True)
CLEANED_SINCE = Attempt(changes=(Change("clean", 0, 5),))
NOT_COMPACTED_SINCE = Attempt(changes=(Change("clean", 0, 5), Change("delete", 0, 0)))
IN_THE_SECOND_BATCH = Attempt(troubles=(Trouble("output", 3, kills=True),), fates=(1,))
SOURCE_GROWN_SINCE = Attempt(writers=2, changes=(Change("grow", 0, 0),))
JOINED = replace(KEYLESS, making="join frames", keep_order="key")
FIRST_ROWS_LANDED = Attempt(troubles=(Trouble("output", 7, kills=True),), fates=(8,))
ANEW_SINCE = Attempt(changes=(Change("anew", 0, 0),), troubles=(Trouble("output", 1, kills=True),), fates=(1,))


# The range that the first attempt plans has a record that the index of before does not know: it belongs behind others.
BY_PARTITION = Shape((1, 1), False, False, False, "copy", "partition", None, False, 1)
REACHES_FURTHER = Attempt(come=(Come(0, 5, None, b"one"),), outdated=(True,))
GOES_ON_BEFORE_IT = Attempt(come=(Come(1, 3, None, b"one"),))

# All of these come again after the index knows them, and so in slices of their own.
IN_SEVERAL_SLICES = (
    Attempt(
        slice_offsets=1,
        come=tuple(Come(0, time, None, b"one") for time in (0, 1, 0, 0)),
        beside=((15, Come(0, 0, None, b"one")),),
        outdated=(False, True),
    ),
)

# Up to the record that the limit lets through last, by the index of before, another one comes as well.
ONE_MORE_THAN_MAY = Attempt(
    slice_offsets=2, batch_bytes=1, raised=1, beside=((0, Come(0, 1, None, b"one")),), outdated=(True,)
)


def test_whichever_document_cannot_be_read_or_written_what_landed_is_not_written_again():
    for touch in range(60):
        world = World(replace(KEYLESS, keep_order="key"), 1)
        world.come(OF_FOUR_KEYS)
        world.run(HALF_LANDED)
        world.run(Attempt(troubles=(Trouble("store", touch, kills=False),)))
        world.finish()
        [load] = world.loads
        rows = rows_of(world, set(load.ranges))
        assert len(rows) == len({row.identity for row in rows}) == len(OF_FOUR_KEYS), touch


@pytest.mark.parametrize(("making", "gone"), [("copy", False), ("keep frames", True)])
def test_a_batch_of_which_a_dying_spark_does_not_say_what_its_tasks_did_is_not_counted(monkeypatch, making, gone):
    collected, left = SmallFrame.collect, [1]

    def dying(frame):
        found = collected(frame)
        return found[:-1] if left and frame.columns == ["found"] else found

    def asked(_):
        if left and left.pop() and gone:
            raise TaskFailedError("the JVM is gone")

    monkeypatch.setattr(SmallFrame, "collect", dying)
    monkeypatch.setattr(SmallFrame, "isLocal", asked)
    world = World(replace(KEYLESS, keep_order="key", making=making), 1)
    world.come(OF_FOUR_KEYS)
    world.run(Attempt())
    world.finish()
    assert left == []
    check_load(world, world.loads[0])


@EXAMPLES
@example(replace(BY_PARTITION, topics=(1,)), 1, (Come(0, 0, None, b"one"),), IN_SEVERAL_SLICES, 0)
@example(BY_PARTITION, 1, (Come(1, 0, None, b"one"),), (REACHES_FURTHER, GOES_ON_BEFORE_IT), 0)
@example(replace(BY_PARTITION, limited=True), 1, (Come(1, 0, None, b"one"),), (ONE_MORE_THAN_MAY,), 0)
@example(BATCHES_OF_THREE, 1, TWO_PARTITIONS, (ENDS_AS_BEFORE,), 0)
@example(
    INDEX_OF_BEFORE,
    1,
    (Come(0, 0, None, b"one"),),
    (Attempt(come=THREE_AND_A_LATER_ONE), Attempt(), LOOKED_UP_AS_BEFORE),
    0,
)
@example(replace(KEYLESS, keep_order="key"), 1, RISING[:1], (GROWN_AND_NOT_EVERYBODY_KNOWS,), 0)
@example(replace(KEYLESS, keep_order="key"), 1, RISING, (GROWN_AND_ONLY_PRODUCERS_KNOW,), 0)
@example(replace(KEYLESS, keep_order="key"), 1, LARGE, (GROWN_AND_ONLY_PRODUCERS_KNOW,), 0)
@example(KEYLESS, 1, RISING, (GROWN_AND_THE_NEXT_BROKER_DOES_NOT_KNOW,), 0)
@example(
    replace(SICK, batch_offsets=2), 1, ONE_THEN_TWO_OF_EACH, (BEFORE_THE_SECOND_BATCH, ANEW_AND_ONLY_PRODUCERS_KNOW), 0
)
@example(SICK_AND_COMPACTED, 1, OF_A_SICK_ONE, (A_ROW_OF_IT_LANDED, BAD_SINCE), 0)
@example(COMPACTED, 1, (Come(0, 0, b"a", b"large"),), (SENT_AS_NOBODY_KNOWS_WHAT_FITS,), 0)
@example(COMPACTED, 1, OF_ONE_KEY, (ALL_LANDED, NOT_COMPACTED_SINCE), 0)
@example(JOINED, 1, TWO_OF_EACH, (FIRST_ROWS_LANDED, FIRST_ROWS_LANDED), 0)
@example(COMPACTED, 1, OF_ONE_KEY, (ALL_LANDED, CLEANED_SINCE), 0)
@example(SICK, 1, OF_A_SICK_ONE, (ITS_LETTER_LANDED,), 0)
@example(SICK, 1, OF_A_SICK_ONE, (A_ROW_OF_IT_LANDED, BAD_SINCE), 0)
@example(SICK, 1, OF_A_SICK_ONE, (A_ROW_OF_IT_LANDED, DIED_BEHIND_ITS_LETTER), 0)
@example(replace(SICK, making="keep"), 1, OF_A_SICK_ONE, (A_ROW_OF_IT_LANDED, BAD_SINCE), 0)
@example(SILENT_AND_COMPACTED, 1, OF_ONE_KEY, (ALL_LANDED, CLEANED_SINCE), 0)
@example(replace(KEYLESS, keep_order="key"), 1, OF_FOUR_KEYS, (HALF_LANDED, ANEW_AND_HALF_LANDED, GROWN_SINCE), 0)
@example(replace(KEYLESS, batch_offsets=2), 1, RISING, (IN_THE_SECOND_BATCH, ANEW_SINCE), 0)
@example(PLACED, 2, ASTRAY, (ONE_OF_TWO_WAS_DONE, Attempt(writers=1)), 0)
@example(PLACED, 2, ASTRAY, (ONE_OF_TWO_WAS_DONE, SOURCE_GROWN_SINCE), 0)
@example(replace(KEYLESS, topics=(2,)), 2, RISING, (ONE_WRITER_OF_TWO, OTHER_SLICES), 0)
@example(replace(KEYLESS, counts_losses=True), 1, RISING, (replace(ALL_LANDED, writers=1), EXPIRED_SINCE), 0)
@example(replace(KEYLESS, keep_order="key"), 2, HIDDEN_BY_A_MARKER, (ALL_LANDED, Attempt(slice_offsets=1)), 0)
@example(KEYLESS, 2, (Come(0, 0, None, b"one"),) * 4, (ONE_LEADER_WAS_SLOW,), 0)
@example(replace(KEYLESS, keep_order="key"), 2, OF_FOUR_KEYS * 2, (HALF_LANDED, Attempt(moved=True)), 0)
@example(replace(KEYLESS, keep_order="key"), 1, OF_FOUR_KEYS, (HALF_LANDED, GROWN_SINCE), 0)
@example(replace(KEYLESS, keep_order="key"), 1, OF_FOUR_KEYS, (HALF_LANDED, OUTPUT_DOES_NOT_ANSWER), 0)
@example(EXPANDED, 1, TWO_OF_EACH, (Attempt(raised=1),), 0)
@example(LIMITED, 1, LATE_AND_EARLY, (EXPIRES_WHILE_IT_IS_COUNTED,), 0)
@example(replace(KEYLESS, counts_losses=True, limited=True), 1, SEVEN, (FEWER_SLICES_WHILE_IT_IS_COUNTED,), 0)
@given(shapes, st.integers(1, 4), lists(come, 20, 1), lists(attempts, 4, 1), st.integers(0, 40))
def test_whatever_happens_each_row_is_there_once_in_order_and_limits_are_exact(shape, outputs, records, tried, raised):
    world = World(shape, outputs)
    world.come(records)
    for attempt in tried:
        load = attempt.load % shape.loads
        world.run(replace(attempt, load=load))
        for each in world.loads:
            assert each.limit is None or len(rows_of(world, set(each.ranges))) <= each.limit
    for load in world.loads:
        load.limit = None if load.limit is None else load.limit + raised
    world.finish()
    for load in world.loads:
        check_load(world, load)


@EXAMPLES
@given(shapes, lists(come, 20, 1), lists(attempts, 2, 1), st.integers(0, 5), st.integers(0, 15))
def test_a_load_that_stands_in_a_log_that_was_truncated_writes_nothing_of_another_one(
    shape, records, tried, number, back
):
    world = World(replace(shape, loads=1, compacted=False, counts_losses=False), 1)
    world.come(records)
    for attempt in tried:
        world.run(replace(attempt, load=0, beside=()))
    [load] = world.loads
    partition = world.source.partitions[number % len(world.source.partitions)]
    at, places = max(world.source.ends[partition] - back, 0), load.places()
    world.source.truncate(partition, at)
    marks = [place.marked[partition] for place in places if partition in place.marked]
    parted = any(mark.digest and at <= mark.offset for mark in marks)
    losses: list[DataLossError] = []
    try:
        world.finish()
    except DataLossError as error:
        losses.append(error)
    assert not losses or any(at <= mark.offset for mark in marks)
    assert all((error.topic, error.partition) == partition for error in losses)
    assert all(error.offset <= max(place.offsets[partition] for place in places) for error in losses)
    assert not (parted and [row for row in world.outputs.rows() if b"one-since" in (row.value or b"")])


def check_load(world: World, load: Load) -> None:
    """Compare what a load has come to with what the definition says."""
    ledger, rows = load.ledger(), rows_of(world, set(load.ranges))
    assert ledger is not None
    assert max(Counter(row.identity for row in rows).values(), default=1) == 1, "doubled"
    assert ledger.rows == len(rows)
    assert load.limit is None or len(rows) <= load.limit
    assert len(rows) == load.limit or ledger.place.offsets == Offsets(
        {p: end for p, end in world.source.ends.items() if end or p in ledger.place.offsets}
    )
    at = load.first
    for loaded in load.ranges.values():
        assert loaded.start.offsets == Offsets(dict.fromkeys(loaded.start.offsets, 0) | dict(at))  # new ones from 0
        check_range(world, load, loaded)
        at = load.reports[loaded.id].stop.offsets
    check_order_of_ranges(world, load)
    assert ledger.place.offsets == Offsets(dict.fromkeys(ledger.place.offsets, 0) | dict(at))


def check_range(world: World, load: Load, loaded: Range) -> None:
    rows, report = rows_of(world, {loaded.id}), load.reports[loaded.id]
    done = [each for each in load.done.values() if each.range_id == loaded.id]
    check_rows(world, load, loaded, rows, done)
    check_counts(world, load, loaded, rows, done)
    check_order(world, load, loaded, rows)
    for batch in done:
        placed = defaultdict(set)
        for row in rows:
            if row.key is not None and row.topic != DEAD and within(row.source, batch.start, batch.end):
                placed[row.topic, row.key].add(row.partition)
        assert all(len(partitions) == 1 for partitions in placed.values()), "a key in two partitions"
    assert report.complete


def check_counts(world: World, load: Load, loaded: Range, rows: list[Found], done: list[Done]) -> None:
    """The report counts what can be counted."""
    report = load.reports[loaded.id]
    dead = sum(row.topic == DEAD for row in rows)
    again = sum(within(row.source, each.start, each.end) and row.write < each.write for row in rows for each in done)
    there = {row.source for row in rows}
    lost, perhaps = (
        sum(within(each, loaded.start.offsets, report.stop.offsets) for each in gone - there)
        for gone in (load.expired, load.expired | load.expiring)
    )
    assert (report.rows_emitted, report.dead_letters) == (len(rows) - dead, dead)
    assert report.replayed == again
    assert lost <= report.lost <= perhaps
    twice = [row for row in rows if row.source in in_letters(rows) and row.identity[1] != WHOLE_RECORD]
    assert report.may_be_doubled >= (doubled := rewritten(world, loaded) + len(twice))
    assert report.may_be_doubled == doubled or world.shape.keeps_last
