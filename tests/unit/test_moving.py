"""A ledger moves from one store to another: whole, once, after any kill, and nobody goes on from where it was."""

from contextlib import suppress

import pytest
from support.interleaving import Killed, at
from support.keeping import DictStore, FolderStore
from support.runs import LOAD, Skipped, World, a_range

from airflow_provider_orderedkafka.core.pacing import WatcherState
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads import ledger_operations, loading, resolving

TO = "s3://bucket/ledgers"
STORES = {"Airflow": DictStore, "a folder": FolderStore}
WAYS = [(a, b) for a in STORES for b in STORES]


def loaded_world(kept, memory=None):
    """A world with two committed ranges of the ledger, a claim, a boundary, a watch."""
    world = World(kept())
    for high in (5, 9):
        world.high = high
        world.run(f"d/{high}").whole()
    books = world.run("d/replay").books
    found = resolving.resolve_own(books, lambda: a_range("own", 0, 0, 5), "own", again=False, memory=MirrorMemory())
    world.run("d/replay").load(found.range.id)
    loading.commit(books, found.range.id, world.mirror)
    books.store.save_watch(WatcherState("2", 7, 1))
    return world


class MirrorMemory(dict):
    def set(self, key, value):
        self[key] = value


def opened(store):
    return store.opened(LOAD, lambda: None)


def moved(world, target):
    ledger_operations.move(opened(world.store), opened(target), TO)


def books(store):
    """All that is kept, by key; word that it was moved is none of it."""
    return {key: value for key, value in store.values.items() if "moved_to" not in value}


@pytest.fixture(params=WAYS, ids=lambda way: f"from {way[0]} to {way[1]}")
def stores(request):
    return [STORES[name] for name in request.param]


def test_it_takes_all_that_is_kept_along_and_runs_go_on_there(stores):
    world, target = loaded_world(stores[0]), stores[1]()
    before = books(world.store)
    moved(world, target)
    assert books(target) == before
    world.store, world.high = target, 12
    world.run("d/12").whole()
    assert [(o.range_id, o.revision) for o in world.ledger.outcomes] == [("range-1", 1), ("range-2", 2), ("range-3", 3)]
    assert world.ledger_store.watch() == WatcherState("2", 7, 1)


def test_whoever_goes_on_where_it_was_is_told_where_it_is_and_changes_nothing(stores):
    world, target = loaded_world(stores[0]), stores[1]()
    moved(world, target)
    before, world.high = dict(world.store.values), 12
    for step in (
        lambda: world.run("d/12").resolve(),
        lambda: world.run("d/9").commit("range-2"),
        lambda: ledger_operations.ledger_of(world.ledger_store),
    ):
        with pytest.raises(LifecycleError, match=f"ledger='{TO}'"):
            step()
    assert dict(world.store.values) == before


def test_it_does_not_move_while_a_range_is_open(stores):
    world, target = loaded_world(stores[0]), stores[1]()
    world.high = 12
    world.run("d/12").resolve()
    before = dict(world.store.values)
    with pytest.raises(LifecycleError, match="'range-3' of d/12"):
        moved(world, target)
    assert (dict(world.store.values), dict(target.values)) == (before, {})


def test_it_does_not_move_while_the_range_of_an_interval_is_open(stores):
    world, target = loaded_world(stores[0]), stores[1]()
    resolving.resolve_own(
        world.run("d/hour").books, lambda: a_range("hour", 0, 0, 5), "hour", again=False, memory=MirrorMemory()
    )
    with pytest.raises(LifecycleError, match="'hour' of d/hour"):
        moved(world, target)


def test_a_move_that_is_killed_at_any_moment_ends_when_it_is_repeated(stores):
    for moment in range(1, 400):
        world, target, left = loaded_world(stores[0]), stores[1](), [moment]
        before = books(world.store)

        def die(_, left=left):
            left[0] -= 1
            if not left[0]:
                raise Killed

        ended = False
        with suppress(Killed), at(die):
            moved(world, target)
            ended = True
        if not ended:
            stands = [store for store in (world.store, target) if reads(store)]
            assert len(stands) <= 1, "two could go on"
        moved(world, target)
        assert books(target) == before
        if ended:
            return
    raise AssertionError("it never ended")


def reads(store):
    """Whether a run could go on from there."""
    try:
        return store.watched(LOAD).ledger() is not None
    except LifecycleError:
        return False


def test_repeated_after_runs_went_on_it_changes_nothing(stores):
    world, target = loaded_world(stores[0]), stores[1]()
    source = world.store
    moved(world, target)
    world.store, world.high = target, 12
    world.run("d/12").whole()
    before = books(target)
    ledger_operations.move(opened(source), opened(target), TO)
    assert books(target) == before


def test_it_moves_back_over_what_was_left_there(stores):
    world, target = loaded_world(stores[0]), stores[1]()
    source = world.store
    moved(world, target)
    world.store, world.high = target, 12
    world.run("d/12").whole()
    ledger_operations.move(opened(target), opened(source), "airflow")
    world.store, world.high = source, 15
    world.run("d/15").whole()
    assert world.ledger.revision == 4
    with pytest.raises(LifecycleError, match=r"'airflow'.*without ledger="):
        opened(target).ledger()


def test_a_place_with_books_of_its_own_is_refused_and_so_is_another_one_than_the_first(stores):
    world, other, target = loaded_world(stores[0]), loaded_world(stores[1]), stores[1]()
    before = dict(world.store.values)
    with pytest.raises(LifecycleError, match="already"):
        moved(world, other.store)
    assert dict(world.store.values) == before
    moved(world, target)
    with pytest.raises(LifecycleError, match=f"'{TO}'"):
        ledger_operations.move(opened(world.store), opened(stores[1]()), "s3://elsewhere")


def test_a_load_in_intervals_alone_which_has_no_ledger_moves_too(stores):
    world, target = World(stores[0]()), stores[1]()
    run = world.run("d/hour")
    found = resolving.resolve_own(
        run.books, lambda: a_range("hour", 0, 0, 5), "hour", again=False, memory=MirrorMemory()
    )
    run.load(found.range.id)
    loading.commit(run.books, found.range.id, world.mirror)
    moved(world, target)
    moved(world, target)
    assert opened(target).claim("hour").open is None
    with pytest.raises(LifecycleError, match=f"'{TO}'"):
        run.load("hour")
    with suppress(Skipped):
        ledger_operations.move(opened(target), opened(world.store), "airflow")
    assert opened(world.store).ledger() is None
