"""Processes of a real Airflow killed with -9, while a run waits and while Spark runs."""

import time

import psutil
import pytest

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1500)]

LATE_SECONDS = 20


@pytest.mark.parametrize("what", ["killed_task", "killed_worker"])
def test_a_killed_load_is_resumed_by_its_next_attempt(load, rest, what):
    killed = load(what)
    killed.write(400)
    run = killed.trigger()
    rest.until(lambda: killed.emitted > 0, lambda: rest.story(what, run))
    task = psutil.Process(rest.tasks(what, run)["load"]["pid"])
    (task if what == "killed_task" else task.parent()).kill()
    assert 0 < killed.emitted < 400, "it was too late to kill anything"
    assert killed.ended(run) == "success", rest.story(what, run)
    killed.is_whole(1)
    report = rest.xcom(what, run, killed.task_id("load"))
    assert (report["attempt"], report["rows_emitted"]) == (2, 400)


def test_a_wait_outlives_its_triggerer_and_ends_at_the_moment_that_was_set(load, rest, airflow):
    waiting = load("waiting")
    waiting.write(20)
    run = waiting.trigger()
    rest.wait_for_task("waiting", run, "wait", "deferred")
    due = waiting.ledger.first_looked_at / 1000 + 45
    airflow.kill("triggerer")
    time.sleep(3)
    airflow.start_one("triggerer")
    rest.wait_for_task("waiting", run, "wait", "success")
    assert due <= time.time() < due + LATE_SECONDS
    assert waiting.ended(run) == "success", rest.story("waiting", run)
    assert "have passed since the last run" in rest.xcom("waiting", run, waiting.task_id("wait"))
    waiting.is_whole(1)
