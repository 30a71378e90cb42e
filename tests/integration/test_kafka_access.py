"""What a principal without permission is told: which topic, which operation, at once."""

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.errors import PySparkException

from airflow_provider_orderedkafka.core.notation.subscriptions import Matching, Named
from airflow_provider_orderedkafka.core.order.cuts import Bound
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import AccessDeniedError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.topics import GroupOffset, committed, discover, high_ends, write_commits
from airflow_provider_orderedkafka.spark import register
from broker import LocalKafka

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
}
ALLOWED = [(kind, "*", AclOperation.ALL, AclPermissionType.ALLOW) for kind in (ResourceType.TOPIC, ResourceType.GROUP)]
DENIED = [
    (ResourceType.TOPIC, "hidden", AclOperation.DESCRIBE, AclPermissionType.DENY),
    (ResourceType.TOPIC, "sealed", AclOperation.READ, AclPermissionType.DENY),
    (ResourceType.TOPIC, "plain", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY),
    (ResourceType.GROUP, "secret", AclOperation.DESCRIBE, AclPermissionType.DENY),
    (ResourceType.GROUP, "orderedkafka-reader", AclOperation.DESCRIBE, AclPermissionType.DENY),
]
SECONDS = 5.0


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    with LocalKafka(tmp_path_factory.mktemp("authorized"), properties=AUTHORIZED) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        topics = ["hidden", "sealed", "plain"]
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
            future.result(20)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        for name in topics:
            producer.produce(name, b"x", timestamp=100)
        assert producer.flush(20) == 0
        for future in admin.create_acls([_rule(*each) for each in ALLOWED + DENIED]).values():
            future.result(20)
        yield KafkaConfig({"bootstrap.servers": kafka.bootstrap_servers})


def _rule(kind, name, operation, permission):
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)


def refused(call):
    begun = time.monotonic()
    with pytest.raises(AccessDeniedError) as caught:
        call()
    assert time.monotonic() - begun < SECONDS
    return str(caught.value)


def test_a_topic_that_may_not_be_described_is_named(config):
    said = refused(lambda: discover(config, Named(("plain", "hidden"))))
    assert said.startswith("Kafka refuses the description of topic hidden: ")
    assert said.endswith("the principal needs DESCRIBE (and READ) on the topic")
    assert "hidden" in refused(lambda: high_ends(config, [TopicPartition("hidden", 0)]))


def test_a_pattern_sees_only_what_it_may(config):
    assert set(discover(config, Matching(".*")).ids) == {"sealed", "plain"}


def test_a_topic_that_may_not_be_read_is_named(config):
    p = TopicPartition("sealed", 0)
    log = KafkaLog(config)
    assert log.first_at([p], [50])[0][p].offset == 0
    assert "sealed[0]: " in refused(lambda: log.look({p: Bound(0)}, {p: 1}, 1_000, 10))


@pytest.mark.parametrize(("topic", "said"), [("hidden", "hidden"), ("sealed", r"sealed\[0\]")])
def test_a_query_is_told_what_it_may_not(config, spark, topic, said):
    register(spark)
    frame = spark.read.format("orderedkafka").option("kafka.bootstrap.servers", config["bootstrap.servers"])
    begun = time.monotonic()
    with pytest.raises(PySparkException, match=said):
        frame.option("subscribe", topic).load().collect()
    assert time.monotonic() - begun < 3 * SECONDS


def test_a_group_that_may_not_be_described_is_named(config):
    p = TopicPartition("plain", 0)
    said = refused(lambda: committed(config, "secret", [p]))
    assert said.startswith("Kafka refuses the commits of group 'secret': ")
    assert said.endswith("on the group")
    assert "group 'secret'" in refused(lambda: write_commits(config, "secret", {p: GroupOffset(0, "")}))


def test_reading_needs_no_permission_for_any_group(config):
    p = TopicPartition("plain", 0)
    assert KafkaLog(config).look({p: Bound(0)}, {p: 1}, 1_000, 10)[p].offset == 0


def test_where_the_cleanup_policy_may_not_be_seen_the_topic_counts_as_compacted(config):
    assert discover(config, Named(("plain", "sealed"))).compacted == {"plain"}
