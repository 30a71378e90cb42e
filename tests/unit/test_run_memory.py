"""What tasks remember beside the ledger, where Airflow has no store for it."""

import pytest
from support.keeping import FolderStore
from support.runs import World

from airflow_provider_orderedkafka.core import documents, lifecycle
from airflow_provider_orderedkafka.errors import LedgerChangedError, LifecycleError
from airflow_provider_orderedkafka.loads.books import RunMemory


@pytest.fixture
def world():
    return World(FolderStore())


def memory(world, run="d/a", task="resolve[-1]"):
    return RunMemory(world.ledger_store, run, task)


def test_each_task_of_each_run_remembers_its_own(world):
    memory(world).set("range_id", "r1")
    memory(world).set("revision", 0)
    memory(world, task="load[-1]").set("range_id", "r2")
    memory(world, run="d/b").set("range_id", "r3")
    assert [memory(world).get(key) for key in ("range_id", "revision", "unheard of")] == ["r1", 0, None]
    assert memory(world, task="load[-1]").get("range_id") == "r2"
    assert memory(world, run="d/b").get("range_id") == "r3"


def test_of_two_tasks_that_remember_at_the_same_moment_one_is_told_to_try_again(world):
    mine = world.ledger_store
    known = mine.memory("d/a")
    memory(world, task="other[-1]").set("range_id", "r2")
    with pytest.raises(LedgerChangedError):
        mine.remember("d/a", {**known, "resolve[-1]": {"range_id": "r1"}})
    memory(world).set("range_id", "r1")
    assert memory(world, task="other[-1]").get("range_id") == "r2"


def test_a_run_is_forgotten_once_the_ledger_does_not_know_any_more_how_its_range_ended(world, monkeypatch):
    for module in (documents, lifecycle):
        monkeypatch.setattr(module, "OUTCOMES_KEPT", 2)
    for number in range(1, 5):
        world.high = number
        memory(world, f"d/{number}").set("range_id", f"range-{number}")
        world.run(f"d/{number}").whole()
    assert [memory(world, f"d/{number}").get("range_id") for number in range(1, 5)] == [
        None,
        None,
        "range-3",
        "range-4",
    ]


def test_a_range_that_ended_long_ago_is_not_said_to_have_never_been(world):
    for number in range(1, documents.OUTCOMES_KEPT + 2):
        world.high = number
        world.run(f"d/{number}").whole()
    for step in (world.run("d/1").load, world.run("d/1").commit):
        with pytest.raises(LifecycleError, match=f"'range-1' .* last {documents.OUTCOMES_KEPT} "):
            step("range-1")
