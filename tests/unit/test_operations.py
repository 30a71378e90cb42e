"""What a person does with a ledger of several topics."""

from dataclasses import replace
from functools import partial

import pytest
from support.messages import naming, says
from support.runs import LOAD, DictStore, MirrorByHand, World, a_range, a_report, place

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import Claim, Open
from airflow_provider_orderedkafka.core.notation.subscriptions import Assigned, Matching, Named
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import LedgerChangedError, LifecycleError, SettingError
from airflow_provider_orderedkafka.loads import ledger_operations
from airflow_provider_orderedkafka.loads.books import First, Home, look
from airflow_provider_orderedkafka.loads.ledger import LedgerStore

FIRST, SECOND, REFUNDS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("refunds", 0)
RETURNS = TopicPartition("returns", 0)
PERSON = ledger_operations.Person("a person", "because", 1, lambda owner: False)


@pytest.fixture
def store():
    place = Place(Offsets({FIRST: 50, SECOND: 60, REFUNDS: 70}), Floor(1_000))
    topics = {"orders": "old", "refunds": "r"}
    found = LedgerStore(LOAD, DictStore(), lambda: None)
    found.save(lifecycle.first_look(LOAD, instance="i", home_dag="d", place=place, topics=topics, now=0), None)
    return found


def rewound(store, offsets, topics):
    ledger, mirror = store.ledger(), MirrorByHand()
    place = ledger_operations.rewound_place(ledger, Offsets(offsets), topics)
    return ledger_operations.rewind(store, mirror, PERSON, ledger, place, topics=topics)


def test_a_rewind_takes_the_new_id_of_a_topic_that_was_created_again_and_leaves_the_others_where_they_are(store):
    after = rewound(store, {FIRST: 0}, {"orders": "new"})
    assert dict(after.topics) == {"orders": "new", "refunds": "r"}
    assert dict(after.place.offsets) == {FIRST: 0, REFUNDS: 70}
    assert after.place.floor == Floor(1_000).without([FIRST])


def test_a_rewind_in_a_topic_that_is_as_it_was_keeps_the_partitions_that_it_does_not_name(store):
    after = rewound(store, {FIRST: 0}, {"orders": "old"})
    assert dict(after.place.offsets) == {FIRST: 0, SECOND: 60, REFUNDS: 70}


def test_the_same_offsets_of_another_topic_are_another_place(store):
    ledger = store.ledger()
    here = Offsets({FIRST: 50})
    assert ledger_operations.rewound_place(ledger, here, {"orders": "old"}).floor == Floor(1_000)
    assert ledger_operations.rewound_place(ledger, here, {"orders": "new"}).floor == Floor(1_000).without([FIRST])


@pytest.mark.parametrize(
    ("offsets", "floor"),
    [
        ({FIRST: 49}, Floor(1_000).without([FIRST])),
        ({FIRST: 49, SECOND: 0, REFUNDS: 70}, Floor(1_000).without([FIRST, SECOND])),
        ({FIRST: 50, SECOND: 61}, Floor(1_000)),
        ({FIRST: 0, SECOND: 0, REFUNDS: 0}, Floor()),
    ],
    ids=["back", "some back", "on", "all back"],
)
def test_a_floor_is_given_up_only_where_something_is_loaded_again_and_the_preview_says_so(store, offsets, floor):
    ledger = store.ledger()
    place = ledger_operations.rewound_place(ledger, Offsets(offsets), {"orders": "old"})
    assert place.floor == floor
    said = ledger_operations.preview(ledger, place, {"orders": "old"})
    back = sum(offset < ledger.place.offsets[partition] for partition, offset in offsets.items())
    assert says(said, f"{back} partition ... 1970-01-01T00:00:01.000Z") == bool(back)


def test_a_ledger_shows_the_floors_of_partitions_that_begin_anew(store):
    after = rewound(store, {FIRST: 0}, {"orders": "old"})
    said = ledger_operations.shown(after)
    assert "floor         1970-01-01T00:00:01.000Z" in said
    assert says(said, "orders[0]@0, ... none\n")
    assert "orders[1]@60\n" in said


def test_the_topics_to_move_are_those_of_the_ledger_or_some_of_them(store):
    ledger = store.ledger()
    assert ledger_operations.named(ledger, ()) == ("orders", "refunds")
    assert ledger_operations.named(ledger, ["refunds"]) == ("refunds",)
    with pytest.raises(SettingError, match=r"'orderz'.*'orders', 'refunds'"):
        ledger_operations.named(ledger, ["orderz"])


