"""Writers and brokers that die in the middle of a write; the output is read by a reader that shares no code."""

import functools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from support.batches import batches, columns, source
from support.consumers import close_idle
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DeliveryError, OrderedKafkaError
from airflow_provider_orderedkafka.kafka.provenance import read_provenance
from airflow_provider_orderedkafka.kafka.replay.landed import LandedFilter
from airflow_provider_orderedkafka.kafka.replay.replays import (
    BegunBatch,
    NotedOutputs,
    OutputBrokers,
    Settle,
    find_landed,
)
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings
from airflow_provider_orderedkafka.kafka.write.turns import Turns
from airflow_provider_orderedkafka.kafka.write.writing import plan_write, write
from broker import LocalKafka

pytestmark = pytest.mark.fault

ROWS = 200_000
THIS = BegunBatch("r1", Offsets({TopicPartition("orders", 2): 0}), Offsets({TopicPartition("orders", 2): 10**9}))
OUTAGE_SECONDS = 20
SESSION_SECONDS = 30


@pytest.fixture(autouse=True, scope="module")
def leave_no_consumers():
    yield
    close_idle()


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.nightly)], ids=["at least once", "exactly once"])
def exactly(request):
    """Whether rows are written in transactions, and earlier writers fenced."""
    return request.param


@pytest.fixture
def own_kafka(tmp_path):
    """A broker that a test may stop."""
    with LocalKafka(tmp_path / "kafka") as cluster:
        yield cluster


@pytest.fixture
def patient_brokers(tmp_path):
    """Three brokers of which one that is gone is waited for as long as Kafka does by default."""
    properties = {"broker.session.timeout.ms": SESSION_SECONDS * 1_000}
    with LocalKafka(tmp_path / "kafka", brokers=3, properties=properties) as cluster:
        yield cluster


def a_write(config, topic, **more):
    return plan_write(
        WriteSettings(config, topic=topic, range_id="r1", source="struct", **more), columns("value", "key", "_source")
    )


def slowly(rows, pause):
    for batch in batches(rows, key=key, _source=source):
        yield batch
        time.sleep(pause)


def key(number):
    return b"k%d" % (number % 101)


def check(seen, rows=ROWS):
    """Every row once, in the order of its key and of its partition."""
    assert sorted(int(record.value) for record in seen) == list(range(rows))
    assert len({read_provenance(record.headers).identity for record in seen}) == rows
    for place in (lambda record: record.key, lambda record: record.partition):
        last = defaultdict(lambda: -1)
        for record in seen:
            assert int(record.value) > last[place(record)]
            last[place(record)] = int(record.value)


def note(records, topic):
    return Offsets({TopicPartition(topic, p): end for p, end in records.ends(topic).items()})


ATTEMPT = """
import sys
sys.path[:0] = {path!r}
from test_writing_under_failures import Offsets, attempt
attempt({config!r}, {topic!r}, Offsets.from_json({noted!r}), pause=0.002, exactly={exactly})
"""


def process_of_an_attempt(config, topic, noted, *, exactly=False):
    """An attempt in a process of its own."""
    path = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    code = ATTEMPT.format(path=path, config=config, topic=topic, noted=noted.to_json(), exactly=exactly)
    return subprocess.Popen([sys.executable, "-c", code])


def attempt(config, topic, noted, pause=0.0, *, exactly=False):
    """What the application does with a batch that is noted and not counted: the first attempt finds nothing."""
    settings = a_write(config, topic)
    if exactly:
        turns = Turns(config, f"orderedkafka-{topic}", (topic,))
        turns.take()
        turns.fence(1)
        settings = replace(settings, turn=turns.of_writers(1), writer="0")
    brokers = OutputBrokers(config, Settle(still=1.0))
    found = find_landed(brokers, THIS, NotedOutputs((topic,), noted, fenced=exactly))
    assert found.settled
    left = LandedFilter(found.landed, "one", "struct")
    return found.landed.rows, write(left.of(slowly(ROWS, pause)), settings)


