"""A broker that is frozen, killed or started again under the questions that planning asks."""

import threading
import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from support.consumers import close_idle
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.notation.subscriptions import Matching, Named
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Bound, Span
from airflow_provider_orderedkafka.core.order.marks import LogEnd
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Sighting
from airflow_provider_orderedkafka.errors import UnreachableError
from airflow_provider_orderedkafka.kafka.clients import pools
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.topics import (
    committed,
    discover,
    high_ends,
    log_ends,
    log_starts,
    newest,
)
from airflow_provider_orderedkafka.kafka.read.slices import read_slice
from broker import LocalKafka

pytestmark = pytest.mark.fault

P = TopicPartition("orders", 0)
FUTURE = 2_000_000_000_000
UNSAFE = {"acks": 1, "enable.idempotence": False}
SETTLES_AFTER = 0.5
ANSWERED_WITHIN = 15.0
WHILE_ONE_IS_SILENT = 45.0  # on a small and busy machine, and before Kafka itself knows
REPLACED_WITHIN = 8.0
COMES_BACK_WITHIN = 60.0  # a broker, beside all else that starts and breaks on a small machine
FENCED_AFTER = 10.0  # the cluster then has no broker, for a moment, not even the one that answers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalKafka(tmp_path_factory.mktemp("outages")) as cluster:
        Topics(cluster.bootstrap_servers, "outages").create_named("orders")
        Records(cluster.bootstrap_servers).produce("orders", [Record(b"", timestamp=100 + n) for n in range(50)])
        yield cluster
        close_idle()


@pytest.fixture
def config(cluster):
    return KafkaConfig({"bootstrap.servers": cluster.bootstrap_servers})


@pytest.fixture
def broker(cluster):
    return cluster.brokers[0]


def one_of_each(config, deadline=ANSWERED_WITHIN):
    """Every kind of question, each in its own way."""
    log = KafkaLog(config, deadline=deadline)
    assert discover(config, Named(("orders",)), deadline).partitions == (P,)
    assert high_ends(config, [P], deadline=deadline) == Offsets({P: 50})
    assert log.first_at([P], [120])[0][P].offset == 20
    assert log.look({P: Bound(5, 130)}, {P: 50}, 1_000, 100)[P] == Sighting(30, 130, 25)
    assert len(list(log.scan(P, 0, 50))) == 50
    assert committed(config, "nobody", [P], deadline=deadline) == {}


def test_a_frozen_broker_is_given_up_at_the_deadline_and_asked_again_when_it_wakes(config, broker):
    one_of_each(config)
    broker.pause()
    time.sleep(SETTLES_AFTER)
    try:
        for ask in (
            lambda: high_ends(config, [P], deadline=2.0),
            lambda: discover(config, Named(("orders",)), 2.0),
            lambda: KafkaLog(config, deadline=2.0).look({P: Bound(5, 130)}, {P: 50}, 1_000, 100),
        ):
            begun = time.monotonic()
            with pytest.raises(UnreachableError):
                ask()
            assert time.monotonic() - begun < 7.0
        time.sleep(FENCED_AFTER)
    finally:
        broker.resume()
    one_of_each(config)


def test_a_leader_that_is_elected_anew_behind_an_open_connection_is_asked_as_such(config, broker):
    one_of_each(config)
    before = leader_epoch(config)
    assert any(elected_anew(config, broker, before) for _ in range(5))
    assert high_ends(config, [P]) == Offsets({P: 50})


def elected_anew(config, broker, before):
    """Freeze the broker, and see whether its leader is another one then: its controller may hear from it in time."""
    broker.pause()
    time.sleep(FENCED_AFTER)
    broker.resume()
    deadline = time.monotonic() + 10.0
    while leader_epoch(config) == before and time.monotonic() < deadline:
        time.sleep(0.1)
    return leader_epoch(config) != before