def test_a_topic_that_is_added_to_a_load_begins_once_and_for_all_where_the_start_policy_led_at_the_first_look(store):
    world = World(store._store)
    books, asked = world.run("d/1").books, []

    def start(wanted):
        asked.append(wanted)
        return First(Place(Offsets({RETURNS: 1_000}), Floor()), {"returns": "new"})

    for _ in range(2):
        ledger = look(books, world.mirror, start, Named(("orders", "refunds", "returns")), home=Home("d"))
    assert asked == [Named(("returns",))]
    assert dict(ledger.place.offsets) == {FIRST: 50, SECOND: 60, REFUNDS: 70, RETURNS: 1_000}
    assert (ledger.revision, ledger.place.floor, ledger.topics["returns"]) == (0, Floor(1_000), "new")
    assert world.mirror.shown.place == ledger.place


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Named(("orders", "refunds")), Assigned((FIRST, REFUNDS))),
        (Assigned((FIRST, SECOND, REFUNDS)), Named(("orders", "refunds"))),
        (Assigned((FIRST, SECOND, REFUNDS)), Matching("orders|refunds")),
    ],
    ids=["names to partitions", "partitions to names", "partitions to a pattern"],
)
def test_a_load_of_whole_topics_does_not_become_one_of_chosen_partitions_nor_the_other_way_round(store, before, after):
    world = World(store._store)
    books = world.run("d/1").books
    looked = partial(look, books, world.mirror, lambda wanted: pytest.fail("nothing is added"), home=Home("d"))
    assert looked(before).chosen is isinstance(before, Assigned), "what is not known is taken as it is"
    with pytest.raises(LifecycleError) as refused:
        looked(after)
    assert f"orderedkafka ledger rewind {LOAD} --to" in str(refused.value)
    ledger_operations.rewind(store, world.mirror, PERSON, store.ledger(), store.ledger().place)
    assert looked(after).chosen is isinstance(after, Assigned)


def test_a_partition_that_is_chosen_later_begins_where_the_start_policy_led(store):
    world, asked = World(store._store), []
    third = TopicPartition("orders", 2)

    def start(wanted):
        asked.append(wanted)
        return First(Place(Offsets({third: 1_000}), Floor()), {"orders": "another by now"})

    chosen = Assigned((FIRST, third))
    for _ in range(2):
        ledger = look(world.run("d/1").books, world.mirror, start, chosen, home=Home("d"))
    assert asked == [Assigned((third,))]
    assert dict(ledger.place.offsets) == {FIRST: 50, SECOND: 60, REFUNDS: 70, third: 1_000}
    assert ledger.topics["orders"] == "old", "so that the next look finds out that it was created again"


def opened_by(store, owner):
    before = store.ledger()
    store.save(lifecycle.submitted(lifecycle.opened(before, "r1", owner), "/c", "here"), before)
    return store.ledger()


def test_a_preview_of_abandoning_says_what_happens_to_the_range_and_to_its_offsets(store):
    assert ledger_operations.preview_of_abandon(store.ledger()) == f"load {LOAD} has no open range"
    said = ledger_operations.preview_of_abandon(opened_by(store, "d/1"))
    assert says(said, "range 'r1' of d/1 ... submitted ... attempt 1")
    assert "revision 0" in said


@pytest.mark.parametrize(
    ("action", "active", "said"), [("abandon", True, "d/1"), ("rewind", True, "d/1"), ("rewind", False, "'r1'")]
)
def test_what_would_refuse_a_change_is_known_before_it_is_confirmed(store, action, active, said):
    ledger = opened_by(store, "d/1")
    found = ledger_operations.objection(ledger, action, lambda owner: active)
    assert said in found
    person = ledger_operations.Person("a person", "because", 1, lambda owner: active)
    does = {
        "abandon": lambda: ledger_operations.abandon(store, person, ledger),
        "rewind": lambda: ledger_operations.rewind(store, MirrorByHand(), person, ledger, ledger.place),
    }
    with pytest.raises(LifecycleError) as refused:
        does[action]()
    assert str(refused.value) == found


def test_nothing_open_is_nothing_to_abandon_and_nothing_against_a_rewind(store):
    assert repr(LOAD) in ledger_operations.objection(store.ledger(), "abandon", lambda owner: False)
    assert ledger_operations.objection(store.ledger(), "rewind", lambda owner: True) is None
    assert ledger_operations.objection(opened_by(store, "d/1"), "abandon", lambda owner: False) is None


