"""What is refused of a load of upserts, whose table would be another one than its topics say."""

from dataclasses import replace

import pytest
from support.messages import naming
from support.runs import LOAD, PARTITION, World, a_person, a_range, place, restore, rewind

from airflow_provider_orderedkafka.core.next_range import Ends, Survey
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Place
from airflow_provider_orderedkafka.core.order.marks import Compared
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.upserts import check_reached, upserting
from airflow_provider_orderedkafka.errors import DataLossError, LifecycleError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.loads import ledger_operations
from airflow_provider_orderedkafka.outputs import DeltaOutput

ADDS, MERGES = Job(DeltaOutput("/a")), Job(DeltaOutput("/a", upsert=["id"]))
ADDED = TopicPartition("orders", 1)


def run(world, high, job):
    """A run that loads up to there."""
    world.high = high
    each = world.run(f"d/{world.planned}")
    range_id = each.resolve(job)
    each.load(range_id, job=job)
    each.commit(range_id)
    each.end()
    return world.ledger_store.range(range_id)


@pytest.fixture
def world():
    """A load that makes upserts and has come to 5."""
    found = World()
    assert run(found, 5, MERGES).upsert.stage == "first"
    return found


def test_a_range_is_of_its_ledger_and_is_loaded_again_up_to_where_the_load_had_come(world):
    ledger = world.ledger
    rewind(world, 2)
    assert run(world, 5, MERGES).upsert.stage == "again"
    after = run(world, 9, MERGES)
    assert (after.upsert.owner, after.upsert.stage) == (f"orders/{ledger.instance}", "next")
    assert (ledger.reached, world.ledger.reached) == (place(5), place(9))


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [(MERGES, ADDS, "'orders' ... upsert="), (ADDS, MERGES, "'orders' ... start='earliest'")],
    ids=["rows after upserts", "upserts after rows"],
)
def test_a_load_that_makes_upserts_does_not_add_rows_nor_the_other_way_round(first, then, words):
    world = World()
    run(world, 5, first)
    with pytest.raises(LifecycleError, match=naming(words)):
        run(world, 9, then)
    assert (world.ledger.open, world.ledger.place) == (None, place(5))


@pytest.mark.parametrize("kind", ["interval", "incremental"])
def test_a_range_without_a_ledger_makes_no_upserts(kind):
    with pytest.raises(LifecycleError, match=naming("'r1' ... ordered_load() ... upsert=")):
        upserting(None, replace(a_range("r1", 0, 0, 5), kind=kind), upserts=True)


@pytest.mark.parametrize(("reached", "end"), [(True, 6), (False, 1)], ids=["beyond", "before the first run"])
def test_a_replay_gives_values_anew_and_no_others(world, reached, end):
    ledger = world.ledger if reached else replace(world.ledger, reached=None)
    replay = replace(a_range("r1", 0, 0, end), kind="replay")
    with pytest.raises(LifecycleError, match=naming(f"orders[0]@{end} ... orders[0]@{5 * reached}")):
        upserting(ledger, replay, upserts=True)
    assert upserting(world.ledger, replace(replay, end=place(5)), upserts=True).upsert.stage == "again"


def test_a_move_leaves_nothing_out(world):
    with pytest.raises(LifecycleError, match=naming("orders[0]@5 ... orders[0]@6 ... start=")):
        rewind(world, 6)
    joined = replace(world.ledger, place=Place(Offsets({PARTITION: 5, ADDED: 0}), NO_FLOOR))
    world.ledger_store.save(joined, world.ledger)
    with pytest.raises(LifecycleError, match=naming("orders[1]@0 ... orders[1]@3")):
        ledger_operations.rewind(
            world.ledger_store, world.mirror, a_person(world), joined, Place(Offsets({ADDED: 3}), NO_FLOOR)
        )


def test_a_move_goes_into_no_topic_that_was_made_anew(world):
    with pytest.raises(LifecycleError, match=naming("'orders' ... start='earliest'")):
        ledger_operations.rewind(
            world.ledger_store, world.mirror, a_person(world), world.ledger, place(0), topics={"orders": "another"}
        )


@pytest.mark.parametrize(("end", "parted"), [(4, {}), (9, {PARTITION: 3})], ids=["shorter", "another one"])
def test_a_log_that_was_truncated_before_where_the_load_had_come_is_an_error_with_a_way_out(end, parted):
    ends = Ends(Offsets({PARTITION: end}), Offsets({PARTITION: end}))
    seen = Survey(0, 0, Discovery("", (), (PARTITION,)), ends, Offsets(), logs=Compared(parted))
    with pytest.raises(DataLossError, match=naming("orders[0]@5 ... start='earliest'")) as found:
        check_reached(LOAD, place(5), seen)
    assert (found.value.partition, found.value.offset) == (0, 5)


def test_a_mirror_takes_nothing_from_what_a_ledger_knows_of_its_table(world):
    first = world.mirror.shown
    run(world, 9, MERGES)
    world.mirror.shown = first
    added = Place(Offsets({PARTITION: 9, ADDED: 2}), NO_FLOOR)
    world.ledger_store.save(replace(world.ledger, place=added, reached=added), world.ledger)
    with pytest.raises(LifecycleError, match="rewind"):
        restore(world)
    assert (world.ledger.place, world.ledger.reached) == (added, added)
    world.mirror.shown = replace(first, revision=world.ledger.revision, reached=None)
    with pytest.raises(LifecycleError, match=naming("'orders' ... start='earliest'")):
        restore(world)


def test_nothing_before_the_beginning_of_a_table_is_loaded_again(world):
    begun = replace(world.ledger, begun=place(3).offsets)
    world.ledger_store.save(begun, world.ledger)
    replay = replace(a_range("r1", 0, 2, 5), kind="replay")
    for again in (lambda: rewind(world, 2), lambda: upserting(world.ledger, replay, upserts=True)):
        with pytest.raises(LifecycleError, match=naming("orders[0]@3 ... orders[0]@2 ... start='earliest'")):
            again()
    rewind(world, 3)
    assert run(world, 9, MERGES).upsert.stage == "again"
    assert world.ledger.begun == place(3).offsets
