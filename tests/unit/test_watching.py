"""What a consumer tells of its partitions, and what is made of it; the consumer is one of this test's own."""

from collections import deque

import pytest
from confluent_kafka import KafkaError
from support.messages import naming
from support.scripted import ORDERS, REFUNDS, ScriptedConsumer, event, record

from airflow_provider_orderedkafka.core.order.cuts import Bound
from airflow_provider_orderedkafka.core.order.timeline import Sighting
from airflow_provider_orderedkafka.errors import AccessDeniedError, DataLossError, UnknownTopicError, UnreachableError
from airflow_provider_orderedkafka.kafka.clients.pools import PooledConsumer
from airflow_provider_orderedkafka.kafka.lookup.log import BoundSearch, PartitionReader

LATEST = 1_000


def watch(consumer, deadline=0.0, starts=None, limit=10, troubles=()):
    limits = {ORDERS: limit, REFUNDS: limit}
    made = PartitionReader(PooledConsumer(consumer, deque(troubles)), limits, deadline, recheck=lambda: None)
    made.begin(starts or {ORDERS: 0})
    return made


def test_positions_move_with_records_and_with_the_log_s_end():
    seen = watch(ScriptedConsumer([record(0), record(4), event(KafkaError._PARTITION_EOF, 8)]))
    assert [message.offset() for message in seen.take()] == [0, 4]
    assert seen.positions == {ORDERS: 8}


def test_a_log_that_ends_early_is_named_at_the_deadline():
    seen = watch(ScriptedConsumer([event(KafkaError._PARTITION_EOF, 7)]))
    with pytest.raises(UnreachableError, match=r"orders\[0\]@7.*orders\[0\]@10"):
        seen.take()


def test_silence_is_an_error_with_what_the_client_told_last():
    message = "connection refused"
    trouble = KafkaError(KafkaError._TRANSPORT, message)
    with pytest.raises(UnreachableError, match=naming(f"orders[0]@0 ... {message}")):
        watch(ScriptedConsumer(), troubles=[trouble]).take()


def test_as_long_as_something_comes_there_is_no_deadline():
    consumer = ScriptedConsumer(*([record(offset)] for offset in range(5)))
    seen = watch(consumer)
    assert [len(seen.take()) for _ in range(5)] == [1] * 5


def test_a_position_that_retention_took_is_replaced_by_the_log_s_start():
    consumer = ScriptedConsumer([event(KafkaError._AUTO_OFFSET_RESET, 0)], log_start=6)
    seen = watch(consumer, deadline=5)
    seen.take()
    assert consumer.assigned == {("orders", 0): 6}
    assert seen.positions == {ORDERS: 6}


def test_a_log_that_was_cut_back_is_a_loss():
    consumer = ScriptedConsumer([event(KafkaError._AUTO_OFFSET_RESET, 0)], log_end=3)
    with pytest.raises(DataLossError) as caught:
        watch(consumer, starts={ORDERS: 5}).take()
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (*ORDERS, 5)


def test_a_damaged_record_is_named():
    with pytest.raises(DataLossError) as caught:
        watch(ScriptedConsumer([event(KafkaError._BAD_MSG, 4)])).take()
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (*ORDERS, 4)


def test_a_refusal_of_one_partition_names_it():
    consumer = ScriptedConsumer([event(KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(AccessDeniedError, match=r"orders\[0\].* READ"):
        watch(consumer).take()


def test_wrong_credentials_end_it_at_once():
    refused = event(KafkaError._AUTHENTICATION, partition=None)
    seen = watch(ScriptedConsumer([refused]), deadline=60)
    with pytest.raises(AccessDeniedError):
        seen.take()


def test_a_consumer_group_that_may_not_be_used_is_no_concern_because_none_is():
    seen = watch(ScriptedConsumer([event(KafkaError.GROUP_AUTHORIZATION_FAILED, partition=None)]), deadline=60)
    assert seen.take() == []


def test_what_the_client_says_of_a_partition_is_told_when_nothing_comes_of_it():
    seen = watch(ScriptedConsumer([event(KafkaError._UNKNOWN_PARTITION)]))
    with pytest.raises(UnknownTopicError):
        seen.take()


def test_what_comes_of_a_partition_that_was_let_go_moves_nothing():
    consumer = ScriptedConsumer([record(5, partition=REFUNDS), event(KafkaError._PARTITION_EOF, 9, REFUNDS)])
    seen = watch(consumer, deadline=5, starts={ORDERS: 0, REFUNDS: 0})
    seen.let_go([REFUNDS])
    seen.take()
    assert (seen.positions, set(consumer.assigned)) == ({ORDERS: 0}, {("orders", 0)})


def look(*records, bound=Bound(0, 5), limit=10, patience=3):  # noqa: B008 - a value
    seen = BoundSearch({ORDERS: bound}, {ORDERS: limit}, LATEST, patience)
    for offset, timestamp in records:
        seen.judge(ORDERS, offset, timestamp)
    return seen


def test_a_look_finds_the_first_record_that_is_old_enough():
    assert look((0, 3), (2, 4), (3, 5), (4, 9)).seen == {ORDERS: Sighting(3, 5, 2)}


def test_without_a_time_every_record_will_do():
    assert look((4, -1), bound=Bound(4)).seen == {ORDERS: Sighting(4, -1, 0)}


@pytest.mark.parametrize("timestamp", [-1, LATEST + 1])
def test_timestamps_that_are_missing_or_of_the_future_satisfy_no_time(timestamp):
    assert look((0, timestamp), (1, LATEST)).seen == {ORDERS: Sighting(1, LATEST, 1)}


def test_a_look_passes_as_many_records_as_it_has_patience_for():
    assert look((0, 1), (1, 1), (2, 1), (3, 5)).seen == {ORDERS: Sighting(3, 5, 3)}
    assert look((0, 1), (1, 1), (2, 1), (3, 4)).seen == {ORDERS: Sighting(3, 4, 4, gave_up=True)}


def test_a_record_at_the_limit_is_not_seen():
    seen = look((0, 1), (10, 5))
    seen.reached({ORDERS: 11})
    assert seen.seen == {ORDERS: Sighting(None, -1, 1)}


def test_a_bound_at_the_limit_needs_no_look():
    assert look(bound=Bound(10, 5)).seen == {ORDERS: Sighting(None, -1, 0)}