def test_a_load_that_ended_at_its_row_limit_says_so_in_the_ledger_for_good():
    planned = a_range("r1", 0, 5, 105)
    spent = replace(a_report(planned, 1), limit_reached=True, stop=place(15), rows_emitted=9)
    world = World(DictStore())
    world.ledger_store.save(
        lifecycle.first_look(LOAD, instance="i", home_dag="d", place=place(5), topics={}, now=0), None
    )
    ledger = opened_by(world.ledger_store, "d/1")
    (outcome,) = lifecycle.committed(ledger, planned, spent, "d/1", 9).outcomes
    assert outcome.reason == "the row limit was reached after 10 of 100 offsets; the rest waits"
    (outcome,) = lifecycle.committed(ledger, planned, replace(spent, limit_reached=False), "d/1", 9).outcomes
    assert outcome.reason == planned.reason


def test_nothing_waits_behind_the_first_rows_of_a_replay():
    replayed = replace(a_range("r1", 0, 5, 105), kind="replay")
    spent = replace(a_report(replayed, 1), limit_reached=True, stop=place(15), rows_emitted=9)
    (outcome,) = lifecycle.claim_committed(Claim(Open("r1", "d/1"), (), "r1"), replayed, spent, "d/1", 9).outcomes
    assert outcome.reason == "the row limit was reached after 10 of 100 offsets"


def test_a_topic_that_was_added_after_a_backup_goes_on_where_the_mirror_says_once_the_ledger_is_restored(store):
    world, backup = World(store._store), store.ledger()
    begins = First(Place(Offsets({RETURNS: 0}), Floor()), {"returns": "new"})
    wanted = Named(("orders", "refunds", "returns"))
    looked = partial(look, world.run("d/1").books, world.mirror, lambda _: begins, wanted, home=Home("d"))
    added = looked()
    stood = added.place.with_offsets(added.place.offsets.updated({RETURNS: 500}))
    world.mirror.write(replace(added, revision=1, place=stood))
    store.save(backup, store.ledger())
    ledger_operations.restore(store, world.mirror, PERSON, world.mirror.shown, added.topics)
    assert looked().place.offsets == stood.offsets


def test_a_topic_that_the_mirror_does_not_know_yet_stays_where_it_begins_once_the_ledger_is_restored(store):
    world = World(store._store)
    begins = First(Place(Offsets({RETURNS: 7}), Floor()), {"returns": "new"})
    wanted = Named(("orders", "refunds", "returns"))
    world.mirror.write(store.ledger())
    mirrored = world.mirror.shown
    added = look(world.run("d/1").books, world.mirror, lambda _: begins, wanted, home=Home("d"))
    restored = ledger_operations.restore(store, world.mirror, PERSON, mirrored, added.topics)
    assert restored.place.offsets == added.place.offsets


@pytest.mark.parametrize("moves", [{}, {REFUNDS: 0}], ids=["to where it stands", "in one topic"])
def test_a_ledger_that_moved_while_a_person_was_asked_does_not_move_as_was_shown(store, moves):
    shown = store.ledger()
    place = ledger_operations.rewound_place(shown, Offsets(moves)) if moves else shown.place
    further = replace(shown.place, offsets=shown.place.offsets.updated({FIRST: 55}), floor=Floor(2_000))
    store.save(replace(shown, revision=1, place=further), shown)
    with pytest.raises(LedgerChangedError):
        ledger_operations.rewind(store, MirrorByHand(), PERSON, shown, place)
    assert store.ledger().place == further


def test_a_range_that_was_opened_while_a_person_was_asked_is_not_given_up_for_the_one_that_was_shown(store):
    shown = opened_by(store, "d/1")
    store.save(replace(shown, open=replace(shown.open, range_id="r2")), shown)
    with pytest.raises(LedgerChangedError):
        ledger_operations.abandon(store, PERSON, shown)
    assert store.ledger().open.range_id == "r2"


def test_a_ledger_that_moved_while_a_person_was_asked_is_not_taken_back_to_the_mirror_that_was_shown(store):
    before, mirror = store.ledger(), MirrorByHand()
    mirror.write(before)
    store.save(replace(before, revision=1, place=before.place.with_offsets(Offsets({FIRST: 55}))), before)
    with pytest.raises(LifecycleError, match="revision 1"):
        ledger_operations.restore(store, mirror, PERSON, mirror.shown, before.topics)
    assert dict(store.ledger().place.offsets) == {FIRST: 55}


def test_a_mirror_of_which_a_part_is_missing_restores_nothing_and_a_way_out_is_said_that_needs_no_ledger(store):
    world = World(DictStore())
    world.mirror.write(store.ledger())
    part = replace(world.mirror.shown, whole=False)
    with pytest.raises(LifecycleError, match=naming(f"orderedkafka.{LOAD}, ... start=")):
        ledger_operations.restore(world.ledger_store, world.mirror, PERSON, part, {})
    assert world.ledger is None