def attempts(*given, **how):
    """One attempt after the other until one comes to its end, as the loop over batches does."""
    while True:
        try:
            return attempt(*given, **how)
        except OrderedKafkaError as error:
            if not error.retryable:
                raise


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def wait_until(true, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to this in time"
        time.sleep(0.005)


def written(records, topic):
    return sum(records.ends(topic).values())


def sent(records, topic):
    """The same, with what is in a transaction that is open yet."""
    return sum(records.ends(topic, "read_uncommitted").values())


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 6))])
def test_attempts_that_are_killed_leave_nothing_lost_and_nothing_doubled(kafka, topics, records, seed, exactly):
    config, topic = {"bootstrap.servers": kafka.bootstrap_servers}, topics.create(partitions=5)
    noted, chance = note(records, topic), random.Random(seed)
    for _ in range(3):
        aim = sent(records, topic) + chance.randrange(1, ROWS // 4)
        process = process_of_an_attempt(config, topic, noted, exactly=exactly)
        wait_until(lambda aim=aim: sent(records, topic) >= aim)
        kill(process)
    landed, _ = attempt(config, topic, noted, exactly=exactly)
    assert (0 if exactly else 1) <= landed < ROWS
    check(records.read_once_decided(topic))


def test_requests_that_land_after_their_writer_s_death_are_found(own_kafka, request, exactly):
    config, records = {"bootstrap.servers": own_kafka.bootstrap_servers}, Records(own_kafka.bootstrap_servers)
    topic = Topics(own_kafka.bootstrap_servers, request.node.name).create(partitions=3)
    noted = note(records, topic)
    process = process_of_an_attempt(config, topic, noted, exactly=exactly)
    wait_until(lambda: sent(records, topic) >= 20_000)
    [broker] = own_kafka.brokers
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(0.5)  # what the writer sends now waits in the broker's sockets
    kill(process)
    awake = threading.Timer(1.0, lambda: os.kill(broker.pid, signal.SIGCONT))
    awake.start()
    landed, _ = attempts(config, topic, noted, exactly=exactly)
    awake.join()
    assert exactly or landed > 20_000
    check(records.read_once_decided(topic))


def test_a_transaction_that_the_brokers_have_ended_is_written_again(kafka, topics, records):
    config = {"bootstrap.servers": kafka.bootstrap_servers, "transaction.timeout.ms": "3000"}
    topic = topics.create(partitions=3)
    noted = note(records, topic)
    process = process_of_an_attempt(config, topic, noted, exactly=True)
    wait_until(lambda: sent(records, topic) >= 20_000)
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: written(records, topic) == sent(records, topic), 60)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(60) != 0
    landed, _ = attempts(config, topic, noted, exactly=True)
    assert landed < ROWS
    check(records.read_once_decided(topic))


def test_rows_that_a_lagging_replica_hides_are_found_once_they_show(patient_brokers, request):
    servers = patient_brokers.bootstrap_servers
    config, records, made = {"bootstrap.servers": servers}, Records(servers), Topics(servers, request.node.name)
    topic = made.name()
    made.create_named(topic, config={"min.insync.replicas": 2}, assignment=[[1, 2, 3]])
    noted = note(records, topic)
    process = process_of_an_attempt(config, topic, noted)
    wait_until(lambda: written(records, topic) >= 20_000)
    patient_brokers.brokers[2].kill()
    time.sleep(0.5)  # what the writer sends now is in the leader's log, and no consumer sees it
    kill(process)
    assert not find_landed(
        OutputBrokers(config, Settle(still=0.5, deadline=1.5)), THIS, NotedOutputs((topic,), noted)
    ).settled
    attempt(config, topic, noted)
    check(records.read_once_decided(topic))


def goes_away(cluster):
    cluster.stop()
    time.sleep(OUTAGE_SECONDS)
    cluster.start()


def is_killed_and_comes_back(cluster):
    is_killed(cluster)
    cluster.stop()
    cluster.start()


