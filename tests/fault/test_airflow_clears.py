"""Whatever a person clears, in whatever state a range is: nothing is lost, nothing is doubled."""

import pytest
from support.airflow_rest import DONE

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1500)]

ROWS = 60


class Clearing:
    """A run that is held back by gates before its load and its commit, while its tasks are cleared one by one."""

    def __init__(self, load, rest):
        self.load, self.rest = load, rest
        for step in ("load", "commit"):
            rest.make_pool(f"cleared-{step}", 0)
        load.write(ROWS)
        self.run = load.trigger()

    def gate(self, step, *, is_open):
        self.rest.size_pool(f"cleared-{step}", 1 if is_open else 0)

    def each(self, *steps):
        """Clear one step after the other; each comes to an end again."""
        for step in steps:
            self.load.clear(self.run, step)
            self.rest.wait_for_task("cleared", self.run, step, *DONE)

    def held_back(self, step):
        """A step that waits at its gate is cleared, and waits there again."""
        self.rest.wait_for_task("cleared", self.run, step, "scheduled")
        self.load.clear(self.run, step)
        self.rest.wait_for_task("cleared", self.run, step, "scheduled")

    @property
    def ended(self):
        return self.load.ended(self.run)

    @property
    def states(self):
        return self.load.states(self.run)


def each_in_each_state(load, rest, airflow):
    """One run, from its plan to its commit; on the way each of its tasks is cleared again and again."""
    cleared = Clearing(load("cleared"), rest)
    range_id = while_the_range_is_planned(cleared)
    after_attempts_failed(cleared, range_id)
    between_load_and_commit(cleared)
    after_the_commit(cleared)


def while_the_range_is_planned(cleared):
    cleared.held_back("load")
    planned = cleared.load.ledger
    cleared.each("resolve", "wait")
    cleared.load.clear(cleared.run, "commit")
    cleared.held_back("load")
    assert cleared.load.ledger == planned
    assert planned.open.attempt == 0
    return planned.open.range_id


def after_attempts_failed(cleared, range_id):
    cleared.load.order(75, 75)
    cleared.gate("load", is_open=True)
    cleared.gate("commit", is_open=True)
    assert cleared.ended == "failed"
    submitted = cleared.load.ledger
    assert (submitted.open.range_id, submitted.open.attempt) == (range_id, 1)
    cleared.each("commit", "resolve", "wait")
    assert cleared.ended == "failed"
    cleared.rest.mark("cleared", cleared.run, cleared.load.task_id("load"), "success")
    cleared.rest.wait_for_task("cleared", cleared.run, "commit", "failed")  # Airflow clears what follows a marked task
    cleared.each("commit")
    assert (cleared.states["commit"], cleared.ended) == ("failed", "failed")
    assert "attempt 1 " in cleared.load.log(cleared.run, "commit")
    assert cleared.load.ledger == submitted
    cleared.each("load")
    assert cleared.load.ledger.open.attempt == 2
    cleared.load.stands_at(0, [0, 0])


def between_load_and_commit(cleared):
    cleared.gate("commit", is_open=False)
    cleared.load.clear(cleared.run, "load", downstream=True)
    cleared.held_back("commit")
    succeeded = cleared.load.ledger
    assert succeeded.open.attempt == 3
    cleared.each("load")
    assert cleared.load.ledger.open.attempt == 3
    cleared.each("resolve", "wait")
    cleared.held_back("commit")
    assert cleared.load.ledger == succeeded
    assert cleared.load.emitted == ROWS
    cleared.gate("commit", is_open=True)
    assert cleared.ended == "success", cleared.rest.story("cleared", cleared.run)
    cleared.load.is_whole(1)


def after_the_commit(cleared):
    committed = cleared.load.ledger
    passed = {"wait": "success", "resolve": "success", "load": "skipped", "commit": "success"}
    cleared.each("commit", "load", "resolve", "wait")
    assert cleared.ended == "success"
    assert cleared.states == passed
    cleared.load.clear(cleared.run, "wait", downstream=True)
    assert cleared.ended == "success"
    assert cleared.states == passed
    events = cleared.rest.get("/assets/events", source_dag_id="cleared")["asset_events"]
    assert [event["extra"]["revision"] for event in events] == [1, 1, 1], "an event for each commit that ran"
    assert cleared.load.ledger == committed
    cleared.load.is_whole(1)


def taken_over(load, rest, airflow):
    """A run fails, another one takes its range over, and then the first is cleared."""
    inherited = load("inherited")
    inherited.write(50)
    inherited.order(75)
    first = inherited.trigger()
    assert inherited.ended(first) == "failed"
    inherited.write(30)
    second = inherited.trigger()
    assert inherited.ended(second) == "success", rest.story("inherited", second)
    inherited.stands_at(1, inherited.ledger.place.offsets.values())
    assert inherited.emitted == 50
    taken = inherited.ledger
    assert taken.outcomes[-1].by == f"inherited/{second}"

    rest.mark("inherited", first, inherited.task_id("load"), "success")
    rest.wait_for_task("inherited", first, "commit", "skipped")  # Airflow clears what follows a marked task
    for step in ("commit", "load", "resolve"):
        inherited.clear(first, step)
        inherited.ended(first)
        assert inherited.states(first)[step] == "skipped", rest.story("inherited", first)
        assert f"by inherited/{second}" in inherited.log(first, step)
    inherited.clear(first, "wait", downstream=True)
    inherited.ended(first)
    assert inherited.states(first) == {"wait": "success", **dict.fromkeys(("resolve", "load", "commit"), "skipped")}
    assert inherited.ledger == taken
    assert inherited.emitted == 50

    third = inherited.trigger()
    assert inherited.ended(third) == "success", rest.story("inherited", third)
    inherited.is_whole(2)


STORIES = {"each in each state": each_in_each_state, "taken over": taken_over}


def test_each_task_can_be_cleared_in_each_state(story):
    story("each in each state")


def test_a_run_whose_range_another_run_has_taken_over_loads_nothing_when_it_is_cleared(story):
    story("taken over")
