"""A run that a person starts beside one of the schedule, under a real Airflow.

Not in each run of the tests: Airflow's scheduler ends where SQLite is locked at the moment when it makes a run of a
schedule, and here it makes one each minute.
"""

import pytest
from support.messages import says

pytestmark = [pytest.mark.fault, pytest.mark.nightly, pytest.mark.timeout(1500)]


def by_hand(load, rest, airflow):
    """A scheduled run waits for a million records; a person does not, and begins although one run is active at most."""
    asked = load("asked")
    asked.write(30)
    rest.unpause("asked")
    rest.until(lambda: any(run["state"] == "running" for run in rest.runs("asked")), lambda: str(rest.runs("asked")))
    scheduled = next(run["dag_run_id"] for run in rest.runs("asked") if run["state"] == "running")
    rest.wait_for_task("asked", scheduled, "wait", "deferred")
    person = rest.trigger("asked", {"max_offsets": 20})
    assert asked.ended(person) == "success", rest.story("asked", person)
    rest.pause("asked")
    assert set(asked.states(scheduled).values()) == {"skipped"}, rest.story("asked", scheduled)
    answer = rest.xcom("asked", scheduled, asked.task_id("wait"), "skipped")
    assert says(answer, "'asked' ... 30 of 1,000,000 offsets")
    answer = rest.xcom("asked", person, asked.task_id("wait"))
    assert "30 of 1,000,000 offsets" in answer
    assert "; 10 wait" in asked.log(person, "resolve")
    assert asked.emitted == 20


STORIES = {"by hand": by_hand}


def test_a_run_by_hand_loads_what_is_there_and_the_scheduled_one_that_waits_gives_way(story):
    story("by hand")
