"""The brokers of the tests: they really serve, keep their data, and never outlive the process that started them."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from support.embedded import EmbeddedKafka
from support.embedded.cluster import AlreadyRunningError
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools.broker.java import find_java, kafka_jars
from airflow_provider_orderedkafka.tools.broker.local_kafka import BrokerFailedError, PortTakenError, free_port

TESTS = Path(__file__).parents[1]
PARENT = """
import sys, time
sys.path.insert(0, sys.argv[2])
from support.embedded import EmbeddedKafka
kafka = EmbeddedKafka(sys.argv[1])
kafka.start()
print(kafka.brokers[0].pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster_of_these_tests(tmp_path_factory):
    with EmbeddedKafka(tmp_path_factory.mktemp("own") / "a directory") as cluster:
        yield cluster


@pytest.fixture
def own_cluster(cluster_of_these_tests):
    """A cluster that may be stopped, killed and paused: it serves again when the next test begins."""
    if not cluster_of_these_tests.running:
        cluster_of_these_tests.start()
    yield cluster_of_these_tests
    cluster_of_these_tests.brokers[0].resume()


def test_records_and_ports_are_the_same_after_a_restart(own_cluster):
    topics, records = Topics(own_cluster.bootstrap_servers, "restart"), Records(own_cluster.bootstrap_servers)
    topic = topics.create()
    records.produce(topic, [Record(b"before", timestamp=1)])
    address, pid = own_cluster.bootstrap_servers, own_cluster.brokers[0].pid

    own_cluster.brokers[0].restart()

    assert own_cluster.bootstrap_servers == address
    assert own_cluster.brokers[0].pid not in (None, pid)
    records.produce(topic, [Record(b"after", timestamp=2)])
    assert [seen.value for seen in records.read(topic)] == [b"before", b"after"]


def test_acknowledged_records_are_there_after_a_kill(own_cluster):
    topics, records = Topics(own_cluster.bootstrap_servers, "kill"), Records(own_cluster.bootstrap_servers)
    topic = topics.create()
    records.produce(topic, [Record(b"%d" % n, timestamp=n + 1) for n in range(500)])

    own_cluster.brokers[0].kill()
    assert not own_cluster.running
    own_cluster.brokers[0].start()

    assert [seen.value for seen in records.read(topic)] == [b"%d" % n for n in range(500)]


def test_a_paused_broker_answers_nothing_until_it_is_resumed(own_cluster):
    broker = own_cluster.brokers[0]
    broker.pause()
    assert broker.running
    assert broker.state == "runs, but does not serve"
    broker.resume()
    broker.wait_until_serving()
    assert broker.state == "serves"


def test_a_paused_broker_can_be_stopped(own_cluster):
    own_cluster.brokers[0].pause()
    own_cluster.stop()
    assert not own_cluster.running


@pytest.mark.nightly
def test_a_broker_starts_from_classes_that_are_written_down_once_for_a_machine(tmp_path, monkeypatch):
    here = kafka_jars(find_java())
    (tmp_path / here.name).symlink_to(here)
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path))
    said = []
    for name in ("first", "second"):
        with EmbeddedKafka(tmp_path / name, announce=said.append) as cluster:
            java = psutil.Process(cluster.brokers[0].pid)
            (classes,) = tmp_path.glob("*.jsa")
            assert str(classes) in {mapped.path for mapped in java.memory_maps()}
    assert len(said) == 1


def test_the_cluster_says_who_it_is(own_cluster):
    admin = AdminClient({"bootstrap.servers": own_cluster.bootstrap_servers, "log_level": 0})
    description = admin.describe_cluster().result(10)
    assert description.cluster_id == own_cluster.cluster_id
    assert [(node.host, node.port) for node in description.nodes] == [
        ("127.0.0.1", own_cluster.brokers[0].ports.client)
    ]


def test_a_directory_holds_one_running_cluster_at_a_time(own_cluster):
    again = EmbeddedKafka(own_cluster.directory, ports=[free_port()])
    with pytest.raises(AlreadyRunningError, match=own_cluster.bootstrap_servers):
        again.start()
    assert own_cluster.brokers[0].state == "serves"


