"""Runs that a person, a form or a watcher starts, under a real Airflow."""

import time
from collections import Counter

import pytest
from support.messages import says
from support.outputs import in_order, times_of

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1500)]

QUIET_SECONDS = 12


def two_at_a_time(load, rest, airflow):
    """While the first run holds a range, a second one is started; when both have ended, a third."""
    rest.make_pool("overlapping-load", 0)
    overlapping = load("overlapping")
    overlapping.write(50)
    first = overlapping.trigger()
    rest.wait_for_task("overlapping", first, "load", "scheduled")
    overlapping.write(30)
    second = overlapping.trigger()
    assert overlapping.ended(second) == "success"
    assert set(overlapping.states(second).values()) == {"skipped"}
    assert f"overlapping/{first}" in rest.xcom("overlapping", second, "resolve", "skipped")
    rest.size_pool("overlapping-load", 2)
    assert overlapping.ended(first) == "success", rest.story("overlapping", first)
    assert overlapping.emitted == 50
    third = overlapping.trigger()
    assert overlapping.ended(third) == "success", rest.story("overlapping", third)
    overlapping.is_whole(2)


def form(load, rest, airflow):
    """A replay of a part of what is there, and two that are to be refused."""
    replay = load("form")
    replay.write(60)
    place = f'{{"{replay.source}": [10, 20]}}'
    run = rest.trigger("form", {"start": place})
    wrong = rest.trigger("form", {"start": place, "targt": "form-elsewhere"})
    taken = rest.trigger("form", {"start": place, "target": "form-taken"})
    for refused in (wrong, taken):
        assert rest.wait_for_run("form", refused) == "failed"
        assert rest.xcom("form", refused, replay.task_id("resolve")) is None
    until_logged(rest, replay, wrong, "'targt' ... 'target'")
    until_logged(rest, replay, taken, "'form-taken'")
    with pytest.raises(AssertionError, match=r"dagRuns: 4\d\d"):
        rest.trigger("form", {"start": "yesterday"})
    assert rest.wait_for_run("form", run) == "success", rest.story("form", run)
    wanted = [row for row in in_order(replay.rows(replay.source)) if row.position[2] >= (10, 20)[row.position[1]]]
    assert times_of(replay.rows(replay.output)) == Counter(row.position for row in wanted)
    assert rest.asset_state("orderedkafka://ledger/form", "ledger") is None


def until_logged(rest, replay, run, said):
    """Wait for the end of the log of `resolve`, which may come after the task's state."""
    rest.until(lambda: says(replay.log(run, "resolve"), said), lambda: replay.log(run, "resolve"))


def watcher(load, rest, airflow):
    """The first run fails, and so does the first that takes its range over; later there is more to load."""
    watched = load("watched")
    watched.write(40)
    watched.order(75, 75)
    rest.unpause("watched")
    rest.until(lambda: states(rest, "watched").count("success") == 1, lambda: str(states(rest, "watched")))
    assert states(rest, "watched") == ["failed", "failed", "success"]
    watched.is_whole(1)
    time.sleep(QUIET_SECONDS)
    assert len(rest.runs("watched")) == 3, "nothing is there to load, and yet a run was started"
    watched.write(30)
    rest.until(lambda: states(rest, "watched")[3:] == ["success"], lambda: str(states(rest, "watched")))
    watched.is_whole(2)
    time.sleep(QUIET_SECONDS)
    assert states(rest, "watched") == ["failed", "failed", "success", "success"]
    rest.pause("watched")


def states(rest, dag):
    return [run["state"] for run in rest.runs(dag)]


STORIES = {"two at a time": two_at_a_time, "form": form, "watcher": watcher}


def test_of_two_runs_at_a_time_the_second_skips_and_names_the_owner(story):
    story("two at a time")


def test_a_form_s_replay_loads_what_it_says_and_refuses_what_it_does_not_know(story):
    story("form")


def test_a_watcher_starts_a_run_for_each_revision_and_again_after_failures_and_no_more(story):
    story("watcher")
