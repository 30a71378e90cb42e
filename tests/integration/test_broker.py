"""The Kafka that everything here runs on: it really serves, keeps its data, and never outlives who started it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from support.outputs import expected_of
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.tools.doctor.installed import find_java
from broker import BrokerFailedError, LocalKafka, PortTakenError, free_port
from broker.fetching import FetchError, kafka_jars

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster_of_these_tests(tmp_path_factory):
    with LocalKafka(tmp_path_factory.mktemp("own") / "a directory") as cluster:
        yield cluster


@pytest.fixture
def own_cluster(cluster_of_these_tests):
    """A cluster that may be stopped, killed and paused: it serves again when the next test begins."""
    if not cluster_of_these_tests.running:
        cluster_of_these_tests.start()
    yield cluster_of_these_tests
    cluster_of_these_tests.brokers[0].resume()


def test_a_broker_that_starts_again_has_its_port_and_its_records_even_after_a_kill(own_cluster):
    topics, records = Topics(own_cluster.bootstrap_servers, "kill"), Records(own_cluster.bootstrap_servers)
    topic, address, (broker,) = topics.create(), own_cluster.bootstrap_servers, own_cluster.brokers
    records.produce(topic, [Record(b"%d" % n, timestamp=n + 1) for n in range(500)])

    broker.kill()
    assert not own_cluster.running
    broker.start()
    records.produce(topic, [Record(b"500", timestamp=501)])
    broker.stop()
    own_cluster.start()

    assert own_cluster.bootstrap_servers == address
    assert [seen.value for seen in records.read(topic)] == [b"%d" % n for n in range(501)]


def test_a_directory_that_is_used_again_gives_the_same_cluster(own_cluster):
    topic = Topics(own_cluster.bootstrap_servers, "again").create()
    own_cluster.stop()
    with LocalKafka(own_cluster.directory) as again:
        assert (again.cluster_id, again.bootstrap_servers) == (own_cluster.cluster_id, own_cluster.bootstrap_servers)
        assert Records(again.bootstrap_servers).read(topic) == []


def test_a_directory_holds_one_running_cluster_at_a_time(own_cluster):
    with pytest.raises(BrokerFailedError, match="already"):
        LocalKafka(own_cluster.directory, port=free_port()).start()
    with pytest.raises(BrokerFailedError, match="already"):
        own_cluster.start()
    own_cluster.brokers[0].wait_until_serving()


def test_a_paused_broker_runs_answers_nothing_and_can_be_stopped(own_cluster):
    (broker,) = own_cluster.brokers
    broker.pause()
    assert broker.running
    with pytest.raises(Exception, match="_TRANSPORT"):
        Topics(own_cluster.bootstrap_servers, "paused").admin.list_topics(timeout=2)
    own_cluster.stop()
    assert not own_cluster.running


@pytest.mark.nightly
def test_a_broker_starts_from_classes_that_are_written_down_once_for_a_machine(tmp_path, monkeypatch):
    here = kafka_jars(find_java(), "4.1.1", pytest.fail)
    (tmp_path / here.name).symlink_to(here)
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path))
    said = []
    for name in ("first", "second"):
        with LocalKafka(tmp_path / name, announce=said.append) as cluster:
            java = psutil.Process(cluster.brokers[0].pid)
            (classes,) = tmp_path.glob("*.jsa")
            assert str(classes) in {mapped.path for mapped in java.memory_maps()}
    assert len(said) == 1


def test_a_fetch_without_a_network_leaves_nothing_behind_and_says_what_helps(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path / "cache"))
    # The real Ivy, sent to a proxy that is not there.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9")
    said = []
    with pytest.raises(FetchError, match="proxy"):
        LocalKafka(tmp_path / "kafka", announce=said.append).start()
    assert [line.partition(" into ")[0] for line in said] == ["Fetching Apache Kafka 4.1.1"]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kafka_2.13-4.1.1.lock"]


def test_a_taken_port_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port}"):
            LocalKafka(tmp_path, port=port).start()


def test_a_broker_that_does_not_start_shows_why(tmp_path):
    cluster = LocalKafka(tmp_path, properties={"metric.reporters": "no.such.Reporter"})
    with pytest.raises(BrokerFailedError, match=r"no\.such\.Reporter"):
        cluster.start()
    assert not cluster.running


@pytest.mark.nightly
def test_three_brokers_survive_the_loss_of_any_one(tmp_path):
    with LocalKafka(tmp_path, brokers=3) as cluster:
        topics, records = Topics(cluster.bootstrap_servers, "three"), Records(cluster.bootstrap_servers)
        topic = topics.create(partitions=3, config={"min.insync.replicas": 2}, replicas=3)
        records.produce(topic, [Record(b"before", partition=p) for p in range(3)])

        cluster.brokers[1].kill()
        topics.wait_for_leaders(topic, 3)
        records.produce(topic, [Record(b"while", partition=p) for p in range(3)])
        cluster.brokers[1].start()

        assert [seen.value for seen in records.read(topic)] == [b"before", b"while"] * 3
    assert not cluster.running


@pytest.fixture(scope="module")
def used_before(tmp_path_factory):
    """A directory for one broker after the other: it is formatted once."""
    return tmp_path_factory.mktemp("elsewhere")


def test_make_broker_serves_until_it_is_ended_and_make_sample_writes_events_to_it(used_before):
    port = free_port()
    with started_elsewhere(used_before, port) as (parent, broker):
        sample = [sys.executable, "-m", "broker.sample", "--events", "1000"]
        for begins in ("created the topics of the examples, and wrote 1,000 events", "wrote 1,000 events"):
            done = subprocess.run(
                sample, cwd=ROOT, env={**os.environ, "PORT": str(port)}, stdout=subprocess.PIPE, text=True, check=True
            )
            assert done.stdout.startswith(begins)
        rows = expected_of(Records(f"127.0.0.1:{port}"), "orders", "refunds")
        assert Counter(row.record.topic for row in rows) == {"orders": 1800, "refunds": 200}
        assert all(row.order_time == row.record.timestamp for row in rows), "the second sample has late events"
        parent.send_signal(signal.SIGINT)
        assert parent.wait(30) == 0
        assert ended(broker)


def test_a_sample_for_a_broker_that_does_not_answer_says_so():
    nowhere = f"127.0.0.1:{free_port()}"
    sample = [sys.executable, "-m", "broker.sample", "--bootstrap-servers", nowhere]
    done = subprocess.run(sample, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, nowhere in done.stderr, "Traceback" in done.stderr) == (1, True, False)


@pytest.mark.parametrize("paused", [False, True])
def test_a_broker_does_not_outlive_the_process_that_started_it(used_before, paused):
    with started_elsewhere(used_before, free_port()) as (parent, broker):
        if paused:
            broker.suspend()
        parent.kill()
        assert ended(broker)


def test_a_broker_does_not_outlive_its_leash(used_before):
    with started_elsewhere(used_before, free_port()) as (_, broker):
        broker.parent().kill()
        assert ended(broker)


class started_elsewhere:  # noqa: N801 - reads as a statement
    """What `make broker` runs, and its broker."""

    def __init__(self, directory: Path, port: int) -> None:
        self._command = [sys.executable, "-m", "broker", "--directory", directory, "--port", str(port)]

    def __enter__(self):
        self._parent = psutil.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE)
        assert b"until Ctrl-C" in self._parent.stdout.readline()
        (leash,) = self._parent.children()
        return self._parent, leash.children()[0]

    def __exit__(self, *_):
        if self._parent.poll() is None:
            self._parent.kill()
        self._parent.wait()
        self._parent.stdout.close()


def ended(process: psutil.Process) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    process.kill()
    return False