def test_a_directory_of_one_broker_is_no_cluster_of_three(own_cluster):
    with pytest.raises(SettingError, match="1"):
        EmbeddedKafka(own_cluster.directory, brokers=3)


def test_a_broker_setting_of_the_user_takes_effect(tmp_path):
    with EmbeddedKafka(tmp_path, properties={"message.max.bytes": 2_000}) as cluster:
        topics, records = Topics(cluster.bootstrap_servers, "settings"), Records(cluster.bootstrap_servers)
        topic = topics.create()
        with pytest.raises(Exception, match="MSG_SIZE_TOO_LARGE"):
            records.produce(topic, [Record(bytes(5_000))])


def test_a_new_cluster_goes_to_other_ports_where_its_own_are_taken_before_it_starts(tmp_path):
    cluster = EmbeddedKafka(tmp_path)
    chosen = cluster.brokers[0].ports
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a broker may have had it a moment ago
        other.bind(("127.0.0.1", chosen.controller))
        other.listen()
        with cluster:
            assert cluster.brokers[0].state == "serves"
            assert cluster.brokers[0].ports != chosen
            found = EmbeddedKafka.open(tmp_path)
            assert found is not None
            assert found.bootstrap_servers == cluster.bootstrap_servers


def test_a_taken_port_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port}"):
            EmbeddedKafka(tmp_path, ports=[port]).start()


def test_a_broker_that_dies_while_starting_shows_what_its_log_says(tmp_path):
    cluster = EmbeddedKafka(tmp_path, properties={"metric.reporters": "no.such.Reporter"})
    with pytest.raises(BrokerFailedError, match=r"(?s)server\.log.*no\.such\.Reporter"):
        cluster.start()
    assert not cluster.running


def test_a_broker_setting_that_kafka_refuses_is_shown_with_its_reason(tmp_path):
    cluster = EmbeddedKafka(tmp_path, properties={"num.io.threads": "many"})
    with pytest.raises(BrokerFailedError, match=r"num\.io\.threads"):
        cluster.start()


@pytest.mark.nightly
def test_three_brokers_survive_the_loss_of_any_one(tmp_path):
    with EmbeddedKafka(tmp_path, brokers=3) as cluster:
        topics, records = Topics(cluster.bootstrap_servers, "three"), Records(cluster.bootstrap_servers)
        topic = topics.create(partitions=3, config={"min.insync.replicas": 2}, replicas=3)
        records.produce(topic, [Record(b"before", partition=p) for p in range(3)])

        cluster.brokers[1].kill()
        topics.wait_for_leaders(topic, 3)
        records.produce(topic, [Record(b"while", partition=p) for p in range(3)])
        cluster.brokers[1].start()

        assert [seen.value for seen in records.read(topic)] == [b"before", b"while"] * 3
    assert not cluster.running


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_broker_does_not_outlive_the_process_that_started_it(tmp_path, number):
    with started_elsewhere(tmp_path) as (parent, broker):
        parent.send_signal(number)
        assert ended(broker)


def test_a_broker_does_not_outlive_its_leash(tmp_path):
    with started_elsewhere(tmp_path) as (_, broker):
        broker.parent().kill()
        assert ended(broker)


def test_a_paused_broker_does_not_outlive_the_process_that_started_it(tmp_path):
    with started_elsewhere(tmp_path) as (parent, broker):
        broker.suspend()
        parent.kill()
        assert ended(broker)


class started_elsewhere:  # noqa: N801 - reads as a statement
    """A broker whose parent is another process than this one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self):
        self._parent = subprocess.Popen([sys.executable, "-c", PARENT, self._directory, TESTS], stdout=subprocess.PIPE)
        return self._parent, psutil.Process(int(self._parent.stdout.readline()))

    def __exit__(self, *_):
        self._parent.kill()
        self._parent.wait()
        self._parent.stdout.close()


def ended(process: psutil.Process) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    return False
