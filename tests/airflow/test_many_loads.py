"""What many loads in one triggerer ask of the location of their ledgers, by the clock: an object store counts it.

Kafka is a real broker; the clock goes on from look to look, so that nothing depends on how fast this machine is.
"""

import json
from types import SimpleNamespace

import pytest
from support.object_store import BUCKET, ObjectStore

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook
from airflow_provider_orderedkafka.locations import ledger_in
from airflow_provider_orderedkafka.triggers import offsets
from airflow_provider_orderedkafka.triggers.offsets import POLL_SECONDS, THOROUGH_SECONDS, OffsetRangeTrigger

LOADS, IN_ONE_TRIGGERER = 3, 1_000
MINUTES = 3
MOST_A_SECOND = 40


@pytest.fixture
def store(monkeypatch):
    with ObjectStore() as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


@pytest.fixture
def clock(monkeypatch):
    time = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(offsets, "time", SimpleNamespace(monotonic=lambda: time.now))
    monkeypatch.setattr(offsets, "_hooks", {})
    monkeypatch.setattr(offsets.status, "looked", lambda *_: None)  # it goes to Airflow
    return time


@pytest.fixture
def loads(store, kafka, topics, monkeypatch):
    """Loads with a topic each that nobody writes to, and their first ledger."""
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    made = []
    for number in range(LOADS):
        topic = topics.create(f"many-{number}")
        load = OrderedLoad(topic, topics=[topic], start="earliest", min_offsets=10, ledger=f"s3://{BUCKET}/ledgers")
        first = OrderedKafkaHook().first_look(load)
        ledger = lifecycle.first_look(
            load.name, instance="i", home_dag="d", place=first.place, topics=first.topics, now=0
        )
        ledger_in(load.name, load.ledger).save(ledger, None)
        made.append((load, ledger))
    return made


def watch(trigger, load):
    assert trigger._due(load) is None


def wait(trigger, load):
    assert not trigger._now(load, trigger._present(load)).run


@pytest.mark.parametrize("look", [wait, watch])
def test_a_thousand_loads_of_one_triggerer_ask_less_than_forty_times_a_second_of_the_ledgers_location(
    look, loads, store, clock
):
    triggers = [
        OffsetRangeTrigger.watching(load) if look is watch else OffsetRangeTrigger.waiting(load, ledger, 5, None)
        for load, ledger in loads
    ]
    for trigger, (_, ledger) in zip(triggers, loads, strict=True):
        trigger._known, trigger._known_at = ledger, clock.now
    looks, begun = 0, None
    while looks * POLL_SECONDS <= (MINUTES + 1) * THOROUGH_SECONDS:
        if looks * POLL_SECONDS >= THOROUGH_SECONDS and begun is None:
            begun = len(store.requests)
        for trigger, (load, _) in zip(triggers, loads, strict=True):
            look(trigger, load)
        looks += 1
        clock.now += POLL_SECONDS
    asked = store.requests[begun:]
    assert len(asked) / LOADS / (MINUTES * 60) * IN_ONE_TRIGGERER < MOST_A_SECOND, asked[-20:]
    assert all(sum(load.name in each for each in asked) >= MINUTES - 1 for load, _ in loads), "each ledger is read"


def test_a_run_that_waits_asks_airflow_once_a_minute_whether_another_one_is_queued_and_ends_then(
    loads, clock, monkeypatch
):
    load, ledger = loads[0]
    trigger = OffsetRangeTrigger.waiting(load, ledger, POLL_SECONDS, None, dag_id="orders")
    trigger._known, trigger._known_at, trigger._asked_at = ledger, clock.now, clock.now
    asked, queued = [], {}

    def queued_behind(dag_id):
        asked.append(clock.now)
        return queued.get(dag_id)

    monkeypatch.setattr(offsets, "queued_behind", queued_behind)
    begun = clock.now
    while clock.now <= begun + MINUTES * (THOROUGH_SECONDS + POLL_SECONDS):
        wait(trigger, load)
        clock.now += POLL_SECONDS
    assert len(asked) == MINUTES
    queued["orders"] = "it gives way"
    clock.now += THOROUGH_SECONDS
    found = trigger._now(load, trigger._present(load))
    assert found.skip
    assert found.reason.startswith("it gives way; ")
