"""Reading slices from a real broker."""

import pytest
from support.records import Record
from support.slices import rows, whole

from airflow_provider_orderedkafka.kafka.consumers import close_idle
from airflow_provider_orderedkafka.kafka.reader import read_slice
from airflow_provider_orderedkafka.kafka.reading import ReadSettings, ReadTally


@pytest.fixture(autouse=True, scope="module")
def leave_no_consumers():
    yield
    close_idle()


def settings(kafka, **others):
    return ReadSettings(kafka={"bootstrap.servers": kafka.bootstrap_servers}, **others)


def test_partitions_come_out_merged_by_order_time(kafka, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"%d" % t, timestamp=t, partition=t % 2) for t in [10, 11, 14, 9, 12, 13, 20]])
    tally = ReadTally()
    read = rows(read_slice(whole(topic, records.ends(topic)), settings(kafka), tally))
    assert [(r.order_time, r.timestamp, r.partition, r.offset, r.late) for r in read] == [
        (10, 10, 0, 0, False),
        (11, 11, 1, 0, False),
        (11, 9, 1, 1, True),
        (13, 13, 1, 2, False),
        (14, 14, 0, 1, False),
        (14, 12, 0, 2, True),
        (20, 20, 0, 3, False),
    ]
    assert tally == ReadTally(records=7, bytes=13, late=2, fetched=7)
