"""Boundaries between intervals: decided once, whoever decides at the same moment; compared again by the commit."""

from dataclasses import replace
from functools import partial

import pytest
from support import interleaving
from support.interleaving import write_what_was_compared
from support.keeping import FolderStore
from support.messages import naming
from support.runs import LOAD, PARTITION, TOPICS, DictStore, MirrorByHand, Values, World, a_range, a_report

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core.documents import Boundary, Times
from airflow_provider_orderedkafka.core.next_range import Deleted, Ends, Survey
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Topic
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import LifecycleError, NotYetError
from airflow_provider_orderedkafka.loads import loading, resolving
from airflow_provider_orderedkafka.loads.boundaries import Decider, Sight, check_interval
from airflow_provider_orderedkafka.loads.ledger import LedgerStore

NOON, ONE = 1_000, 2_000
WAIT = 300
TERMS = OrderedLoad(LOAD, ["orders"], grace="50ms", transaction_wait="300ms").terms


def at(time, offset):
    return Place(Offsets({PARTITION: offset}), Floor(time))


def boundary(time, offset):
    return Boundary(time, at(time, offset), TOPICS, time)


@pytest.fixture
def world():
    found = World()
    found.ledger_store.add_boundary(boundary(NOON, 5))
    found.ledger_store.add_boundary(boundary(ONE, 9))
    return found


@pytest.fixture
def interval():
    planned = a_range("hour", 0, 5, 9)
    return replace(planned, kind="interval", start=at(NOON, 5), end=at(ONE, 9))


def seen(now, open_since=None):
    topics = tuple(Topic(name, topic_id, 1, compacted=False) for name, topic_id in TOPICS.items())
    nothing = Offsets()
    return Survey(now, now, Discovery("cluster", topics, (PARTITION,)), Ends(nothing, nothing, 0, open_since), nothing)


def decider(world, place, now=ONE + 100):
    sight = Sight(seen(now), lambda time: place(time) if callable(place) else at(time, place))
    return Decider(world.ledger_store, TERMS, lambda: now, lambda floor: sight)


def test_a_boundary_is_decided_once_and_not_before_its_moment_and_the_grace_have_passed():
    world = World()
    with pytest.raises(NotYetError, match=naming("50ms ... 10ms")):
        decider(world, 7, ONE + 40).boundary(ONE)
    assert decider(world, 7).boundary(ONE).place == at(ONE, 7)
    assert decider(world, 8).boundary(ONE).place == at(ONE, 7)


def waited(world, open_since, now):
    """A decider at a moment when one transaction is open."""
    floors = []

    def look(floor):
        floors.append(floor)
        return Sight(seen(now, open_since), lambda time: at(time, 7))

    return Decider(world.ledger_store, TERMS, lambda: now, look), floors


def test_a_boundary_waits_for_a_transaction_that_may_commit_older_records_but_not_for_ever():
    world = World()
    with pytest.raises(NotYetError, match="300ms"):
        waited(world, ONE - 1, ONE + WAIT - 1)[0].boundary(ONE)
    assert waited(world, ONE - 1, ONE + WAIT)[0].boundary(ONE).place == at(ONE, 7)


def test_what_is_older_than_the_boundary_before_is_late_anyway_and_holds_nothing_back(world):
    for time in (NOON, ONE):
        world.ledger_store.name_boundary(time, 10)
    found, floors = waited(world, None, ONE + 600)
    assert found.boundary(ONE + 500).time == ONE + 500
    assert floors == [Floor(ONE)]


def test_who_decides_while_another_asks_kafka_is_the_one_that_holds():
    world = World()

    def slowly(time):
        decider(world, 3).boundary(time)
        return at(time, 4)

    assert decider(world, slowly).boundary(ONE).place == at(ONE, 3)
    assert world.ledger_store.boundaries() == (ONE,)


class SharedStore(DictStore):
    """A store in which a neighbour writes once, right before a key is read back after the boundary was written."""

    def __init__(self, key, write):
        super().__init__()
        self._key, self._write = key, write

    def get(self, key):
        if key == self._key and f"boundary/{ONE}" in self.values and self._write is not None:
            write, self._write = self._write, None
            write(LedgerStore(LOAD, self, lambda: None))
        return super().get(key)


def test_a_neighbour_that_decides_at_the_same_moment_fails_nobody_and_the_last_one_holds():
    world = World(SharedStore(f"boundary/{ONE}", lambda other: other.add_boundary(boundary(ONE, 3))))
    assert decider(world, 4).boundary(ONE).place == at(ONE, 3)


def test_a_name_that_a_neighbour_wrote_over_is_written_again():
    world = World(SharedStore("boundaries", lambda other: other.name_boundary(ONE + 1, kept=1)))
    assert decider(world, 4).boundary(ONE).place == at(ONE, 4)
    assert world.ledger_store.boundaries() == (ONE, ONE + 1)


@pytest.mark.parametrize("moment", range(1, 10))
def test_of_two_decisions_at_the_same_moment_the_first_one_holds_for_both_where_the_store_compares(moment):
    world, looks, others = World(FolderStore()), [], []

    def meanwhile(what):
        looks.append(what)
        if len(looks) == moment:
            others.append(decider(world, 3).boundary(ONE))

    with interleaving.at(meanwhile):
        decided = decider(world, 4).boundary(ONE)
    stands = world.store.watched(LOAD).boundary(ONE)
    assert [each.place for each in (decided, *others)] == [stands.place] * 2
    assert world.ledger_store.boundaries() == (ONE,)


