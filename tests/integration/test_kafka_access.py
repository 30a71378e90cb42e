"""What a principal without permission is told: which topic, which operation, at once."""

import time

import pytest
from confluent_kafka.admin import ResourceType
from pyspark.errors import PySparkException
from support.records import Record, Records
from support.secured import let
from support.slices import whole
from support.topics import Topics

from airflow_provider_orderedkafka.core.notation.subscriptions import Matching, Named
from airflow_provider_orderedkafka.core.order.cuts import Bound
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import AccessDeniedError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.topics import GroupOffset, committed, discover, high_ends, write_commits
from airflow_provider_orderedkafka.kafka.read.slices import read_slice
from airflow_provider_orderedkafka.spark import register

MAY = {
    "sealed": {ResourceType.TOPIC: ["DESCRIBE", "DESCRIBE_CONFIGS"]},
    "plain": {ResourceType.TOPIC: ["READ"]},
    "described": {ResourceType.GROUP: ["DESCRIBE"]},
}
"""What a guest may do with topics and groups; with others, nothing."""

SECONDS = 5.0


@pytest.fixture(scope="module")
def config(kafka):
    topics, records = Topics(kafka.bootstrap_servers, "access"), Records(kafka.bootstrap_servers)
    for name in ("hidden", "sealed", "plain"):
        topics.create_named(name)
        records.produce(name, [Record(b"x", timestamp=100)])
    for name, needs in MAY.items():
        let(topics.admin, "guest", needs, name)
    return KafkaConfig.from_connection(kafka.secured_config("USERS", "guest"))


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
    assert set(discover(config, Matching("hidden|plain|sealed")).ids) == {"sealed", "plain"}


def test_a_topic_that_may_not_be_read_is_named(config):
    p = TopicPartition("sealed", 0)
    log = KafkaLog(config)
    assert log.first_at([p], [50])[0][p].offset == 0
    said = refused(lambda: log.look({p: Bound(0)}, {p: 1}, 1_000, 10))
    assert said.startswith("Kafka refuses to give sealed[0]: ")
    assert said.endswith("the principal needs DESCRIBE (and READ) on the topic")
    assert "sealed[0]" in refused(lambda: list(read_slice(whole("sealed", {0: 1}), ReadSettings(config))))


@pytest.mark.parametrize(("topic", "said"), [("hidden", "hidden"), ("sealed", r"sealed\[0\]")])
def test_a_query_is_told_what_it_may_not(config, spark, topic, said):
    register(spark)
    frame = spark.read.format("orderedkafka").options(**{f"kafka.{name}": value for name, value in config.items()})
    begun = time.monotonic()
    with pytest.raises(PySparkException, match=said):
        frame.option("subscribe", topic).load().collect()
    assert time.monotonic() - begun < 3 * SECONDS


def test_a_group_that_may_not_be_described_is_named(config):
    said = refused(lambda: committed(config, "secret", [TopicPartition("plain", 0)]))
    assert said.startswith("Kafka refuses the commits of group 'secret': ")
    assert said.endswith("the principal needs DESCRIBE (and READ) on the group")


def test_a_group_that_may_be_described_is_not_committed(config):
    p = TopicPartition("plain", 0)
    assert committed(config, "described", [p]) == {}
    said = refused(lambda: write_commits(config, "described", {p: GroupOffset(0, "")}))
    assert said.startswith("Kafka refuses a commit of group 'described': ")
    assert said.endswith("the principal needs DESCRIBE (and READ) on the group")


def test_reading_needs_no_permission_for_any_group(config):
    p = TopicPartition("plain", 0)
    assert KafkaLog(config).look({p: Bound(0)}, {p: 1}, 1_000, 10)[p].offset == 0


def test_where_the_cleanup_policy_may_not_be_seen_the_topic_counts_as_compacted(config):
    assert discover(config, Named(("plain", "sealed"))).compacted == {"plain"}
