"""The range of an interval's or a replay's run, which belongs to that run alone."""

from dataclasses import replace

import pytest
from support.interleaving import Actor, Killed, at
from support.keeping import DictStore, FolderStore
from support.runs import MirrorByHand, Values, World, a_range, a_report

from airflow_provider_orderedkafka.core.documents import Claim, Claims, Open
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.loads import loading, resolving
from airflow_provider_orderedkafka.loads.resolving import RANGE_KEY
from airflow_provider_orderedkafka.outputs import KafkaOutput


@pytest.fixture(params=[DictStore, FolderStore], ids=["in Airflow", "in a folder"])
def kept_in(request):
    """Where the ledger is kept."""
    return request.param


@pytest.fixture
def world(kept_in):
    return World(kept_in())


def resolved(world, planned=None, *, again=False):
    books = world.run("d/replay").books
    memory = world.memories.setdefault("d/replay", Values())
    return resolving.resolve_own(books, lambda: planned or a_range("r1", 0, 5, 9), "own", again=again, memory=memory)


def loaded(world, range_id="r1"):
    books = world.run("d/replay").books
    todo = loading.load(books, range_id, lambda loaded, times: f"{loaded.id}/{times}")
    world.reports[todo.checkpoint] = a_report(todo.range, todo.attempt)
    return todo


class Dying:
    """Ends the process at one of its touches of the outside."""

    def __init__(self, at):
        self.left = at

    def __call__(self, what):
        self.left -= 1
        if self.left < 0:
            raise Killed


def ranges_of(world):
    return sorted(key for key in world.store.values if key.startswith("range/"))


def test_a_try_that_is_killed_at_any_moment_leaves_one_range_with_one_id_which_the_next_one_goes_on_with(kept_in):
    for moment in range(200):
        world = World(kept_in())
        later = replace(a_range("r2", 0, 5, 12), planned_at=77)
        try:
            with at(Dying(moment)):
                resolved(world)
        except Killed:
            written, named = ranges_of(world), world.ledger_store.claim("own")
            found = resolved(world, later).range
            assert found.id == (named.range_id if named else "r2")
            assert found.end == (a_range("r1", 0, 5, 9) if written else later).end
            assert ranges_of(world) == [f"range/{found.id}"]
            assert resolved(world, a_range("r3", 0, 5, 15)).range == found
            assert loaded(world, found.id).range == found
        else:
            return
    raise AssertionError("it never ended")


def test_two_ranges_of_the_same_run_and_times_in_two_airflows_are_two_ranges(world):
    other = World()
    assert resolved(world, a_range("r1", 0, 5, 9)).range.id != resolved(other, a_range("r2", 0, 5, 9)).range.id
    assert world.ledger_store.claim("own").range_id == "r1"


def test_another_airflow_s_report_of_the_same_name_proves_nothing_and_another_run_leads_out(world):
    store, ours = world.ledger_store, replace(a_range("own", 0, 5, 9), kind="replay", claim="own")
    store.add_range(ours)
    store.save(Claim(Open("own", "d/replay"), (), "own"), None, "own")
    todo = loaded(world, "own")
    theirs = replace(ours, cluster_id="another cluster")
    world.reports[todo.checkpoint] = a_report(theirs, 1)
    books, before = world.run("d/replay").books, store.claim("own")
    for step in (
        lambda: loading.load(books, "own", lambda *_: ""),
        lambda: loading.commit(books, "own", MirrorByHand()),
    ):
        with pytest.raises(LifecycleError, match="checkpoint="):
            step()
    assert store.claim("own") == before
    resolving.resolve_own(
        world.run("d/other").books, lambda: a_range("r2", 0, 5, 9), "other", again=False, memory=Values()
    )
    again = loading.load(world.run("d/other").books, "r2", lambda loaded, times: f"{loaded.id}/{times}")
    assert (again.action, again.checkpoint) == (Action.START, "r2/0")


def test_it_is_kept_over_retries_and_passed_on_to_the_commit_once_it_is_committed(world):
    assert resolved(world).action is Action.PLAN
    assert resolved(world).action is Action.KEEP
    loaded(world)
    loading.commit(world.run("d/replay").books, "r1", MirrorByHand())
    again = resolved(world)
    assert (again.action, again.range.id) == (Action.EMIT_AGAIN, "r1")
    assert loading.load(world.run("d/replay").books, "r1", lambda *_: "").action is Action.SKIP
    assert loading.commit(world.run("d/replay").books, "r1", MirrorByHand()).action is Action.EMIT_AGAIN


def test_it_is_loaded_once_more_from_a_checkpoint_of_its_own_where_the_load_says_so(world):
    resolved(world)
    assert loaded(world).checkpoint == "r1/0"
    loading.commit(world.run("d/replay").books, "r1", MirrorByHand())
    assert resolved(world, again=True).times == 1
    assert loaded(world).checkpoint == "r1/1"


def test_where_there_is_nothing_it_is_skipped_and_nothing_is_written(world):
    def nothing():
        return NothingToLoad("nothing to load")

    found = resolving.resolve_own(world.run("d/replay").books, nothing, "own", again=False, memory=Values())
    assert (found.action, found.reason, world.store.values) == (Action.SKIP, "nothing to load", {})


