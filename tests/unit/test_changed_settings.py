"""A range whose load got another output or application since it was planned."""

import pytest
from support.interleaving import Killed
from support.runs import World, abandon

from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads.changed_settings import changes, digest_of

BEFORE = digest_of(output_topic="a", application="packaged", keep_order="key")
AFTER = digest_of(output_topic="b", application="packaged", keep_order=None)


@pytest.fixture
def world():
    return World(high=5)


def digest_in(world):
    return world.ledger_store.range("range-1").digest


@pytest.mark.parametrize("heir", ["d/a", "d/b"])
def test_a_range_that_nobody_started_goes_over_to_what_is_set_now(world, heir):
    first = world.run("d/a")
    first.resolve(BEFORE)
    first.end()
    run = world.run(heir)
    assert run.resolve(AFTER) == "range-1"
    assert digest_in(world) == AFTER
    run.load("range-1", digest=AFTER)
    run.commit("range-1")


def test_a_load_that_is_cleared_alone_goes_over_too(world):
    run = world.run("d/a")
    run.load(run.resolve(BEFORE), digest=AFTER)
    assert digest_in(world) == AFTER


@pytest.mark.parametrize("step", ["resolve", "load"])
def test_once_a_batch_was_noted_it_is_refused_with_what_changed_and_the_ways_out(world, step):
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, digest=BEFORE)
    before = dict(world.store.values)
    with pytest.raises(LifecycleError) as refused:
        run.resolve(AFTER) if step == "resolve" else run.load("range-1", digest=AFTER)
    assert world.store.values == before
    for said in (
        "keep_order was 'key', it is None; output_topic was 'a', it is 'b'",
        "Set it back and clear this task",
        "`orderedkafka ledger abandon orders",
    ):
        assert said in str(refused.value)
    run.load(run.resolve(BEFORE), digest=BEFORE)
    run.commit("range-1")


def test_abandoned_it_is_planned_anew_with_what_is_set_now(world):
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, digest=BEFORE)
    run.end()
    abandon(world)
    heir = world.run("d/b")
    assert heir.resolve(AFTER) == "range-2"
    assert world.ledger_store.range("range-2").digest == AFTER


def test_a_range_that_is_loaded_already_is_committed_whatever_is_set_now(world):
    run = world.run("d/a")
    run.load(run.resolve(BEFORE), digest=BEFORE)
    assert run.resolve(AFTER) == "range-1"
    run.load("range-1", digest=AFTER)
    run.commit("range-1")
    assert (world.ledger.revision, digest_in(world)) == (1, BEFORE)


def test_what_only_one_release_knows_is_not_compared():
    assert changes("a=1\nb=2", "b=3\nc=4") == "b was 2, it is 3"
    assert not changes("a=1\nb=2", "b=2\nc=3")


def test_a_range_that_an_older_release_began_goes_on_though_it_lacks_a_fact(world):
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(BEFORE), die=True, digest=BEFORE)
    newer = f"{BEFORE}\nsink_options={{}}"
    run.load(run.resolve(newer), digest=newer)
    run.commit("range-1")
