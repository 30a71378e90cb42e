"""An attempt that stands still at any touch, as a stopped virtual machine does, and others that run to their end."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.attempt_laws import EXAMPLES, check_order, check_rows, come, lists, rewritten, rows_of, shapes, troubles
from support.attempts import World
from support.draws import Attempt, Change, Come, Shape, Trouble
from support.small_kafka import DEAD
from support.small_transactions import in_transactions

from airflow_provider_orderedkafka.errors import FencedError, LedgerChangedError

pytestmark = pytest.mark.timeout(1200)

plain_shapes = st.builds(replace, shapes.filter(lambda shape: not (shape.keeps_last or shape.joins)), loads=st.just(1))
others = st.builds(
    Attempt,
    slice_offsets=st.sampled_from([1, 3, 100]),
    names_dead_letters=st.just(True),
    come=lists(come, 2),
    troubles=lists(troubles, 1),
    fates=lists(st.integers(0, 5), 4, 1),
)
still = st.builds(
    Attempt,
    slice_offsets=st.sampled_from([1, 3, 100]),
    batch_bytes=st.sampled_from([1, 300]),
    names_dead_letters=st.just(True),
    come=lists(come, 4),
    troubles=lists(troubles, 1),
    fates=lists(st.integers(0, 5), 4, 1),
    beside=lists(st.tuples(st.integers(0, 120), others), 2, 1),
)

COPYING = Shape((1,), False, False, False, "copy", "key", None, False, 1)
KEEPING = replace(COPYING, keeps_last=True, batch_offsets=2)
EVERYTHING_COMPACTED = Change("clean", 0, 100)
RISING = tuple(Come(0, time, b"k", b"one") for time in range(6))
OF_TWO_PARTITIONS = tuple(Come(number % 2, number, b"abcd"[number % 4 :][:1], b"one") for number in range(8))
DIES_AS_IT_WRITES = Attempt(troubles=(Trouble("output", 0, kills=True),))
DIES_AFTER_ITS_FIRST_ROW = Attempt(troubles=(Trouble("output", 1, kills=True),), fates=(1,))


def check(world: World) -> None:
    """Rows of a write that an attempt stood still in are refused by no broker: it counts them, unless it is killed."""
    [load] = world.loads
    for loaded in load.ranges.values():
        rows, report = rows_of(world, {loaded.id}), load.report(loaded.id)
        done = [each for each in load.done.values() if each.range_id == loaded.id]
        doubled = len(rows) - len({row.identity for row in rows})
        assert report.complete
        assert loaded.id in world.unheard or doubled <= report.may_be_doubled, "doubled"
        once = list({row.identity: row for row in reversed(rows)}.values())[::-1]
        check_rows(world, load, loaded, once, done)
        if not doubled:
            check_order(world, load, loaded, rows)
            dead = sum(row.topic == DEAD for row in rows)
            assert (report.rows_emitted, report.dead_letters) == (len(rows) - dead, dead)


def check_exactly(world: World) -> None:
    """No row is there twice, and no report says that one may be."""
    check(world)
    [load] = world.loads
    for loaded in load.ranges.values():
        rows = rows_of(world, {loaded.id})
        assert (len({row.identity for row in rows}), load.report(loaded.id).may_be_doubled) == (len(rows), 0)


@EXAMPLES
@given(plain_shapes, st.integers(1, 4), lists(come, 20, 1), lists(still, 3, 1))
def test_an_attempt_that_stood_still_while_another_ran_changes_nothing_that_is_finished(shape, outputs, records, tried):
    world = World(shape, outputs)
    world.come(records)
    for attempt in tried:
        world.run(attempt)
    world.finish()
    check(world)


exact_shapes = plain_shapes.filter(lambda shape: not shape.silent)


@EXAMPLES
@given(exact_shapes, st.integers(1, 4), lists(come, 20, 1), lists(still, 3, 1))
def test_with_exactly_once_not_even_a_write_that_goes_on_after_another_attempt_s_doubles_a_row(
    shape, outputs, records, tried
):
    world = World(shape, outputs)
    world.come(records)
    with in_transactions(world):
        for attempt in tried:
            world.run(attempt)
        world.finish()
    check_exactly(world)


@pytest.mark.parametrize(
    ("making", "other"),
    [("copy", Attempt(writers=1)), ("keep frames", DIES_AFTER_ITS_FIRST_ROW)],
    ids=["another loads all of it", "another dies"],
)
def test_with_exactly_once_whoever_stands_still_at_any_touch_doubles_no_row(making, other):
    for touch in range(80):
        world = World(replace(COPYING, topics=(2,), making=making), 2)
        world.come(OF_TWO_PARTITIONS)
        with in_transactions(world):
            world.run(Attempt(writers=2, beside=((touch, other),)))
            world.finish()
        check_exactly(world)


def test_whoever_stands_still_counts_no_batch_of_which_it_does_not_know_what_others_wrote():
    """At any touch, while another attempt writes a row of two and dies."""
    for touch in range(60):
        world = World(COPYING, 1)
        world.come(RISING[:2])
        world.run(Attempt(fates=(1,), beside=((touch, DIES_AFTER_ITS_FIRST_ROW),)))
        world.finish()
        check(world)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_whoever_stands_still_counts_no_batch_as_it_knows_it_that_another_one_has_written_again(rows):
    """At any touch, while another attempt writes so many rows and dies.

    The output was compacted meanwhile, so that it gets a batch again as a whole, which is counted as doubled.
    """
    other = Attempt(changes=(EVERYTHING_COMPACTED,), troubles=(Trouble("output", rows, kills=True),), fates=(1,))
    for touch in range(70):
        world = World(KEEPING, 1)
        world.come(RISING)
        world.run(Attempt(fates=(1,), beside=((touch, other),)))
        world.finish()
        [load] = world.loads
        [loaded] = load.ranges.values()
        doubled = rewritten(world, loaded)
        assert loaded.id in world.unheard or doubled <= load.report(loaded.id).may_be_doubled, touch


@pytest.mark.parametrize("other", [Attempt(), DIES_AS_IT_WRITES], ids=["loads all of it", "dies as it writes"])
def test_whoever_stands_still_while_others_plan_or_load_leaves_a_load_that_goes_on(other):
    """At any touch, also while it plans or writes the ledger: it may end with an error, the next one does not.

    What others have loaded meanwhile is not loaded again.
    """
    for touch in range(100):
        world = World(COPYING, 1)
        world.others_wait = False
        world.come(RISING)
        with suppress(LedgerChangedError, FencedError):
            world.run(Attempt(beside=((touch, other),)))
        world.finish()
        [load] = world.loads
        rows, ledger = rows_of(world, set(load.ranges)), load.ledger()
        assert {row.source for row in rows} == set(world.source.records), touch
        assert world.awoken or len(rows) == ledger.rows == len(RISING), touch
