"""What an interval has, on a real broker, whatever came and went around it."""

import re
import time

import pytest
from support.keeping import Values
from support.records import Record

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.errors import DataLossError, TopicChangedError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.ranges import plan_interval

HOUR = 3_600_000
BEGIN = (time.time_ns() // 1_000_000 // HOUR - 10) * HOUR


@pytest.fixture
def store():
    return LedgerStore("orders", Values(), settle=lambda: None)


@pytest.fixture
def planned(config, store):
    """Plans an hour of some topics."""

    def plan(hour, *topics, **settings):
        terms = OrderedLoad("orders", topics=topics, **settings).terms
        times = BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR
        return plan_interval(Brokers(config), terms, store, times, now=lambda: time.time_ns() // 1_000_000)

    return plan


@pytest.fixture
def of_hour(planned):
    """The offsets of an hour, by topic; None where there is nothing to load."""

    def offsets(*asked, **settings):
        found = planned(*asked, **settings)
        if isinstance(found, NothingToLoad):
            return None
        return {
            p.topic: (found.start.offsets[p], end)
            for p, end in found.end.offsets.items()
            if end > found.start.offsets[p]
        }

    return offsets


def write(records, topic, hours, count):
    records.produce(topic, [Record(b"", BEGIN + hour * HOUR + n) for hour in hours for n in range(count)])


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_topic_that_is_added_begins_with_the_hour_that_is_loaded(of_hour, topics, records, start):
    one, other = topics.create("one"), topics.create("other")
    for topic, count in ((one, 10), (other, 100)):
        write(records, topic, range(5), count)
    assert of_hour(3, one, start=start) == {one: (30, 40)}
    assert of_hour(4, one, other, start=start) == {one: (40, 50), other: (400, 500)}


def test_a_partition_that_is_added_begins_at_its_first_offset_in_one_hour_alone(of_hour, topics, records):
    one = topics.create("one")
    write(records, one, [0, 1], 10)
    assert of_hour(1, one) == {one: (10, 20)}
    topics.grow(one, 2)
    records.produce(one, [Record(b"", BEGIN + HOUR + n, partition=1) for n in range(7)])
    assert of_hour(0, one) == {one: (0, 10)}
    assert of_hour(2, one) == {one: (0, 7)}


def test_an_hour_of_a_topic_that_was_created_again_is_refused_and_the_next_one_is_loaded(of_hour, topics, records):
    one = topics.create("one")
    write(records, one, [0, 1], 10)
    assert of_hour(0, one) == {one: (0, 10)}
    topics.recreate(one)
    write(records, one, [1, 2], 3)
    for hour in (0, 1):
        with pytest.raises(TopicChangedError):
            of_hour(hour, one)
    assert of_hour(2, one) == {one: (3, 6)}


def test_hours_of_a_pattern_are_those_of_the_topics_that_it_matches_then(config, store, topics, records):
    one = topics.create("hours-one")
    write(records, one, range(5), 10)
    load = OrderedLoad("orders", topics=re.compile(re.escape(one.partition("-1-")[0]) + ".*"))

    def of_hour(hour):
        times = BEGIN + hour * HOUR, BEGIN + (hour + 1) * HOUR
        found = plan_interval(Brokers(config), load.terms, store, times, now=lambda: time.time_ns() // 1_000_000)
        return {p.topic: (found.start.offsets[p], end) for p, end in found.end.offsets.items()}

    assert of_hour(1) == {one: (10, 20)}
    other = topics.create("hours-other")
    write(records, other, range(2, 4), 100)
    assert of_hour(2) == {one: (20, 30), other: (0, 100)}
    assert of_hour(1) == {one: (10, 20), other: (0, 0)}
    topics.delete(other)
    with pytest.raises(UnknownTopicError) as gone:
        of_hour(3)
    assert gone.value.topic == other


FOR_EVER = {"retention.ms": -1}


def test_an_hour_of_which_records_may_have_been_deleted_is_refused_or_loaded_with_a_remark(planned, topics, records):
    one = topics.create("one", config=FOR_EVER)
    write(records, one, range(3), 100)
    records.delete_before(one, {0: 150})
    for hour in (0, 1, 0, 1):
        with pytest.raises(DataLossError) as refused:
            planned(hour, one)
        assert (refused.value.topic, refused.value.offset) == (one, 150)
    assert planned(2, one).offsets == 100
    found = planned(1, one, on_data_loss="count")
    assert (found.offsets, f"{one}[0]@150" in found.reason) == (50, True)
    found = planned(0, one, on_data_loss="count")
    assert f"{one}[0]@150" in found.reason


def test_an_hour_whose_boundary_was_decided_before_its_records_were_deleted_is_planned_with_what_is_missing(
    of_hour, topics, records
):
    one = topics.create("one", config=FOR_EVER)
    write(records, one, range(3), 100)
    assert of_hour(0, one) == {one: (0, 100)}
    records.delete_before(one, {0: 150})
    assert of_hour(1, one) == {one: (100, 200)}  # reading it is refused, or counts what is gone


def test_a_partition_that_time_has_emptied_stops_no_hour_that_is_kept_for_longer(planned, topics, records):
    idle, busy = topics.create("idle", config={"retention.ms": 7 * 24 * HOUR}), topics.create("busy")
    for topic in (idle, busy):
        write(records, topic, range(3), 10)
    records.delete_before(idle, {0: 30})
    found = planned(1, idle, busy)
    assert (found.offsets, f"{idle}[0]@30" in found.reason) == (10, True)
