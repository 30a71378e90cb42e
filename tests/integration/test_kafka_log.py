"""What the log of a real broker shows to a planner: looks and scans."""

import subprocess
import sys
import textwrap
import threading
import time

import pytest
from support.messages import says
from support.ranges import whole_range
from support.records import Record

from airflow_provider_orderedkafka.core.order.cuts import Bound
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Sighting
from airflow_provider_orderedkafka.errors import UnknownTopicError, UnreachableError
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.read.slices import average_bytes

LATEST = 1_800_000_000_000
PATIENCE = 1_000


@pytest.fixture
def log(config):
    return KafkaLog(config, deadline=10.0)


def look(log, partition, bound, limit, patience=PATIENCE):
    return log.look({partition: bound}, {partition: limit}, LATEST, patience)[partition]


def test_a_look_passes_what_no_reader_sees(log, config, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.abort(p.topic, [Record(b"", timestamp=500)] * 3)  # 0 to 2, marker at 3
    records.commit(p.topic, [Record(b"", timestamp=100), Record(b"", timestamp=600)])  # 4 and 5, marker at 6
    assert look(log, p, Bound(0, 400), 7) == Sighting(5, 600, 1)
    assert look(log, p, Bound(0), 7) == Sighting(4, 100, 0)
    assert look(KafkaLog(config, "read_uncommitted"), p, Bound(0, 400), 7) == Sighting(0, 500, 0)


@pytest.mark.parametrize("limit", [4, 6, 7])
def test_a_look_that_finds_nothing_ends_on_a_marker_and_among_aborted_records(log, topics, records, limit):
    p = TopicPartition(topics.create(), 0)
    records.commit(p.topic, [Record(b"", timestamp=100)])  # 0, marker at 1
    records.abort(p.topic, [Record(b"", timestamp=500)] * 4)  # 2 to 5, marker at 6
    assert look(log, p, Bound(0, 400), limit) == Sighting(None, -1, 1)


def test_many_partitions_are_looked_at_at_once_each_to_its_own_limit(log, topics, records):
    topic = topics.create(partitions=20)
    records.produce(topic, [Record(b"x" * 2_000, timestamp=100 + n, partition=p) for p in range(19) for n in range(50)])
    bounds = {TopicPartition(topic, p): Bound(p, 130) for p in range(20)}
    limits = {TopicPartition(topic, p): 10 + 2 * p for p in range(19)} | {TopicPartition(topic, 19): 0}
    seen = log.look(bounds, limits, LATEST, PATIENCE)
    assert seen == {
        TopicPartition(topic, p): Sighting(30, 130, 30 - p)
        if limits[TopicPartition(topic, p)] > 30
        else Sighting(None, -1, max(limits[TopicPartition(topic, p)] - p, 0))
        for p in range(20)
    }


def test_a_look_gives_up_after_so_many_older_records(log, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=100 + n) for n in range(50)])
    assert look(log, p, Bound(10, 140), 50, patience=30) == Sighting(40, 140, 30)
    assert look(log, p, Bound(10, 141), 50, patience=30) == Sighting(40, 140, 31, gave_up=True)


def test_a_timestamp_of_the_future_satisfies_no_time(log, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=t) for t in (LATEST + 1, 100, LATEST)])
    assert look(log, p, Bound(0, 50), 3) == Sighting(1, 100, 1)
    assert look(log, p, Bound(0, 200), 3) == Sighting(2, LATEST, 2)


def test_where_retention_took_the_bound_a_look_and_a_scan_begin_at_the_log_s_start(log, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=100 + n) for n in range(10)])
    records.delete_before(p.topic, {0: 6})
    assert look(log, p, Bound(2, 50), 10) == Sighting(6, 106, 0)
    assert look(log, p, Bound(2, 50), 5) == Sighting(None, -1, 0)
    assert [offset for offset, _ in log.scan(p, 2, 9)] == [6, 7, 8]


def test_a_log_that_ends_before_the_limit_is_waited_for(log, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=100)])
    later = threading.Timer(1.0, records.produce, [p.topic, [Record(b"", timestamp=200)]])
    later.start()
    assert look(log, p, Bound(0, 150), 2) == Sighting(1, 200, 1)
    later.join()


