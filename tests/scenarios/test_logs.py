"""Logs as they get: transactions side by side, old data, compaction, the future. Checked against a plain reader.

The oracle reads each partition with a consumer of its own, computes order times by their definition and sorts.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.consumers import close_idle
from support.records import Record
from support.slices import rows

from airflow_provider_orderedkafka.core.order.cuts import Floor, Span
from airflow_provider_orderedkafka.core.order.planning import Planner, split
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.read.slices import fetching, read_slice

BASE = 1_700_000_000_000
FUTURE = 4_000_000_000_000
TOLERANCE = 300_000


@pytest.fixture(autouse=True, scope="module")
def leave_no_consumers():
    yield
    close_idle()


class Log:
    """Some topics on the broker, planned and read by ours, and read by an oracle."""

    def __init__(self, servers, records, *topics) -> None:
        self.config = {"bootstrap.servers": servers}
        self.records = records
        self.topics = topics
        self.log = KafkaLog(self.config)
        self.latest = int(time.time() * 1000) + TOLERANCE

    def span(self, floor=None) -> Span:
        ends = {TopicPartition(t, p): end for t in self.topics for p, end in self.records.ends(t).items()}
        return Span(Offsets(dict.fromkeys(ends, 0)), Offsets(ends), floor or Floor(), self.latest)

    def read(self, slices):
        found = []
        with fetching(slices, ReadSettings(self.config, deadline=20.0)) as batches:
            for slice_ in slices:
                found += rows(read_slice(slice_, batches, resplit=lambda s, each: split(s, self.log, each, "fail")))
        return [(row.order_time, row.topic, row.partition, row.offset) for row in found]

    def oracle(self):
        found, highest = [], {}
        for topic in self.topics:
            for seen in self.records.read(topic):
                place = (topic, seen.partition)
                counts = 0 <= seen.timestamp <= self.latest
                highest[place] = max(highest.get(place, -1), seen.timestamp if counts else -1)
                found.append((highest[place], topic, seen.partition, seen.offset))
        return sorted(found)


@pytest.fixture
def log_of(kafka, records):
    return lambda *topics: Log(kafka.bootstrap_servers, records, *topics)


@pytest.mark.parametrize("each", [40, 700])
def test_four_producers_with_transactions_side_by_side(each, log_of, topics, records):
    topic = topics.create(partitions=3)

    def produce(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(6):
            with records.transaction() as transaction:
                for _ in range(3):
                    now = int(time.time() * 1000)
                    some = [Record(b"x", now - chance.randrange(40), chance.randrange(3)) for _ in range(15)]
                    transaction.produce(topic, some)
                if chance.random() < 0.7:
                    transaction.commit()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(produce, range(4)))
    log = log_of(topic)
    slices = Planner(log.log, log.span()).slices(each, "fail")
    found = log.read(slices)
    assert found == log.oracle()
    assert len(found) > 300
    assert len(slices) > 1


@pytest.mark.parametrize(
    ("size", "indexed"), [pytest.param(60, True, marks=pytest.mark.nightly), (800, False), (1_200, True)]
)
def test_old_data_written_in_transactions_is_read_once_for_an_index_of_our_own_if_its_markers_hide_much(
    size, indexed, log_of, topics, records
):
    topic = topics.create(partitions=2)
    for first in range(0, 2_400, size):
        both = [Record(b"x", BASE + n * 10 + p * 5, p) for n in range(first, first + size) for p in range(2)]
        records.commit(topic, both)
    log = log_of(topic)
    planner = Planner(log.log, log.span())
    slices = planner.slices(600, "fail")
    assert set(planner.index.own) == ({TopicPartition(topic, 0), TopicPartition(topic, 1)} if indexed else set())
    assert max(slice_.offsets for slice_ in slices) < 2 * 600 + 256 * 2
    assert log.read(slices) == log.oracle()
    end = Planner(log.log, log.span()).end(1_234)
    assert end.offsets.since(log.span().start) == 1_234


def test_a_far_future_timestamp_hides_nothing(log_of, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"x", FUTURE, 0)])
    for partition in range(2):
        records.produce(topic, [Record(b"x", BASE + n * 10 + partition, partition) for n in range(2_500)])
    log = log_of(topic)
    planner = Planner(log.log, log.span())
    slices = planner.slices(500, "fail")
    assert set(planner.index.own) == {TopicPartition(topic, 0)}
    assert max(slice_.offsets for slice_ in slices) < 2 * 500 + 256
    assert log.read(slices) == log.oracle()


def test_a_topic_compacted_between_planning_and_reading_is_read_once_and_in_order(log_of, topics, records):
    config = {
        "cleanup.policy": "compact",
        "segment.ms": 100,
        "min.cleanable.dirty.ratio": 0.01,
        "max.compaction.lag.ms": 100,
    }
    topic = topics.create(partitions=2, config=config)
    for partition in range(2):
        keyed = [Record(b"x", BASE + n * 10 + partition, partition, b"k%d" % (n % 40)) for n in range(200)]
        records.produce(topic, keyed)
    log = log_of(topic)
    span = log.span()
    slices = Planner(log.log, span).slices(50, "fail", [topic])
    before = log.read(slices)
    assert before == log.oracle()
    deadline = time.monotonic() + 60
    while len(records.read(topic)) > 300:
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.2)
        for partition in range(2):  # what is in the last segment stays
            records.produce(topic, [Record(b"new", BASE + 9_000, partition, b"last")])
    left = after = None
    while after is None or left != [row for row in log.oracle() if row[3] < 200]:  # the broker goes on with it
        left = [row for row in log.oracle() if row[3] < 200]
        after = log.read(slices)
    assert sorted(row[1:] for row in after) == sorted(row[1:] for row in left)
    assert after == sorted(after)
    assert 80 <= len(after) < len(before)


def test_a_tie_larger_than_a_slice_is_cut_inside(log_of, topics, records):
    topic = topics.create(partitions=4)
    for partition in range(4):
        records.produce(topic, [Record(b"x", BASE + (n > 450), partition) for n in range(500)])
    log = log_of(topic)
    slices = Planner(log.log, log.span()).slices(100, "fail")
    assert log.read(slices) == log.oracle()
    assert max(slice_.offsets for slice_ in slices) <= 200
