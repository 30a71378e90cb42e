"""Processes of a real Airflow killed with -9, while a run waits and while Spark runs."""

import time
from datetime import datetime
from functools import partial

import psutil
import pytest

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1500)]

ROWS = 400
DELAY_SECONDS, LATE_SECONDS = 120, 95
"""A delay that began anew with the second triggerer would end later than this, which leaves it time to start."""

KILLED_BEFORE = 25
"""Seconds before the moment that is waited for."""


def killed(name, load, rest, airflow):
    """A load in many small batches; what runs it is killed after the first rows."""
    half_way = load(name)
    half_way.write(ROWS)
    run = half_way.trigger()
    rest.until(lambda: half_way.emitted > 0, lambda: rest.story(name, run))
    task = psutil.Process(rest.tasks(name, run)["load"]["pid"])
    (task if name == "killed_task" else task.parent()).kill()
    assert 0 < half_way.emitted < ROWS, "it was too late to kill anything"
    assert half_way.ended(run) == "success", rest.story(name, run)
    half_way.is_whole(1)
    report = rest.xcom(name, run, half_way.task_id("load"))
    assert (report["attempt"], report["rows_emitted"]) == (2, ROWS)


def waiting(load, rest, airflow):
    """A wait for a moment; the triggerer is killed meanwhile, and another one started."""
    waits = load("waiting")
    waits.write(20)
    run = waits.trigger()
    rest.wait_for_task("waiting", run, "wait", "deferred")
    due = waits.ledger.first_looked_at / 1000 + DELAY_SECONDS
    time.sleep(max(0.0, due - KILLED_BEFORE - time.time()))
    airflow.kill("triggerer")
    time.sleep(3)
    airflow.start_one("triggerer")
    rest.wait_for_task("waiting", run, "wait", "success")
    ended = datetime.fromisoformat(rest.tasks("waiting", run)["wait"]["scheduled_when"])  # the task itself starts later
    assert due <= ended.timestamp() < due + LATE_SECONDS
    assert waits.ended(run) == "success", rest.story("waiting", run)
    assert "delay" in rest.xcom("waiting", run, waits.task_id("wait"))
    waits.is_whole(1)


KILLED = ("killed_task", "killed_worker")
STORIES = {name: partial(killed, name) for name in KILLED} | {"waiting": waiting}


@pytest.mark.parametrize("what", KILLED)
def test_a_killed_load_is_resumed_by_its_next_attempt(story, what):
    story(what)


def test_a_wait_outlives_its_triggerer_and_ends_at_the_moment_that_was_set(story):
    story("waiting")