def test_a_log_that_never_gets_to_the_limit_is_an_error_with_both_positions(config, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=100)])
    log = KafkaLog(config, deadline=4.0)
    begun = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        look(log, p, Bound(0, 150), 2)
    assert time.monotonic() - begun < 10.0
    assert says(str(caught.value), f"{p}@1 ... {p}@1, ... {p}@2")
    with pytest.raises(UnreachableError):
        list(log.scan(p, 0, 2))


def test_an_open_transaction_hides_what_lies_behind_it(config, log, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=100)])
    with records.transaction() as open_:
        open_.produce(p.topic, [Record(b"", timestamp=200)])
        assert look(log, p, Bound(0, 150), 1) == Sighting(None, -1, 1)
        assert look(KafkaLog(config, "read_uncommitted"), p, Bound(0, 150), 2) == Sighting(1, 200, 1)


def test_a_scan_gives_each_visible_record_once_and_stops_before_its_end(log, config, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=100 + n) for n in range(5)])
    records.abort(p.topic, [Record(b"", timestamp=1)] * 2)  # 5 and 6, marker at 7
    records.commit(p.topic, [Record(b"", timestamp=200)])  # 8, marker at 9
    assert list(log.scan(p, 1, 10)) == [(1, 101), (2, 102), (3, 103), (4, 104), (8, 200)]
    assert list(log.scan(p, 1, 3)) == [(1, 101), (2, 102)]
    assert list(log.scan(p, 3, 3)) == []
    uncommitted = KafkaLog(config, "read_uncommitted").scan(p, 4, 8)
    assert list(uncommitted) == [(4, 104), (5, 1), (6, 1)]


def test_a_scan_that_is_not_finished_leaves_nothing_behind(log, topics, records):
    p = TopicPartition(topics.create(), 0)
    records.produce(p.topic, [Record(b"", timestamp=100 + n) for n in range(5_000)])
    scan = log.scan(p, 0, 5_000)
    assert next(scan) == (0, 100)
    scan.close()
    assert len(list(log.scan(p, 0, 5_000))) == 5_000


def test_two_looks_at_once_do_not_disturb_each_other(log, topics, records):
    topic = topics.create(partitions=8)
    records.produce(topic, [Record(b"", timestamp=100 + n, partition=p) for p in range(8) for n in range(100)])
    seen = {}

    def one(partition):
        seen[partition] = look(log, partition, Bound(0, 100 + 10 * partition.partition), 100)

    threads = [threading.Thread(target=one, args=[TopicPartition(topic, p)]) for p in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {p.partition: sighting.offset for p, sighting in seen.items()} == {p: 10 * p for p in range(8)}


def test_a_partition_that_does_not_exist_is_named(config, topics):
    p = TopicPartition(topics.create(), 1)
    begun = time.monotonic()
    with pytest.raises(UnknownTopicError) as caught:
        look(KafkaLog(config, deadline=2.0), p, Bound(0), 1)
    assert (caught.value.topic, caught.value.partition) == p
    assert time.monotonic() - begun < 8.0


def test_a_forked_process_asks_by_clients_of_its_own(config, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"", timestamp=100 + n) for n in range(50)])
    script = f"""
        import os, sys, time
        from airflow_provider_orderedkafka.core.order.positions import TopicPartition
        from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
        from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
        from airflow_provider_orderedkafka.kafka.lookup.topics import high_ends

        config, p = KafkaConfig({dict(config)!r}), TopicPartition({topic!r}, 0)

        def ask():
            return (high_ends(config, [p])[p], len(list(KafkaLog(config).scan(p, 0, 50))))

        assert ask() == (50, 50)
        time.sleep(0.5)  # a fork amid a client's getaddrinfo leaves glibc's lock for that held for ever in the child
        child = os.fork()
        if not child:
            os._exit(0 if ask() == (50, 50) else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script)],  # 3.12 warns of any fork
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_about_how_many_bytes_an_offset_has_is_known_by_a_sample(config, topics, records):
    topic, empty = topics.create("a", 2), topics.create("b")
    records.produce(topic, [Record(b"x" * 1_000, number + 1, number % 2, b"key") for number in range(5_000)])
    average = average_bytes(whole_range(config.servers, topic).span, ReadSettings(config))
    assert average is not None
    assert 1_003 <= average < 1_100
    assert average_bytes(whole_range(config.servers, empty).span, ReadSettings(config)) is None
