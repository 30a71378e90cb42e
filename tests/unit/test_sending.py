"""What happens between a chunk of records and a producer."""

import time
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.messages import naming
from support.producers import FakeProducer

from airflow_provider_orderedkafka.errors import AccessDeniedError, DeliveryError
from airflow_provider_orderedkafka.kafka.write import producer
from airflow_provider_orderedkafka.kafka.write.producer import Chunk, Deliveries, PooledProducer


def chunk(count, first=0):
    values = [b"%d" % row for row in range(first, first + count)]
    return Chunk(
        topics=["out"] * count,
        values=values,
        keys=[None] * count,
        partitions=[-1] * count,
        timestamps=[7] * count,
        headers=[None] * count,
        describe=lambda _key, value: f"row {value.decode()}",
    )


def lent(producer, deadline=0.05):
    return PooledProducer(producer, deadline)


def test_records_arrive_in_order_through_a_queue_that_is_too_small():
    producer, deliveries = FakeProducer(room=3, speed=1), Deliveries()
    sender = lent(producer)
    sender.send(chunk(100), deliveries)
    sender.send(chunk(50, first=100), deliveries)
    sender.settle(deliveries)
    assert [value for _, value, *_ in producer.arrived] == [b"%d" % row for row in range(150)]


def test_failures_are_counted_and_the_first_is_told_with_its_row():
    producer, deliveries = FakeProducer(refuses=frozenset({b"4", b"7"})), Deliveries()
    with pytest.raises(DeliveryError, match=r"2 records.* row 4") as caught:
        lent(producer).send(chunk(10), deliveries)
    assert (caught.value.topic, caught.value.partition) == ("out", None)


def test_a_failure_found_at_the_end_is_raised_too():
    producer, deliveries = FakeProducer(speed=0, refuses=frozenset({b"9"})), Deliveries()
    sender = lent(producer)
    sender.send(chunk(10), deliveries)
    producer.speed = 1
    with pytest.raises(DeliveryError, match="1 record;"):
        sender.settle(deliveries)


def test_what_waits_behind_a_failure_is_thrown_away_and_counted():
    producer, deliveries = FakeProducer(speed=1, refuses=frozenset({b"0"})), Deliveries()
    with pytest.raises(DeliveryError, match="10 records"):
        lent(producer).send(chunk(10), deliveries)
    assert producer.arrived == []


def test_no_progress_until_the_deadline_is_an_error_and_nothing_is_sent_later():
    producer, deliveries = FakeProducer(speed=0), Deliveries()
    sender = lent(producer)
    sender.send(chunk(5), deliveries)
    with pytest.raises(DeliveryError, match="5 records"):
        sender.settle(deliveries)
    producer.speed = 10
    producer.poll(0)
    assert producer.arrived == []


def test_slow_progress_is_no_error():
    producer, deliveries = FakeProducer(speed=1), Deliveries()
    sender = lent(producer, deadline=0.0)
    sender.send(chunk(500), deliveries)
    sender.settle(deliveries)
    assert len(producer.arrived) == 500


def test_a_client_that_gives_up_says_why():
    fenced = "fenced by a newer one"
    reason = KafkaException(KafkaError(KafkaError._FATAL, fenced))
    producer, deliveries = FakeProducer(gives_up=reason), Deliveries()
    with pytest.raises(DeliveryError, match=naming(f"{fenced} ... 5 records")):
        lent(producer).send(chunk(5), deliveries)


def test_a_client_that_is_refused_says_what_it_needs():
    denied = "not allowed"
    reason = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, denied))
    with pytest.raises(AccessDeniedError, match=naming(f"{denied} ... WRITE")):
        lent(FakeProducer(gives_up=reason)).send(chunk(5), Deliveries())


@pytest.mark.parametrize("deadline", [2.0, 60.0])
def test_a_refusal_that_is_told_in_the_background_ends_a_write_that_gets_nothing_through(monkeypatch, deadline):
    message = "no such user"
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(producer, "time", SimpleNamespace(monotonic=lambda: clock.now))
    sender = PooledProducer(FakeProducer(speed=0), deadline)
    sender.send(chunk(5), Deliveries())

    def refused(seconds):
        clock.now += seconds
        sender.troubles.append(KafkaError(KafkaError._AUTHENTICATION, message))

    sender.producer.flush = refused
    with pytest.raises(AccessDeniedError, match=message):
        sender.settle(Deliveries())
    assert 0 < clock.now - min(deadline, 5.0) < 1


def test_a_refusal_of_before_is_forgotten_once_something_gets_through():
    sender = PooledProducer(
        FakeProducer(speed=1), 60.0, troubles=deque([KafkaError(KafkaError._AUTHENTICATION, "once")])
    )
    sender.send(chunk(5), Deliveries())
    sender.settle(Deliveries())
    assert not sender.troubles


@pytest.mark.parametrize("then", ["send", "settle", "neither"])
@pytest.mark.parametrize(("passed", "computed", "stood"), [(11, 0, True), (9, 0, False), (60, 55, False)])
def test_a_process_that_stood_still_sends_nothing_more_and_one_that_computes_does(
    monkeypatch, then, passed, computed, stood
):
    clock = SimpleNamespace(now=0.0, computed=0.0)
    now = {"clock_gettime": lambda _: clock.now, "process_time": lambda: clock.computed}
    monkeypatch.setattr(producer, "time", SimpleNamespace(monotonic=time.monotonic, **now))
    sender, deliveries = lent(FakeProducer(speed=0), 60.0), Deliveries()
    sender.begin()
    for _ in range(2):
        sender.send(chunk(5), deliveries)
        clock.now += 9
    clock.computed, clock.now = computed, clock.now - 9 + passed
    acts = {"send": lambda: sender.send(chunk(5), deliveries), "settle": lambda: sender.settle(deliveries)}
    with pytest.raises(DeliveryError) if stood and then in acts else nullcontext():
        sender.producer.speed = 0 if stood else 20
        acts.get(then, lambda: time.sleep(0))()
    while stood and sender.producer.waiting:  # where nobody comes, its own thread does
        time.sleep(0.01)
    sender.end()
    sender.producer.speed = 20
    sender.producer.poll(0)
    assert bool(sender.producer.arrived) is not stood
    assert sender.broken or not stood or then in acts
