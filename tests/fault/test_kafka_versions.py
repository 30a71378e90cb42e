"""The versions of Kafka that are promised, the one that all other tests run on among them."""

import json

import pytest
from support.applications import Application
from support.certificates import Authority
from support.records import Records
from support.secured import Secured, SecuredKafka
from support.topics import Topics
from support.whole_way import WholeWay

from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig

pytestmark = pytest.mark.fault


BETWEEN = [pytest.param(version, marks=pytest.mark.versions) for version in ("4.0.1", "4.1.1")]
"""Those that `make versions` alone tries."""


@pytest.mark.parametrize("version", ["3.9.1", *BETWEEN, "4.4.0"])
def test_a_load_goes_its_whole_way_on_a_secured_kafka_of_each_version(spark, tmp_path, monkeypatch, version):
    scram = Secured.sasl("SCRAM-SHA-512", {"loader": "sesame"}, tls=Authority.make())
    everything = {"allow.everyone.if.no.acl.found": True}
    place = tmp_path / "kafka"
    with SecuredKafka(place, {"SCRAM": scram}, properties=everything, version=version) as kafka:
        topics, records = Topics(kafka.bootstrap_servers, version), Records(kafka.bootstrap_servers)
        way = WholeWay.of(topics, records)
        config = KafkaConfig.from_connection(kafka.secured_config("SCRAM", "loader"))
        options = {f"kafka.{name}": value for name, value in config.items()}
        monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps(options))
        way.check(records, way.go(config, Application(config.servers, tmp_path), "direct"))