@pytest.mark.parametrize("kept_in", [DictStore, FolderStore], ids=["in Airflow", "in a folder"])
@pytest.mark.parametrize("times", [(NOON, ONE), (ONE, NOON)], ids=["the earlier one first", "the later one first"])
def test_two_boundaries_that_are_decided_at_the_same_moment_lie_in_their_order(kept_in, times):
    """The place of the earlier time is found once a late record has come, which the other one has not seen."""
    seen_at = {NOON: 11, ONE: 10}
    for moment in range(200):
        world, decided = World(kept_in(), settle=lambda: write_what_was_compared(first)), {}  # noqa: B023 - of this round

        def decide(time, world=world, decided=decided):
            decided[time] = decider(world, seen_at[time]).boundary(time)

        first, second = (interleaving.Actor(partial(decide, time)) for time in times)
        for _ in range(moment):
            first.move()
        if first.done:
            return
        second.finish()
        first.finish()
        stands = {time: world.store.watched(LOAD).boundary(time) for time in times}
        assert decided == stands, moment
        assert stands[NOON].place.offsets[PARTITION] <= stands[ONE].place.offsets[PARTITION], moment
    raise AssertionError("it never ended")


def test_a_boundary_lies_between_its_neighbours(world):
    store = world.ledger_store
    for time in (NOON, ONE):
        store.name_boundary(time, 10)
    assert decider(world, 2).boundary(NOON + 500).place.offsets[PARTITION] == 5
    assert decider(world, 20).boundary(ONE - 300).place.offsets[PARTITION] == 9


def unsure(world, time, start, now=ONE + 700):
    """What is said to be uncertain of a boundary that is decided now, where the log starts at the time's place."""
    sight = Sight(seen(now), lambda time: at(time, start), lambda time: Deleted(time, Offsets({PARTITION: start})))
    Decider(world.ledger_store, TERMS, lambda: now, lambda floor: sight).boundary(time)
    return dict(world.ledger_store.uncertain(time).maybe)


@pytest.mark.parametrize(("start", "shown"), [(9, True), (10, False)], ids=["there", "behind it"])
def test_where_a_log_starts_at_a_boundary_one_before_shows_that_what_was_deleted_is_older(world, start, shown):
    for time in (NOON, ONE):
        world.ledger_store.name_boundary(time, 10)
    assert unsure(world, ONE + 500, start) == ({} if shown else {PARTITION: start})


def test_a_boundary_that_is_uncertain_itself_shows_it_only_for_times_after_it_was_decided():
    world = World()
    assert unsure(world, NOON, 9, now=ONE + 200) == {PARTITION: 9}
    assert unsure(world, ONE, 9, now=ONE + 300) == {PARTITION: 9}
    assert unsure(world, ONE + 400, 9, now=ONE + 600) == {}


def test_what_is_uncertain_of_a_boundary_stays_whoever_asks_and_is_forgotten_with_it():
    world = World()
    assert unsure(world, NOON, 9) == {PARTITION: 9}
    assert decider(world, 9).boundary(NOON).place == at(NOON, 9)
    assert dict(world.ledger_store.uncertain(NOON).maybe) == {PARTITION: 9}
    for time in (ONE, ONE + 100):
        world.ledger_store.name_boundary(time, 1)
    assert dict(world.ledger_store.uncertain(NOON).maybe) == {}


def test_a_boundary_that_was_forgotten_beside_a_claimed_interval_is_not_decided_anew(world):
    store = world.ledger_store
    store.add_interval(Times(NOON, ONE))
    for time in (NOON, ONE):
        store.name_boundary(time, 10)
    store.name_boundary(ONE + 100, 1)
    for time in (NOON, ONE):
        with pytest.raises(LifecycleError, match="replay"):
            decider(world, 7).boundary(time)
    assert decider(world, 7).boundary(NOON - 100).place == at(NOON - 100, 7)


def test_of_boundaries_the_latest_are_kept_and_those_that_were_decided_last(world):
    store = world.ledger_store
    for time in (100, 200, 300, 400, 50, 150, 60):
        store.name_boundary(time, 2)
    assert store.boundaries() == (60, 150, 300, 400)


def test_an_interval_with_the_boundaries_that_hold_is_right(world, interval):
    check_interval(world.ledger_store, interval)


def test_boundaries_that_are_not_kept_any_more_are_not_compared(interval):
    check_interval(World().ledger_store, interval)


@pytest.mark.parametrize(("time", "offset", "said"), [(NOON, 4, "@5 instead of 4"), (ONE, 12, "@9 instead of 12")])
def test_an_interval_with_a_boundary_that_does_not_hold_is_refused_and_moves_nothing(
    world, interval, time, offset, said
):
    books = world.run("d/hourly").books
    resolving.resolve_own(books, lambda: interval, "hour", again=False, memory=Values())
    todo = loading.load(books, "hour", lambda loaded, times: "hour/0")
    world.reports["hour/0"] = a_report(todo.range, todo.attempt)
    world.ledger_store.add_boundary(boundary(time, offset))
    claim = world.ledger_store.claim("hour")
    with pytest.raises(LifecycleError) as refused:
        loading.commit(books, "hour", MirrorByHand())
    for words in (said, f"load {LOAD!r}", "decided by two runs at the same moment", "a replay of just these offsets"):
        assert words in str(refused.value)
    assert world.ledger_store.claim("hour") == claim
    world.ledger_store.add_boundary(boundary(NOON, 5))
    world.ledger_store.add_boundary(boundary(ONE, 9))
    assert loading.commit(books, "hour", MirrorByHand()).outcome is not None
