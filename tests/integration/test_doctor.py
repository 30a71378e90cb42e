"""The doctor with a real broker and a real Spark."""

import json

import pytest
from confluent_kafka.admin import ResourceType
from support.secured import let

from airflow_provider_orderedkafka.tools import doctor
from airflow_provider_orderedkafka.tools.doctor.installed import Tries


@pytest.fixture
def connect(tmp_path, monkeypatch):
    """Defines a connection of Airflow's in the environment."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))

    def made(name, **connection):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))

    return made


def statuses(findings, *words):
    return {each.name: each.status for each in findings if each.name.startswith(words)}


def test_a_connection_that_leads_to_a_broker_is_ok(kafka, connect):
    connect("broker", conn_type="kafka", extra=json.dumps({"bootstrap.servers": kafka.bootstrap_servers}))
    (finding,) = [f for f in doctor.examine(Tries("broker", "nowhere")) if f.name == "connection broker"]
    assert (finding.status, finding.found) == ("ok", f"{kafka.bootstrap_servers} answers")


def test_each_missing_permission_is_told_by_name(kafka, topics, connect):
    source, output, closed = topics.create("in"), topics.create("out"), topics.create("closed")
    let(topics.admin, "guest", {ResourceType.TOPIC: ["READ"]}, source, output)
    let(topics.admin, "guest", {ResourceType.GROUP: ["READ"]}, "orderedkafka.orders")
    connect("broker", conn_type="kafka", extra=json.dumps(kafka.secured_config("USERS", "guest")))
    tries = Tries("broker", "nowhere", topics=[source, closed], outputs=[output], load="orders")
    findings = doctor.examine(tries)
    assert statuses(findings, "topic", "output", "group", "exactly once") == {
        f"topic {source}": "ok",
        f"topic {closed}": "broken",
        f"output {output}": "broken",
        "exactly once": "warning",
        "group orderedkafka.orders": "ok",
    }
    (lacking,) = [each for each in findings if each.name == f"output {output}"]
    assert lacking.found == "its principal lacks WRITE"
    assert statuses(findings, "connection broker") == {"connection broker": "ok"}
    (denied,) = [each for each in doctor.examine(Tries("broker", "no", load="other")) if each.name.startswith("group")]
    assert denied.status == "broken"


def test_credentials_that_kafka_does_not_know_are_told(kafka, connect):
    config = kafka.secured_config("USERS", "guest") | {"sasl.password": "wrong"}
    connect("broker", conn_type="kafka", extra=json.dumps(config))
    (finding,) = [each for each in doctor.examine(Tries("broker", "no", load="orders")) if "broker" in each.name]
    assert finding.status == "broken"
    assert "mechanism" in finding.found
    assert "wrong" not in finding.found
