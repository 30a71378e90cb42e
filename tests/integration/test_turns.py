"""Writers of one range that outlive their turn write nothing more, and what they had committed is found."""

import time
from dataclasses import replace

import pytest
from support.batches import batches, columns, source

from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError, TaskFailedError, UnreachableError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.replay.replays import (
    BegunBatch,
    NotedOutputs,
    OutputBrokers,
    Settle,
    find_landed,
)
from airflow_provider_orderedkafka.kafka.write import turns
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings, check_exactly_once
from airflow_provider_orderedkafka.kafka.write.turns import Turns, check
from airflow_provider_orderedkafka.kafka.write.writing import plan_write, steps, write

ORDERS = TopicPartition("orders", 2)
THIS = BegunBatch("r1", Offsets({ORDERS: 0}), Offsets({ORDERS: 1_000_000}))
WRITERS = 2


@pytest.fixture
def topic(topics):
    return topics.create(partitions=2)


@pytest.fixture
def attempt(config, topic):
    """A new attempt's turns."""
    return lambda: Turns(config, f"orderedkafka-{topic}", (topic,))


@pytest.fixture
def settings(config, topic):
    asked = WriteSettings(config, topic=topic, range_id="r1", source="struct")
    return plan_write(asked, columns("value", "_source"))


def rows(count, first=0):
    return [batch.slice(first) for batch in batches(first + count, first + count, _source=source)]


def in_turn(settings, attempt, writer="0"):
    return replace(settings, turn=attempt.of_writers(WRITERS), writer=writer)


def landed(config, topic, deadline=60.0):
    brokers = OutputBrokers(config, Settle(deadline=deadline))
    found = find_landed(brokers, THIS, NotedOutputs((topic,), Offsets(), fenced=True))
    assert found.settled
    return sorted(offset for _, offset, _ in found.landed)


def test_each_attempt_s_writers_write_in_its_turn_and_no_writer_of_an_earlier_turn_does(
    config, topic, settings, attempt
):
    first, second = attempt(), attempt()
    write(rows(100), in_turn(settings, first))
    second.take()
    with pytest.raises(TaskFailedError, match="turn"):
        write(rows(10, 100), in_turn(settings, first, "1"))
    write(rows(10, 100), in_turn(settings, second))
    assert landed(config, topic) == [*range(110)]


def test_what_an_earlier_writer_has_not_committed_never_shows_and_what_it_has_committed_is_found(
    config, topic, settings, attempt, records
):
    first, second = attempt(), attempt()
    write(rows(100), in_turn(settings, first))
    writing = steps([*rows(50, 100), *rows(50, 150)], in_turn(settings, first))
    next(writing)
    second.take()
    second.fence(WRITERS)
    assert landed(config, topic) == [*range(100)]
    with pytest.raises(OrderedKafkaError) as ended:
        list(writing)
    assert ended.value.retryable
    write(rows(100, 100), in_turn(settings, second))
    assert landed(config, topic) == [*range(200)]
    assert len(records.read(topic)) == 200 < len(records.read(topic, "read_uncommitted"))


def test_a_transaction_is_committed_in_time_though_its_writer_waits_for_rows(
    config, topic, settings, attempt, monkeypatch
):
    monkeypatch.setattr(turns, "MOST_SECONDS", 0.2)
    seen = []

    def slowly():
        yield from rows(10)
        until = time.monotonic() + 20
        while not seen and time.monotonic() < until:
            seen.extend(landed(config, topic, 10))
        yield from rows(10, 10)

    write(slowly(), in_turn(settings, attempt()))
    assert seen == [*range(10)]
    assert landed(config, topic) == [*range(20)]


def test_a_large_write_is_many_transactions(config, topic, settings, attempt, monkeypatch):
    monkeypatch.setattr(turns, "MOST_BYTES", 50)
    writing = steps([*rows(50), *rows(50, 50)], in_turn(settings, attempt()))
    next(writing)
    assert landed(config, topic, 5) == [*range(50)]
    list(writing)
    assert landed(config, topic) == [*range(100)]


def test_another_application_s_open_transaction_is_waited_for_and_then_named(config, topic, records):
    with records.transaction() as transaction:
        transaction.produce(topic, [*map(_record, range(3))])
        with pytest.raises(UnreachableError, match=rf"{topic}\[0\]@0"):
            landed(config, topic, 0.5)
        transaction.commit()
    assert landed(config, topic, 10) == []


def _record(number):
    from support.records import Record

    return Record(b"%d" % number, partition=0)


def test_outputs_that_lose_records_are_refused(config, topics, settings, topic):
    check_exactly_once(settings.outputs.values())
    compacted = replace(settings.outputs[topic], compacted=True)
    with pytest.raises(SettingError, match=topic):
        check_exactly_once([compacted])
    with pytest.raises(SettingError, match="DESCRIBE_CONFIGS"):
        check_exactly_once([replace(compacted, compacted=None)])


def test_what_would_keep_a_load_from_transactions_is_said_before_it_begins(config, topic):
    check(config, "orders", (topic,))
    too_long = KafkaConfig({**config, "transaction.timeout.ms": "3600000"})
    with pytest.raises(SettingError, match=r"transaction\.max\.timeout\.ms"):
        check(too_long, "orders", (topic,))


def test_a_prefix_of_the_ids_may_be_set_and_is_no_writer_s_own(config, topic):
    check(KafkaConfig({**config, "transactional.id": "shop"}), "orders", (topic,))
    with pytest.raises(SettingError, match="exactly_once"):
        plan_write(
            WriteSettings(KafkaConfig({**config, "transactional.id": "shop"}), topic=topic), columns("value", "_source")
        )
