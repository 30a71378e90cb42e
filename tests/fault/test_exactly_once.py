"""Exactly once into Kafka: whatever an attempt does, a consumer with `read_committed` sees each row once, in order."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.children import Moment, Submitted
from support.loads import EXACTLY_ONCE, PARTITIONS, WAYS, Load, events
from support.outputs import FLAWLESS, check_rows, expected_of
from support.proxied import ProxiedKafka
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.kafka.write import turns
from airflow_provider_orderedkafka.kafka.write.producer import PooledProducer
from airflow_provider_orderedkafka.kafka.write.turns import Transaction, Turn, Turns
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BATCH, BATCHES = 1_500, 4
FENCED = 75


def later(value: Any) -> Any:
    """A case for the night."""
    return pytest.param(value, marks=pytest.mark.nightly)


class Exact:
    """A range of some batches, into one topic; the application may reach its brokers by another address."""

    def __init__(
        self, kafka: Any, topics: Topics, records: Records, folder: Path, way: str, servers: str | None = None
    ) -> None:
        self.records, self.way = records, WAYS[way]
        self.source, self.output = topics.create("in", PARTITIONS), topics.create("out", PARTITIONS)
        records.produce(self.source, events(BATCHES * BATCH, 1))
        loaded = whole_range(kafka.bootstrap_servers, self.source, batch_offsets=BATCH)
        argv = ("--output-topic", self.output, *EXACTLY_ONCE, *self.way.argv)
        self.load = Load(servers or kafka.bootstrap_servers, folder, loaded, *argv)

    def is_whole(self) -> None:
        expected, found = expected_of(self.records, self.source), self.records.read_once_decided(self.output)
        assert check_rows(expected, found, self.way.each_gives, self.way.keeps, None) == FLAWLESS
        self.load.prove()
        report = self.load.report()
        assert (report.rows_emitted, report.may_be_doubled) == (BATCHES * BATCH * self.way.each_gives, 0)


@pytest.fixture
def exact(kafka: Any, topics: Topics, records: Records, tmp_path: Path, request: pytest.FixtureRequest) -> Exact:
    return Exact(kafka, topics, records, tmp_path, request.param)


SOONER = ("direct", "by key")


@pytest.mark.parametrize("exact", [way if way in SOONER else later(way) for way in WAYS], indirect=True)
def test_a_load_that_is_killed_in_the_middle_of_a_batch_writes_each_row_once(exact: Exact) -> None:
    load = exact.load
    application = load.start(Moment(PooledProducer.send, "return", 1, str(load.checkpoint / "notes/2")))
    assert application.until_held(), application.log()[-3000:]
    application.kill()
    load.finish()
    exact.is_whole()


STEPS = [
    *(Turns.take, Turn._check, Transaction.send),
    *map(later, (Checkpoint.put_note, Checkpoint.put_counts, turns._retry, Transaction._commit, Transaction.settle)),
]


@pytest.mark.parametrize("exact", ["direct", later("by key")], indirect=True)
@pytest.mark.parametrize("event", ["call", later("return")])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__qualname__)
def test_an_attempt_that_goes_on_once_another_one_has_finished_writes_nothing_more(
    exact: Exact, step: Any, event: Any
) -> None:
    once = "/" if step is Turns.take else str(exact.load.checkpoint / "notes/2")
    first = exact.load.start(Moment(step, event, 1, once))
    assert first.until_held(), first.log()[-3000:]
    first.freeze()
    exact.load.finish()
    exact.is_whole()
    first.thaw()
    assert first.wait() == FENCED, first.log()[-3000:]
    exact.is_whole()


def answers_are_lost(kafka: ProxiedKafka, application: Submitted) -> None:
    kafka.proxy.does("mute")
    application.let_go()
    time.sleep(3)
    kafka.proxy.does("cut")


def broker_is_killed(kafka: ProxiedKafka, application: Submitted) -> None:
    [broker] = kafka.brokers
    os.kill(broker.pid, signal.SIGSTOP)
    application.let_go()
    time.sleep(2)  # what it asks for waits in the broker's sockets
    os.kill(broker.pid, signal.SIGKILL)
    kafka.stop()
    kafka.start()


@pytest.mark.parametrize("way", ["direct", later("by key")])
@pytest.mark.parametrize("happens", [answers_are_lost, broker_is_killed], ids=lambda each: each.__name__)
def test_a_commit_of_which_nobody_knows_whether_it_was_made_is_made_once(
    tmp_path: Path, request: pytest.FixtureRequest, way: str, happens: Any
) -> None:
    with ProxiedKafka(tmp_path / "kafka") as kafka:
        topics, records = Topics(kafka.bootstrap_servers, request.node.name), Records(kafka.bootstrap_servers)
        servers = kafka.proxied_servers if happens is answers_are_lost else None
        exact = Exact(kafka, topics, records, tmp_path, way, servers)
        application = exact.load.start(Moment(Transaction._commit, "call", 1, str(exact.load.checkpoint / "notes/2")))
        assert application.until_held(), application.log()[-3000:]
        happens(kafka, application)
        while application.until_held():
            application.let_go()
        if application.wait():
            exact.load.finish()
        exact.is_whole()