def is_killed(cluster):
    os.kill(cluster.brokers[0].pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("brokers", "outage", "pause", "more"),
    [
        (1, goes_away, 0.05, {"partitions": 3}),
        (1, is_killed_and_comes_back, 0.05, {"partitions": 3}),
        (3, is_killed, 0.03, {"partitions": 6, "replicas": 3, "config": {"min.insync.replicas": 2}}),
    ],
    ids=["away for 20 seconds", "killed and back", "one of three killed, and the leaders move"],
)
def test_a_broker_that_is_away_is_waited_for_and_nothing_is_doubled(
    tmp_path, request, brokers, outage, pause, more, exactly
):
    with LocalKafka(tmp_path / "kafka", brokers=brokers) as cluster:
        config, records = {"bootstrap.servers": cluster.bootstrap_servers}, Records(cluster.bootstrap_servers)
        topic = Topics(cluster.bootstrap_servers, request.node.name).create(**more)

        def once_something_is_written():
            wait_until(lambda: sent(records, topic))
            outage(cluster)

        thread = threading.Thread(target=once_something_is_written)
        thread.start()
        landed, done = attempts(config, topic, note(records, topic), pause, exactly=exactly)
        assert landed + done.rows == ROWS
        assert exactly or not landed, "the write has not waited"
        thread.join()
        check(records.read_once_decided(topic))


def coordinator(cluster, name):
    """The broker that keeps the transactions of this id."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    places = admin.list_topics("__transaction_state", timeout=20).topics["__transaction_state"].partitions
    java_hash = functools.reduce(lambda found, each: (31 * found + ord(each)) & 0xFFFFFFFF, name, 0)
    signed = java_hash - (1 << 32) if java_hash >> 31 else java_hash
    return cluster.brokers[places[abs(signed) % len(places)].leader - 1]


def test_a_coordinator_of_transactions_that_dies_is_followed_by_another(tmp_path, request):
    with LocalKafka(tmp_path / "kafka", brokers=3) as cluster:
        config, records = {"bootstrap.servers": cluster.bootstrap_servers}, Records(cluster.bootstrap_servers)
        topic = Topics(cluster.bootstrap_servers, request.node.name).create(
            partitions=6, replicas=3, config={"min.insync.replicas": 2}
        )

        def once_something_is_written():
            wait_until(lambda: sent(records, topic))
            coordinator(cluster, f"orderedkafka-{topic}-0").kill()

        thread = threading.Thread(target=once_something_is_written)
        thread.start()
        landed, done = attempts(config, topic, note(records, topic), 0.03, exactly=True)
        assert landed + done.rows == ROWS
        thread.join()
        check(records.read_once_decided(topic))


def test_a_broker_that_stays_away_fails_the_write_at_its_deadline_and_a_rerun_completes_it(own_kafka, request, exactly):
    config, records = {"bootstrap.servers": own_kafka.bootstrap_servers}, Records(own_kafka.bootstrap_servers)
    topic = Topics(own_kafka.bootstrap_servers, request.node.name).create(partitions=3)
    noted = note(records, topic)

    def stop():
        wait_until(lambda: sent(records, topic))
        own_kafka.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(DeliveryError, match=r"4 s.* [\d,]+ records"):
        attempt({**config, "delivery.timeout.ms": "4000"}, topic, noted, 0.02, exactly=exactly)
    stopping.join()
    own_kafka.start()
    landed, _ = attempts(config, topic, noted, exactly=exactly)
    assert (0 if exactly else 1) <= landed < ROWS
    check(records.read_once_decided(topic))


def test_many_writers_in_one_process_share_what_they_send_with(kafka, topics, records):
    config, topic = {"bootstrap.servers": kafka.bootstrap_servers}, topics.create(partitions=4)
    settings = a_write(config, topic)
    tallies = []

    def work(writer):
        tallies.append(write(batches(20_000, key=key, _source=lambda n: source(n, partition=writer)), settings))

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tally.rows for tally in tallies] == [20_000] * 6
    identities = {read_provenance(record.headers).identity for record in records.read(topic)}
    assert len(identities) == written(records, topic) == 120_000


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_worker_writes_with_a_producer_of_its_own(kafka, topics, records):
    config, topic = {"bootstrap.servers": kafka.bootstrap_servers}, topics.create()
    settings = a_write(config, topic)
    write(batches(1_000, key=key, _source=source), settings)
    child = multiprocessing.get_context("fork").Process(
        target=lambda: write(batches(1_000, key=key, _source=source), settings)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert write(batches(1_000, key=key, _source=source), settings).rows == 1_000
    assert len(records.read(topic)) == 3_000