def leader_epoch(config):
    """How often the partition's leader was elected, by a client that knows nothing yet."""
    deadline = time.monotonic() + 30.0
    while True:
        client = AdminClient({**config, "log_level": 0})
        (answer,) = client.list_offsets({KafkaPartition(*P): OffsetSpec.latest()}).values()
        try:
            return answer.result(30).leader_epoch
        except KafkaException:  # between two leaders there is none
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda config: discover(config, Named(("orders",)), REPLACED_WITHIN),
        lambda config: discover(config, Matching("ord.*"), REPLACED_WITHIN),
        lambda config: high_ends(config, [P], deadline=REPLACED_WITHIN),
    ],
    ids=["by name", "by pattern", "ends"],
)
def test_a_client_that_hears_of_no_broker_is_replaced_within_the_question(cluster, monkeypatch, request, ask):
    made = []

    def new_client(make, settings):
        made.append(settings)
        return make(settings if len(made) > 1 else {**settings, "bootstrap.servers": "127.0.0.1:1"})

    monkeypatch.setattr(pools, "new_client", new_client)
    ask(KafkaConfig({"bootstrap.servers": cluster.bootstrap_servers, "client.id": request.node.name}))
    assert len(made) == 2


def test_one_of_three_brokers_may_be_silent(tmp_path):
    long_before_kafka_knows = {"broker.session.timeout.ms": 60_000}
    with LocalKafka(tmp_path, brokers=3, properties=long_before_kafka_knows) as cluster:
        Topics(cluster.bootstrap_servers, "outages").create_named("orders", replicas=3)
        config = KafkaConfig({"bootstrap.servers": cluster.bootstrap_servers})
        for broker in cluster.brokers:
            broker.pause()
            for _ in range(2):
                assert discover(config, Named(("orders",)), WHILE_ONE_IS_SILENT).partitions == (P,)
            broker.resume()


def test_a_leader_that_died_is_not_waited_for_once_another_one_leads(tmp_path):
    with LocalKafka(tmp_path, brokers=3) as cluster:
        Topics(cluster.bootstrap_servers, "outages").create_named("orders", assignment=[[1, 2]])
        config = KafkaConfig({"bootstrap.servers": cluster.bootstrap_servers})
        assert log_ends(config, [P])[P].epoch == 0
        cluster.brokers[0].kill()
        Records(cluster.bootstrap_servers).produce("orders", [Record(b"", timestamp=100)])
        assert log_ends(config, [P]) == {P: LogEnd(1, 1)}


def test_a_newest_record_that_a_follower_lacks_takes_none_of_those_before_it_out_of_the_order(tmp_path):
    long_before_kafka_knows = {"broker.session.timeout.ms": 60_000, "replica.lag.time.max.ms": 60_000}
    with LocalKafka(tmp_path, brokers=3, properties=long_before_kafka_knows) as cluster:
        Topics(cluster.bootstrap_servers, "outages").create_named("orders", 2, assignment=[[1, 2], [1, 2]])
        records = Records(cluster.bootstrap_servers)
        records.produce("orders", [Record(b"", timestamp=100 + n, partition=n % 2) for n in range(50)])
        config = KafkaConfig({"bootstrap.servers": cluster.bootstrap_servers})
        partitions = discover(config, Named(("orders",))).partitions
        span = Span(log_starts(config, partitions), high_ends(config, partitions), NO_FLOOR, FUTURE)
        cluster.brokers[1].pause()
        records.produce("orders", [Record(b"", timestamp=900, partition=p) for p in range(2)], **UNSAFE)
        try:
            assert newest(config, partitions) == {}
            planner = Planner(KafkaLog(config), span)
            slices, ends = planner.slices(5, "fail"), planner.ends(20, 3)
            times = [time for each in slices for time in timestamps(each, config)]
        finally:
            cluster.brokers[1].resume()
        assert times == list(range(100, 150))
        assert [sum(end.offsets.values()) for end in ends] == [20, 40, 50]


def timestamps(slice_, config):
    batches = read_slice(slice_, ReadSettings(config))
    return [int(time.timestamp() * 1_000) for batch in batches for time in batch.column("timestamp").to_pylist()]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_questions_outlast_a_broker_that_goes_and_comes_back(config, broker, how):
    one_of_each(config)
    getattr(broker, how)()
    served = []
    back = threading.Timer(2.0, lambda: served.append((broker.start(), time.monotonic())[1]))
    back.start()
    one_of_each(config, COMES_BACK_WITHIN)
    ended = time.monotonic()
    back.join()
    assert ended - served[0] < ANSWERED_WITHIN
