"""The range of an interval's or a replay's run, which belongs to that run alone."""

from dataclasses import replace

import pytest
from support.interleaving import Killed, at
from support.runs import MirrorByHand, World, a_range, a_report

from airflow_provider_orderedkafka import steps
from airflow_provider_orderedkafka.core.documents import Claim, Open
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.errors import LifecycleError


@pytest.fixture
def world():
    return World()


def resolved(world, planned=None, *, again=False):
    books = world.run("d/replay").books
    return steps.resolve_own(books, lambda: planned or a_range("r1", 0, 5, 9), "own", again=again)


def loaded(world, range_id="r1"):
    books = world.run("d/replay").books
    todo = steps.load(books, range_id, lambda loaded, times: f"{loaded.id}/{times}")
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


def test_a_try_that_is_killed_at_any_moment_leaves_one_range_with_one_id_which_the_next_one_goes_on_with(world):
    for moment in range(40):
        world = World()
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


def test_a_claim_of_version_1_goes_on_under_its_own_key(world):
    store = world.ledger_store
    store.add_range(a_range("own", 0, 5, 9))
    store.save(Claim(Open("own", "d/replay"), ()), None, "own")
    assert resolved(world, a_range("r2", 0, 5, 12)).range == a_range("own", 0, 5, 9)
    assert loaded(world, "own").checkpoint == "own/0"
    assert steps.commit(world.run("d/replay").books, "own", MirrorByHand()).action is Action.MOVE
    assert resolved(world).action is Action.EMIT_AGAIN
    assert resolved(world, again=True).range.id == "own"


def test_another_airflow_s_report_of_the_same_name_proves_nothing_and_another_run_leads_out(world):
    store, ours = world.ledger_store, replace(a_range("own", 0, 5, 9), kind="interval")
    store.add_range(ours)
    store.save(Claim(Open("own", "d/replay"), ()), None, "own")
    todo = loaded(world, "own")
    theirs = replace(ours, cluster_id="another cluster")
    world.reports[todo.checkpoint] = replace(a_report(theirs, 1), fingerprint=theirs.fingerprint)
    books, before = world.run("d/replay").books, store.claim("own")
    for step in (
        lambda: steps.load(books, "own", lambda *_: ""),
        lambda: steps.commit(books, "own", MirrorByHand()),
    ):
        with pytest.raises(LifecycleError, match=r"about another range of the same name.* start another run for it"):
            step()
    assert store.claim("own") == before
    steps.resolve_own(world.run("d/other").books, lambda: a_range("r2", 0, 5, 9), "other", again=False)
    again = steps.load(world.run("d/other").books, "r2", lambda loaded, times: f"{loaded.id}/{times}")
    assert (again.action, again.checkpoint) == (Action.START, "r2/0")


def test_a_report_of_version_1_is_taken_by_its_name(world):
    resolved(world)
    todo = loaded(world)
    world.reports[todo.checkpoint] = replace(a_report(todo.range, 1), fingerprint="")
    assert steps.commit(world.run("d/replay").books, "r1", MirrorByHand()).action is Action.MOVE


def test_it_is_kept_over_retries_and_passed_on_to_the_commit_once_it_is_committed(world):
    assert resolved(world).action is Action.PLAN
    assert resolved(world).action is Action.KEEP
    loaded(world)
    steps.commit(world.run("d/replay").books, "r1", MirrorByHand())
    again = resolved(world)
    assert (again.action, again.range.id) == (Action.EMIT_AGAIN, "r1")
    assert steps.load(world.run("d/replay").books, "r1", lambda *_: "").action is Action.SKIP
    assert steps.commit(world.run("d/replay").books, "r1", MirrorByHand()).action is Action.EMIT_AGAIN


def test_it_is_loaded_once_more_from_a_checkpoint_of_its_own_where_the_load_says_so(world):
    resolved(world)
    assert loaded(world).checkpoint == "r1/0"
    steps.commit(world.run("d/replay").books, "r1", MirrorByHand())
    assert resolved(world, again=True).times == 1
    assert loaded(world).checkpoint == "r1/1"


def test_where_there_is_nothing_it_is_skipped_and_nothing_is_written(world):
    def nothing():
        raise steps.NothingToLoad("nothing to load")

    found = steps.resolve_own(world.run("d/replay").books, nothing, "own", again=False)
    assert (found.action, found.reason, world.store.values) == (Action.SKIP, "nothing to load", {})
