"""A load of very many partitions costs what its partitions cost, in each step: twice as many take twice the work."""

import gc
from cProfile import Profile
from functools import cache

import pytest
from support.large import STEPS, Large

from airflow_provider_orderedkafka.core.order.positions import TopicPartition

EACH = 1_000_000
PLANNING = {"plan_batches", "slices"}
"""What goes through the partitions many times: fewer of them are enough to see how it grows."""

MOST = 2.5
"""Sorting takes a little more than twice the work, each partition with each other one would take four times as much."""


@pytest.fixture
def counted(monkeypatch):
    """How many calls a piece of work makes; what looks at a partition, such as a search for it, counts as one."""
    for name in ("__hash__", "__eq__", "__lt__"):
        monkeypatch.setattr(TopicPartition, name, _called(getattr(tuple, name)), raising=False)

    def count(work):
        profile = Profile()
        gc.collect()
        gc.disable()  # what it frees calls back at moments of its own
        try:
            profile.runcall(work)
        finally:
            gc.enable()
        return sum(each.callcount for each in profile.getstats())

    return count


def _called(plain):
    def looked_at(partition, *others):
        return plain(partition, *others)

    return looked_at


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Loads of so many partitions with so many offsets each, made once."""

    @cache
    def made(partitions, each=EACH):
        found = Large(partitions, each, tmp_path_factory.mktemp("large"))
        assert found.range.offsets == partitions * each
        assert found.report.stop.offsets.since(found.counts.end.offsets) == found.range.offsets - found.batch.offsets
        return found

    return made


@pytest.mark.parametrize("step", STEPS)
def test_twice_the_partitions_take_about_twice_the_work(step, counted, large):
    few = 100 if step in PLANNING else 250
    larges = [large(few), large(2 * few)]
    once, twice = (counted(lambda each=each: STEPS[step](each)) for each in larges)
    assert twice < MOST * once


def test_twice_the_offsets_take_hardly_more_work(counted, large):
    larges = [large(100), large(100, 2 * EACH)]
    once, twice = (sum(counted(lambda n=name, at=at: STEPS[n](at)) for name in PLANNING) for at in larges)
    assert twice < 1.5 * once


def test_a_batch_is_planned_by_questions_about_all_partitions_at_once(large):
    found = large(500)
    before = found.log.asked
    for step in PLANNING:
        STEPS[step](found)
    assert found.log.asked - before < 200
