"""A backfill of intervals under a real Airflow."""

from collections import Counter
from itertools import pairwise

import pytest
from support.outputs import in_order, times_of

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1500)]

HOUR = 3_600_000
MIDNIGHT = 1_767_225_600_000


def test_a_backfill_loads_each_record_once_and_a_cleared_interval_loads_the_same_again(load, rest, airflow):
    hourly = load("hourly")
    for hour in range(6):  # one hour before and one after are not asked for
        hourly.write(10 + hour, MIDNIGHT + hour * HOUR)
    airflow.kill("scheduler")  # on SQLite a backfill is begun by one writer alone, or not at all
    rest.backfill("hourly", "2026-01-01T01:00:00Z", "2026-01-01T04:00:00Z", most=2)
    airflow.start_one("scheduler")
    rest.until(lambda: states(rest) == ["success"] * 4, lambda: str(states(rest)))
    assert in_turns(rest, hourly.task_id("commit")), "Airflow fails one of two commits that make the output's asset"
    loaded = times_of(hourly.rows(hourly.output))
    wanted = [row for row in in_order(hourly.rows(hourly.source)) if 1 <= (row.order_time - MIDNIGHT) // HOUR <= 4]
    assert loaded == Counter(row.position for row in wanted)

    again = rest.runs("hourly")[1]["dag_run_id"]
    by_hand = [rest.trigger("hourly", at=f"2026-01-01T{at}:00Z") for at in ("03:17", "03:40")]
    for run in by_hand:
        assert rest.wait_for_run("hourly", run) == "success", rest.story("hourly", run)
        assert {task["state"] for name, task in rest.tasks("hourly", run).items() if name != "wait"} == {"skipped"}
    assert times_of(hourly.rows(hourly.output)) == loaded

    hourly.write(5, MIDNIGHT + 2 * HOUR)  # late for an interval that is loaded: it lies in none
    before = loads(rest, hourly, again)
    hourly.clear(again, "wait", downstream=True)
    assert hourly.ended(again) == "success", rest.story("hourly", again)
    twice = times_of(hourly.rows(hourly.output)) - loaded
    assert twice == Counter(row.position for row in wanted if (row.order_time - MIDNIGHT) // HOUR == 2)
    assert loads(rest, hourly, again) == before
    assert rest.asset_state("orderedkafka://ledger/hourly", "ledger") is None


def loads(rest, hourly, run):
    """What the task that loads says of it, but for how long the processor worked, which differs each time."""
    said = rest.xcom("hourly", run, hourly.task_id("load"))
    return {name: value for name, value in said.items() if name != "core_ms"}


def in_turns(rest, task):
    found = rest.get("/dags/hourly/dagRuns/~/taskInstances", limit=100)["task_instances"]
    spans = sorted((each["start_date"], each["end_date"]) for each in found if each["task_id"] == task)
    assert len(spans) == 4
    return all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def states(rest):
    return [run["state"] for run in rest.runs("hourly")]