def begun(world, *keys):
    """Intervals of which each is loaded, and none is committed."""
    for key in keys:
        books = world.run("d/hourly").books
        resolving.resolve_own(
            books, lambda key=key: a_range(key, 0, 5, 9), key, again=True, memory=Values({RANGE_KEY: "other"})
        )
        todo = loading.load(books, key, lambda loaded, times: f"{loaded.id}/{times}")
        world.reports[todo.checkpoint] = a_report(todo.range, todo.attempt)


def committed(world, key):
    return loading.commit(world.run("d/hourly").books, key, MirrorByHand())


def ended(world, *keys):
    """Intervals that ran one after the other."""
    for key in keys:
        begun(world, key)
        committed(world, key)


def kept(world):
    return sorted(key for key in world.store.values if key.startswith(("claim/", "range/")))


@pytest.fixture
def two_are_kept(monkeypatch):
    monkeypatch.setattr(loading, "CLAIMS_KEPT", 2)


def test_of_ranges_that_ended_the_newest_are_kept_with_their_claims(world, two_are_kept):
    ended(world, "one", "two", "three", "two", "four")
    assert kept(world) == ["claim/four", "claim/two", "range/four", "range/two"]


def test_an_open_range_is_kept_however_old_it_is(world, two_are_kept):
    ended(world, "one")
    books = world.run("d/hourly").books
    for key in ("one", "never loaded"):
        resolving.resolve_own(books, lambda key=key: a_range(key, 0, 5, 9), key, again=True, memory=Values())
    ended(world, "two", "three", "four")
    open_still = ["claim/never loaded", "claim/one"]
    assert kept(world)[:4] == ["claim/four", *open_still, "claim/three"]
    ended(world, "one", "five")
    assert kept(world) == [
        *("claim/five", "claim/never loaded", "claim/one"),
        *("range/five", "range/never loaded", "range/one"),
    ]


def test_a_run_whose_range_is_not_kept_any_more_does_not_write_its_rows_a_second_time(world, two_are_kept):
    resolved(world)
    loaded(world)
    loading.commit(world.run("d/replay").books, "r1", MirrorByHand())
    ended(world, "one", "two")
    found = resolved(world)
    assert (found.action, found.range) == (Action.SKIP, None)
    assert "'own'" in found.reason
    with pytest.raises(LifecycleError, match="replay"):
        resolved(world, again=True)


def test_a_commit_that_is_killed_before_it_names_what_ended_does_so_when_it_runs_again(world, two_are_kept):
    def die(what):
        if what == "set claims":
            raise Killed

    begun(world, "one", "two")
    with at(die), pytest.raises(Killed):
        committed(world, "one")
    assert committed(world, "one").action is Action.EMIT_AGAIN
    committed(world, "two")
    ended(world, "three")
    assert kept(world) == ["claim/three", "claim/two", "range/three", "range/two"]


def test_two_commits_at_the_same_moment_both_succeed(world):
    def another(what):
        if what == "set claims":
            world.store.put("claims", {"keys": ["another"], "version": 2})

    begun(world, "one", "two")
    with at(another):
        committed(world, "one")
    assert world.ledger_store.claim("one").outcomes[-1].kind == "committed"


def test_many_runs_may_name_their_claims_at_the_same_moment(kept_in):
    world, keys = World(kept_in()), [f"claim {number}" for number in range(8)]
    runs = [Actor(lambda key=key: world.ledger_store.name_claim(key)) for key in keys]
    while not all(run.done for run in runs):
        for run in runs:
            run.move()
    assert [run.error for run in runs] == [None] * len(runs)
    named = Claims.from_text(world.ledger_store.text("claims"))
    assert sorted(named.keys) == keys


@pytest.mark.parametrize("topics", [("one", "other"), ("one", "one")], ids=["different ones", "the same one"])
def test_two_runs_may_store_their_jobs_at_the_same_moment(kept_in, topics):
    one, other = (Job(KafkaOutput(topic)) for topic in topics)
    for moment in range(200):
        world = World(kept_in())
        first = Actor(lambda world=world: world.ledger_store.add_job(one))
        for _ in range(moment):
            first.move()
        if first.done:
            return
        world.ledger_store.add_job(other)
        first.finish()
        assert first.error is None, moment
        assert [world.ledger_store.job(each.key) for each in (one, other)] == [one, other]
    raise AssertionError("it never ended")


def test_all_open_ranges_are_known_and_none_is_taken_for_ended_whose_document_or_books_are_gone(world):
    store = world.ledger_store
    with pytest.raises(LifecycleError, match="ledger="):
        store.open_ranges()
    ended(world, "one")
    begun(world, "two", "three")
    assert [each.id for each in store.open_ranges()] == ["two", "three"]
    resolving.resolve_own(
        world.run("d/hourly").books, lambda: a_range("one", 0, 5, 9), "one", again=True, memory=Values()
    )
    assert [each.id for each in store.open_ranges()] == ["one", "two", "three"]
    store.forget_ranges(["two"])
    with pytest.raises(LifecycleError, match="'two'"):
        store.open_ranges()
