"""Outputs that may have been compacted, for all that is known: what may be gone from them is found by looking."""

import json
import time
from functools import partial

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from support.applications import Application
from support.ranges import whole_range
from support.records import Record
from support.secured import let

from airflow_provider_orderedkafka.errors import StateError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings
from airflow_provider_orderedkafka.kafka.write.writing import plan_write
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint

USER = "loader"
COMPACTED = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01}
NOW = int(time.time() * 1_000)
KEYS = 100
TWO_OF_EACH_KEY = [
    Record(value, NOW - before + number, 0, b"k%d" % number)
    for value, before in ((b"old", 10_000), (b"new", 5_000))
    for number in range(KEYS)
]
FRAMES = ("--transform", "support.transforms:unchanged", "--sink-option", "writers=2")


@pytest.fixture
def allow(topics):
    return lambda *names, also=(): let(topics.admin, USER, {ResourceType.TOPIC: ["READ", "WRITE", *also]}, *names)


@pytest.fixture
def config(kafka, monkeypatch):
    config = KafkaConfig.from_connection(kafka.secured_config("USERS", USER))
    options = {f"kafka.{name}": value for name, value in config.items()}
    monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", json.dumps(options))
    return config


@pytest.fixture
def app(config, spark, tmp_path):
    return Application(config.servers, tmp_path)


@pytest.fixture
def written(kafka, app, monkeypatch):
    """Loads a topic but for the end: all has landed, and the attempt dies before it counts. Gives the next attempt."""

    def until_it_counts(source, *argv):
        loaded = whole_range(kafka.bootstrap_servers, source)

        def die(*_):
            raise StateError("it dies before it counts")

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "put_counts", die)
            with pytest.raises(SystemExit):
                app.load(loaded, *argv)
        return partial(app.load, loaded, *argv)

    return until_it_counts


def compact(records, output):
    """Roll the output's segments until all but the last record of each key is gone."""
    until = time.monotonic() + 60
    for number in range(1, 1_000):
        records.produce(output, [Record(b"", NOW + 10_000 * number, 0, b"roll-%d" % number)])
        if len([seen for seen in records.read(output) if seen.key.startswith(b"k")]) == KEYS:
            return
        assert time.monotonic() < until, "it was not compacted"
        time.sleep(0.5)


def last_values(records, output):
    return {seen.key: seen.value for seen in records.read(output) if seen.key.startswith(b"k")}


def test_what_landed_is_left_out_as_long_as_each_offset_has_its_record(topics, records, allow, written):
    source, output = topics.create("a"), topics.create("out")
    allow(source, output)
    records.produce(source, TWO_OF_EACH_KEY)
    next_attempt = written(source, "--output-topic", output)
    records.produce(output, [Record(b"of another")])
    report = next_attempt()
    assert len(records.read(output)) == 2 * KEYS + 1
    assert (report.replayed, report.may_be_doubled, report.may_be_out_of_order) == (2 * KEYS, 0, 0)


@pytest.mark.parametrize("compacted_now", [True, False], ids=["all the time", "when it was begun"])
def test_a_batch_is_sent_again_whole_and_counted_where_records_may_have_been_compacted_away(
    topics, records, allow, written, compacted_now
):
    source, output = topics.create("a"), topics.create("out", config=COMPACTED)
    allow(source, output, also=[] if compacted_now else ["DESCRIBE_CONFIGS"])
    records.produce(source, TWO_OF_EACH_KEY)
    next_attempt = written(source, "--output-topic", output, *FRAMES)
    compact(records, output)
    if not compacted_now:
        entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, output, incremental_configs=[entry])
        topics.admin.incremental_alter_configs([resource])[resource].result(20)
    report = next_attempt()
    assert set(last_values(records, output).values()) == {b"new"}
    assert report.replayed == 0
    assert report.may_be_doubled >= 2 * KEYS
    assert report.may_be_out_of_order == 2 * KEYS


@pytest.mark.parametrize("may_ask", [False, True], ids=["without DESCRIBE_CONFIGS", "with it"])
def test_a_marker_of_a_transaction_may_be_a_record_that_was_compacted_away(topics, records, allow, written, may_ask):
    source, output = topics.create("a"), topics.create("out")
    allow(source, output, also=["DESCRIBE_CONFIGS"] if may_ask else [])
    records.produce(source, TWO_OF_EACH_KEY)
    next_attempt = written(source, "--output-topic", output)
    records.commit(output, [Record(b"of another")])
    report = next_attempt()
    assert (report.replayed, report.may_be_doubled) == ((2 * KEYS, 0) if may_ask else (0, 2 * KEYS + 2))
    assert len(records.read(output)) == 1 + (2 * KEYS if may_ask else 4 * KEYS)


def test_a_row_that_is_larger_than_kafkas_default_is_refused_with_the_way_out(topics, records, allow, app, kafka):
    source, output, dead = topics.create("a"), topics.create("out"), topics.create("dead")
    allow(source, output, dead)
    records.produce(source, [Record(b"x" * 2**21, NOW, 0, b"k")])
    loaded = whole_range(kafka.bootstrap_servers, source)
    report = app.load(loaded, "--output-topic", output, "--bad-records", "1000", "--dead-letters", dead)
    [letter] = records.read(dead)
    assert b"DESCRIBE_CONFIGS" in dict(letter.headers)["orderedkafka.error"]
    assert (report.rows_emitted, report.dead_letters) == (0, 1)


def test_a_topic_of_dead_letters_that_may_be_compacted_is_warned_of(topics, allow, config, caplog):
    output, dead = topics.create("out"), topics.create("dead", config=COMPACTED)
    allow(output, dead)
    plan_write(WriteSettings(config, topic=output, dead_letter_topic=dead), [("value", "binary")])
    assert f"{dead!r}" in caplog.text
