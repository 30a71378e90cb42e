"""A range whose load got another job since it was planned."""

import pytest
from support.interleaving import Killed
from support.runs import World, abandon

from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.outputs import KafkaOutput

BEFORE = Job(KafkaOutput("a"))
AFTER = Job(KafkaOutput("b", keep_order=None))


@pytest.fixture
def world():
    return World(high=5)


def job_in(world):
    store = world.ledger_store
    return store.job(store.range("range-1").job)


@pytest.mark.parametrize("heir", ["d/a", "d/b"])
def test_a_range_that_nobody_started_goes_over_to_what_is_set_now(world, heir):
    first = world.run("d/a")
    first.resolve(BEFORE)
    first.end()
    run = world.run(heir)
    assert run.resolve(AFTER) == "range-1"
    assert job_in(world) == AFTER
    run.load("range-1", job=AFTER)
    run.commit("range-1")


def test_a_load_that_is_cleared_alone_goes_over_too(world):
    run = world.run("d/a")
    run.load(run.resolve(BEFORE), job=AFTER)
    assert job_in(world) == AFTER


@pytest.mark.parametrize("step", ["resolve", "load"])
def test_once_a_batch_was_noted_it_is_refused_with_what_changed_and_the_ways_out(world, step):
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, job=BEFORE)
    before = dict(world.store.values)
    with pytest.raises(LifecycleError) as refused:
        run.resolve(AFTER) if step == "resolve" else run.load("range-1", job=AFTER)
    assert world.store.values == before
    for said in (
        "to.topic was 'a', and is now 'b'; to.keep_order was 'key', and is now None",
        "Change that back and clear this task",
        "`orderedkafka ledger abandon orders",
    ):
        assert said in str(refused.value)
    run.load(run.resolve(BEFORE), job=BEFORE)
    run.commit("range-1")


def test_what_may_change_is_taken_from_what_is_set_now_even_then(world):
    run, tuned = world.run("d/a"), Job(KafkaOutput("a", writers=4, producer={"linger.ms": "5"}))
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, job=BEFORE)
    run.load("range-1", job=tuned)
    assert job_in(world) == tuned


def test_a_range_is_finished_where_it_was_begun_though_its_template_has_moved_on(world):
    run = world.run("d/a")
    first = Job(KafkaOutput("orders-01-31"), written="orders-{{ ds }}")
    with pytest.raises(Killed):
        run.load(run.resolve(first), die=True, job=first)
    run.end()
    heir = world.run("d/b")
    heir.load(heir.resolve(Job(KafkaOutput("orders-02-01"), written="orders-{{ ds }}")))
    assert job_in(world) == first
    other = Job(KafkaOutput("orders-01-31"), written="orders-{{ ds_nodash }}")
    assert first.changes(other) == "to was 'orders-{{ ds }}', and is now 'orders-{{ ds_nodash }}'"


def test_abandoned_it_is_planned_anew_with_what_is_set_now(world):
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, job=BEFORE)
    run.end()
    abandon(world)
    heir = world.run("d/b")
    assert heir.resolve(AFTER) == "range-2"
    assert world.ledger_store.job(world.ledger_store.range("range-2").job) == AFTER


def test_a_range_that_is_loaded_already_is_committed_whatever_is_set_now(world):
    run = world.run("d/a")
    run.load(run.resolve(BEFORE), job=BEFORE)
    assert run.resolve(AFTER) == "range-1"
    run.load("range-1", job=AFTER)
    run.commit("range-1")
    assert (world.ledger.revision, job_in(world)) == (1, BEFORE)


def test_an_attempt_that_finds_nothing_of_the_one_before_is_refused_before_it_is_counted(world):
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, job=BEFORE)
    world.bound.clear()
    world.written.clear()
    run.machine = "there"
    with pytest.raises(LifecycleError) as refused:
        run.load("range-1", job=BEFORE)
    for said in ("attempt 1 of range 'range-1' ran on machine 'here', and this is 'there'", "abandon orders"):
        assert said in str(refused.value)
    assert world.ledger.open.attempt == 1


def test_an_attempt_on_another_machine_that_finds_what_the_one_before_wrote_goes_on(world):
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, job=BEFORE)
    run.machine = "there"
    run.load("range-1", job=BEFORE)
    assert (world.ledger.open.attempt, world.ledger.open.machine) == (2, "there")
