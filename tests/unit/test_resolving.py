"""The range of an interval's or a replay's run, which belongs to that run alone."""

from dataclasses import replace

import pytest
from support.interleaving import Killed, at
from support.runs import MirrorByHand, World, a_range, a_report

from airflow_provider_orderedkafka import steps
from airflow_provider_orderedkafka.core.lifecycle import Action


@pytest.fixture
def world():
    return World()


def resolved(world, planned=None, *, again=False):
    books = world.run("d/replay").books
    return steps.resolve_own(books, lambda: planned or a_range("own", 0, 5, 9), "own", again=again)


def loaded(world):
    books = world.run("d/replay").books
    todo = steps.load(books, "own", lambda loaded, times: f"own/{times}")
    world.reports[todo.checkpoint] = a_report(todo.range, todo.attempt)
    return todo


def test_what_a_killed_try_has_written_down_is_taken_as_it_is(world):
    def die(what):
        if what == "set claim/own":
            raise Killed

    with at(die), pytest.raises(Killed):
        resolved(world)
    later = replace(a_range("own", 0, 5, 12), planned_at=77)
    assert resolved(world, later).range == a_range("own", 0, 5, 9)


def test_it_is_kept_over_retries_and_passed_on_to_the_commit_once_it_is_committed(world):
    assert resolved(world).action is Action.PLAN
    assert resolved(world).action is Action.KEEP
    loaded(world)
    steps.commit(world.run("d/replay").books, "own", MirrorByHand())
    again = resolved(world)
    assert (again.action, again.range.id) == (Action.EMIT_AGAIN, "own")
    assert steps.load(world.run("d/replay").books, "own", lambda *_: "").action is Action.SKIP
    assert steps.commit(world.run("d/replay").books, "own", MirrorByHand()).action is Action.EMIT_AGAIN


def test_it_is_loaded_once_more_from_a_checkpoint_of_its_own_where_the_load_says_so(world):
    resolved(world)
    assert loaded(world).checkpoint == "own/0"
    steps.commit(world.run("d/replay").books, "own", MirrorByHand())
    assert resolved(world, again=True).times == 1
    assert loaded(world).checkpoint == "own/1"


def test_where_there_is_nothing_it_is_skipped_and_nothing_is_written(world):
    def nothing():
        raise steps.NothingToLoad("nothing to load")

    found = steps.resolve_own(world.run("d/replay").books, nothing, "own", again=False)
    assert (found.action, found.reason, world.store.values) == (Action.SKIP, "nothing to load", {})
