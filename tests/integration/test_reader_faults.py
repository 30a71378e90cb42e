"""Reading slices while brokers stop, topics go, and permissions lack: what is waited out, and what is told."""

import os
import re
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError
from support.consumers import close_idle
from support.records import Record, Records
from support.scripted import ScriptedConsumer, event
from support.slices import rows, slice_of, stretch, whole
from support.topics import Topics

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import (
    DataLossError,
    SettingError,
    TopicChangedError,
    UnknownTopicError,
    UnreachableError,
)
from airflow_provider_orderedkafka.kafka.clients import pools
from airflow_provider_orderedkafka.kafka.clients.pools import PooledConsumer, ReadSettings
from airflow_provider_orderedkafka.kafka.lookup.topics import topic_ids
from airflow_provider_orderedkafka.kafka.read.fetching import Fetch
from airflow_provider_orderedkafka.kafka.read.slices import read_slice
from broker import LocalKafka, free_port


@pytest.fixture(autouse=True)
def leave_no_consumers():
    yield
    close_idle()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A cluster that these tests may stop."""
    with LocalKafka(tmp_path_factory.mktemp("own")) as cluster:
        yield cluster


@pytest.fixture
def own_topics(own, request):
    return Topics(own.bootstrap_servers, request.node.name)


@pytest.fixture
def own_records(own):
    return Records(own.bootstrap_servers)


def settings(cluster, **others):
    return ReadSettings({"bootstrap.servers": cluster.bootstrap_servers}, **{"deadline": 30.0, **others})


def kilobytes(count):
    return [Record(bytes(1_000), timestamp=time) for time in range(1, count + 1)]


@pytest.mark.parametrize("how", ["stopped", "paused"])
def test_an_outage_in_the_middle_is_waited_out(own, own_topics, own_records, how):
    (broker,) = own.brokers
    topic = own_topics.create(partitions=2)
    own_records.produce(topic, kilobytes(60_000))
    first = slice_of(stretch(topic, 0, 0, 100))
    assert len(rows(read_slice(first, settings(own)))) == 100
    with ThreadPoolExecutor(1) as other:
        (broker.kill if how == "stopped" else broker.pause)()
        reading = other.submit(lambda: rows(read_slice(whole(topic, {0: 60_000}), settings(own))))
        time.sleep(3)
        assert not reading.done()
        (broker.start if how == "stopped" else broker.resume)()
        found = reading.result(40)
    assert [row.offset for row in found] == list(range(60_000))


def test_an_outage_longer_than_the_deadline_is_an_error_that_names_what_was_waited_for(own, own_topics, own_records):
    (broker,) = own.brokers
    topic = own_topics.create()
    own_records.produce(topic, kilobytes(100))
    assert len(rows(read_slice(whole(topic, {0: 50}), settings(own)))) == 50
    broker.kill()
    try:
        with pytest.raises(UnreachableError, match=rf"{topic}\[0\]@50"):
            list(read_slice(whole(topic, {0: 100}, {0: 50}), settings(own, deadline=3.0)))
    finally:
        broker.start()


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError._PARTITION_EOF])
def test_a_broker_that_repeats_one_event_for_ever_runs_into_the_deadline(own, own_topics, code):
    partition = TopicPartition(own_topics.create(), 0)
    repeating = PooledConsumer(ScriptedConsumer(at_last=[event(code, 0, partition)]), deque())
    slice_ = whole(partition.topic, {0: 3})
    with pytest.raises(UnreachableError, match=re.escape(partition.at(0))):
        Fetch(slice_, settings(own, deadline=0.2), repeating).run(slice_)


def test_a_cluster_that_is_not_there_is_named_by_what_was_waited_for():
    nowhere = ReadSettings({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, deadline=2.0)
    with pytest.raises(UnreachableError, match=r"orders\[3\]@17: .*refused"):
        list(read_slice(slice_of(stretch("orders", 3, 17, 20)), nowhere))


def test_a_topic_that_is_gone_is_told_long_before_the_deadline(own, own_topics, own_records):
    topic = own_topics.create()
    own_records.produce(topic, kilobytes(10))
    assert len(rows(read_slice(whole(topic, {0: 10}), settings(own)))) == 10
    own_topics.delete(topic)
    begun = time.monotonic()
    with pytest.raises(UnknownTopicError) as caught:
        list(read_slice(whole(topic, {0: 10}), settings(own, deadline=60.0)))
    assert caught.value.topic == topic
    assert time.monotonic() - begun < 30.0


def test_a_partition_that_does_not_exist_is_told_long_before_the_deadline(own, own_topics):
    topic = own_topics.create(partitions=2)
    begun = time.monotonic()
    with pytest.raises(UnknownTopicError) as caught:
        list(read_slice(slice_of(stretch(topic, 5, 0, 10)), settings(own, deadline=60.0)))
    assert (caught.value.topic, caught.value.partition) == (topic, 5)
    assert time.monotonic() - begun < 30.0


def test_a_topic_that_was_created_again_is_told_by_its_id(own, own_topics, own_records):
    topic = own_topics.create()
    own_records.produce(topic, kilobytes(10))
    planned = settings(own, topic_ids=topic_ids({"bootstrap.servers": own.bootstrap_servers}, [topic]))
    assert len(rows(read_slice(whole(topic, {0: 10}), planned))) == 10
    own_topics.recreate(topic)
    own_records.produce(topic, kilobytes(10))
    with pytest.raises(TopicChangedError) as caught:
        list(read_slice(whole(topic, {0: 10}), planned))
    assert caught.value.topic == topic


def test_a_topic_that_was_created_again_and_is_shorter_is_no_mere_loss(own, own_topics, own_records):
    topic = own_topics.create()
    planned = settings(own, topic_ids=topic_ids({"bootstrap.servers": own.bootstrap_servers}, [topic]))
    own_topics.recreate(topic)
    own_records.produce(topic, kilobytes(3))
    with pytest.raises(TopicChangedError) as caught:
        list(read_slice(whole(topic, {0: 10}, {0: 7}), planned))
    assert caught.value.topic == topic


@pytest.fixture
def overwrite(tmp_path_factory):
    """Put other bytes in the place of those in a topic's log, on the broker's disk."""

    def overwrite(topic, was, now):
        assert len(was) == len(now)
        (segment,) = tmp_path_factory.getbasetemp().rglob(f"{topic}-0/*.log")
        with segment.open("r+b") as log:
            log.seek(log.read().index(was))
            log.write(now)

    return overwrite


def test_a_record_that_was_damaged_on_the_broker_s_disk_is_an_error_that_names_it(
    own, own_topics, own_records, overwrite
):
    topic = own_topics.create()
    own_records.produce(topic, [Record(b"as it was written", timestamp=1)])
    overwrite(topic, b"as it was", b"as it is!")
    with pytest.raises(DataLossError, match="CRC32C") as caught:
        list(read_slice(whole(topic, {0: 1}), settings(own)))
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 0, 0)


def test_a_header_whose_name_is_not_utf_8_comes_by_another_name_and_holds_nothing_up(
    own, own_topics, own_records, overwrite
):
    topic = own_topics.create()
    latin = [("a", b"1"), ("<<<", b"2"), ("b", None), ("###", None), ("c", b"3")]
    written = [Record(b"%d" % n, timestamp=n, headers=latin if n == 2 else [("h", b"x")]) for n in (1, 2, 3)]
    own_records.produce(topic, written)
    overwrite(topic, b"<<<", b"\xfcb\xff")
    overwrite(topic, b"###", b"\xe9\xe9\xe9")
    config = {"bootstrap.servers": own.bootstrap_servers, "check.crcs": "false"}  # they are of what was written
    (batch,) = read_slice(whole(topic, {0: 3}), ReadSettings(config, include_headers=True))
    assert [[(h["key"], h["value"]) for h in headers] for headers in batch.column("headers").to_pylist()] == [
        [("h", b"x")],
        [("a", b"1"), ("\ufffd", b"2"), ("b", None), ("\ufffd", None), ("c", b"3")],
        [("h", b"x")],
    ]


def test_a_configuration_that_the_client_refuses_is_a_setting_error(own):
    wrong = ReadSettings({"bootstrap.servers": own.bootstrap_servers, "fetch.wait.max.ms": "many"})
    with pytest.raises(SettingError, match=r"fetch\.wait\.max\.ms"):
        list(read_slice(slice_of(stretch("orders", 0, 0, 1)), wrong))


def test_a_consumer_is_kept_from_slice_to_slice_and_a_child_makes_its_own(own, own_topics, own_records, monkeypatch):
    topic = own_topics.create()
    own_records.produce(topic, kilobytes(30))
    made = []
    real = pools._make
    monkeypatch.setattr(pools, "_make", lambda config: made.append(os.getpid()) or real(config))
    slices = [whole(topic, {0: end}, {0: end - 10}) for end in (10, 20, 30)]
    for slice_ in slices:
        assert len(rows(read_slice(slice_, settings(own)))) == 10
    assert made == [os.getpid()]
    child = os.fork()
    if child == 0:
        found = rows(read_slice(slices[1], settings(own)))
        os._exit(len(found) + 100 * (made[1:] == [os.getpid()]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 110


def test_a_reader_that_is_left_in_the_middle_leaves_nothing_behind(own, own_topics, own_records):
    topic = own_topics.create()
    own_records.produce(topic, kilobytes(5_000))
    left = read_slice(whole(topic, {0: 5_000}), settings(own))
    next(left)
    left.close()
    found = rows(read_slice(whole(topic, {0: 20}, {0: 10}), settings(own)))
    assert [row.offset for row in found] == list(range(10, 20))
