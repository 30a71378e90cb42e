"""A secured Kafka: the whole way of a record on each kind of it, and what is said to whoever may not."""

import json
import time
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from support.applications import Application, dying_once, events
from support.outputs import FLAWLESS, check, expected_of
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka import OrderedLoad, ranges
from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.cuts import Bound
from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.core.subscriptions import Named
from airflow_provider_orderedkafka.embedded import Authority, EmbeddedKafka, Secured
from airflow_provider_orderedkafka.errors import AccessDeniedError
from airflow_provider_orderedkafka.kafka.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.kafka.outputs import look_up_outputs
from airflow_provider_orderedkafka.kafka.producer import make_producer
from airflow_provider_orderedkafka.kafka.sending import Chunk, Deliveries
from airflow_provider_orderedkafka.kafka.topics import discover
from airflow_provider_orderedkafka.mirror import GroupMirror, group_of

CA, FOREIGN = Authority.make(), Authority.make("somebody else")
USERS = {"loader": "sesame-7c1f", "guest": "guest-2b9d"}
LISTENERS = {
    "TLS": Secured.tls(CA),
    "MUTUAL": Secured.mutual_tls(CA),
    "SCRAM": Secured.sasl("SCRAM-SHA-512", USERS, tls=CA),
    "PLAIN": Secured.sasl("PLAIN", USERS),
    "TOKENS": Secured.sasl("OAUTHBEARER", {}, tls=CA),
    "EXPIRED": Secured.tls(CA, CA.issue("broker", days=-1)),
    "ELSEWHERE": Secured.tls(CA, CA.issue("broker", "10.1.2.3")),
}
AT_ONCE = 10.0
"""Seconds; Kafka is called unreachable after 15."""

SOURCE = {ResourceType.TOPIC: ("READ",)}
OUTPUT = {ResourceType.TOPIC: ("WRITE", "READ")}
MIRROR = {ResourceType.GROUP: ("READ",)}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with EmbeddedKafka(tmp_path_factory.mktemp("secured"), secured=LISTENERS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def records(kafka):
    return Records(kafka.bootstrap_servers)


@pytest.fixture
def allow(topics: Topics):
    """Lets a user do something with topics and groups, and nothing else."""

    def made(user: str, needs, *names: str) -> None:
        rules = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                AclOperation[each],
                AclPermissionType.ALLOW,
            )
            for kind, operations in needs.items()
            for each in operations
            for name in names
        ]
        for answer in topics.admin.create_acls(rules).values():
            answer.result(20)

    return made


@pytest.fixture
def come_as(kafka, monkeypatch):
    """The configuration of a user by one of the listeners, which applications get by their environment."""

    def made(listener: str, user: str = "loader", **changes: str | None) -> KafkaConfig:
        settings = kafka.secured_config(listener, user) | {n.replace("_", "."): v for n, v in changes.items()}
        config = KafkaConfig.from_connection({name: value for name, value in settings.items() if value is not None})
        options = {f"kafka.{name}": value for name, value in config.items()}
        monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps(options))
        return config

    return made


@pytest.mark.parametrize(
    ("listener", "lane"),
    [
        *[(listener, lane) for listener in ("SCRAM", "MUTUAL") for lane in ("direct", "frames")],
        *[(listener, "direct") for listener in ("TLS", "PLAIN", "TOKENS")],
    ],
)
def test_a_load_needs_no_more_than_to_read_its_topics_write_and_read_its_outputs_and_its_own_group(
    topics, records, allow, come_as, spark, tmp_path, caplog, listener, lane
):
    source, output = topics.create("in", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
    load = OrderedLoad(f"load-{output}", topics=[source], start="earliest")
    allow("loader", SOURCE, source)
    allow("loader", OUTPUT, output)
    allow("loader", MIRROR, group_of(load.name))
    config = come_as(listener)

    first = ranges.first_look(config, load, now())
    ledger = moves.first_look(
        load.name, instance="one", home_dag="d", place=first.place, topics=first.topics, now=now()
    )
    loaded = ranges.plan(config, load, ledger, digest="", now=now())
    app = Application(config.servers, tmp_path)
    slices = ("--option", "sliceOffsets=20", "--sink-option", "writers=1")
    report = app.load(loaded, "--output-topic", output, *slices, **dying_once(tmp_path / "died")[lane])
    mirror = GroupMirror(config, load.name)
    mirror.write(replace(ledger, place=report.stop, revision=1))

    assert "batch 1 failed and is run again" in caplog.text
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, 120, 0)
    assert mirror.read(report.stop.offsets).place.offsets == report.stop.offsets


def now() -> int:
    return time.time_ns() // 1_000_000
