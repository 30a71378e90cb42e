"""The broker for trying: it serves, runs on until it is stopped, and keeps its data."""

import json
import socket
import subprocess
import sys
from collections import Counter

import pytest
from support.outputs import expected_of
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.tools.broker.local_kafka import BrokerFailedError, LocalKafka, PortTakenError


def test_the_broker_of_the_command_runs_on_until_it_is_stopped_and_has_sample_data(tmp_path):
    def orderedkafka(*arguments):
        command = [sys.executable, "-m", "airflow_provider_orderedkafka.tools.cli", "broker", *arguments]
        command += ["--directory", tmp_path]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    kafka = LocalKafka(tmp_path)
    assert orderedkafka("status").returncode == 3
    assert "orderedkafka broker start" in orderedkafka("sample").stdout
    try:
        started = orderedkafka("start", "--port", "0")
        assert started.returncode == 0, started.stderr
        status = orderedkafka("status")
        assert status.returncode == 0
        assert json.loads(orderedkafka("status", "--json").stdout)["bootstrap_servers"] == kafka.bootstrap_servers
        for fact in (kafka.bootstrap_servers, str(kafka.pid), str(tmp_path), "server.log", "serves"):
            assert fact in status.stdout
        assert kafka.bootstrap_servers in orderedkafka("start").stdout
        assert orderedkafka("start", "--port", "1").returncode == 75
        for shown in ("created 19 topics: orders, refunds, orders-ordered", "the topics exist already\n"):
            assert shown in orderedkafka("sample", "--events", "1000").stdout
        assert json.loads(orderedkafka("start", "--json").stdout)["broker"] == "serves"
        rows = expected_of(Records(kafka.bootstrap_servers), "orders", "refunds")
        assert Counter(row.record.topic for row in rows) == {"orders": 1800, "refunds": 200}
        assert all(row.order_time == row.record.timestamp for row in rows), "the second sample has late events"
    finally:
        stopped = orderedkafka("stop")
    assert "Stopped" in stopped.stdout
    assert not kafka.running
    assert orderedkafka("status").returncode == 3
    assert json.loads(orderedkafka("stop", "--json").stdout) == {"broker": "stopped"}


def test_a_broker_that_starts_again_has_its_port_and_its_records(tmp_path):
    with LocalKafka(tmp_path / "a directory") as kafka:
        servers, records = kafka.bootstrap_servers, Records(kafka.bootstrap_servers)
        topic = Topics(servers, "again").create()
        records.produce(topic, [Record(b"before", timestamp=1)])
        with pytest.raises(BrokerFailedError, match="already"):
            LocalKafka(kafka.directory).start()
    assert kafka.state == "stopped"
    with LocalKafka(kafka.directory) as again:
        assert again.bootstrap_servers == servers
        assert [seen.value for seen in Records(servers).read(topic)] == [b"before"]


def test_a_port_that_another_program_has_is_named_and_nothing_runs(tmp_path):
    kafka = LocalKafka(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port}"):
            kafka.start(port)
    assert not kafka.running


def test_a_broker_that_dies_while_starting_shows_its_log(tmp_path):
    class Wrong(LocalKafka):
        def properties(self, client, controller):
            return {**super().properties(client, controller), "metric.reporters": "no.such.Reporter"}

    kafka = Wrong(tmp_path)
    with pytest.raises(BrokerFailedError, match=r"(?s)server\.log.*no\.such\.Reporter"):
        kafka.start()
    assert not kafka.running
