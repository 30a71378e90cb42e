"""The tests' own tools, on the real broker: a helper that lies would make every other test lie."""

import pytest
from support.records import Record


def test_records_come_back_with_partition_timestamp_key_and_headers(topics, records):
    topic = topics.create(partitions=2)
    offsets = records.produce(
        topic,
        [
            Record(b"a", timestamp=1_000, key=b"k", headers=[("h", b"1"), ("h", None)]),
            Record(b"b", timestamp=500, partition=1),
            Record(None, timestamp=2_000, key=b"k"),
        ],
    )
    assert offsets == [0, 0, 1]
    seen = records.read(topic)
    assert [(s.partition, s.offset, s.timestamp, s.key, s.value) for s in seen] == [
        (0, 0, 1_000, b"k", b"a"),
        (0, 1, 2_000, b"k", None),
        (1, 0, 500, None, b"b"),
    ]
    assert seen[0].headers == [("h", b"1"), ("h", None)]


def test_aborted_records_keep_their_offsets_and_are_seen_only_by_uncommitted_readers(topics, records):
    topic = topics.create()
    records.commit(topic, [Record(b"a", timestamp=1)])
    records.abort(topic, [Record(b"x", timestamp=2)])
    records.commit(topic, [Record(b"b", timestamp=3)])
    assert [(s.offset, s.value) for s in records.read(topic)] == [(0, b"a"), (4, b"b")]
    assert [s.value for s in records.read(topic, "read_uncommitted")] == [b"a", b"x", b"b"]
    assert records.ends(topic) == {0: 6}


def test_an_open_transaction_holds_back_the_last_stable_offset(topics, records):
    topic = topics.create()
    with records.transaction() as transaction:
        assert transaction.produce(topic, [Record(b"x", timestamp=1)]) == [0]
        records.produce(topic, [Record(b"a", timestamp=2)])
        assert records.ends(topic) == {0: 0}
        assert records.ends(topic, "read_uncommitted") == {0: 2}
        assert records.read(topic) == []
    assert [s.value for s in records.read(topic)] == [b"a"]


def test_deleted_records_are_gone(topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"%d" % n, timestamp=n + 1) for n in range(10)])
    records.delete_before(topic, {0: 7})
    assert records.starts(topic) == {0: 7}
    assert [s.value for s in records.read(topic)] == [b"7", b"8", b"9"]


def test_a_topic_can_grow_and_can_be_made_again_under_another_id(topics, records):
    topic = topics.create()
    topics.grow(topic, 3)
    records.produce(topic, [Record(b"a", timestamp=1, partition=2)])
    assert records.ends(topic) == {0: 0, 1: 0, 2: 1}
    topics.recreate(topic, partitions=1)
    assert records.ends(topic) == {0: 0}


def test_a_timestamp_that_librdkafka_would_replace_is_refused():
    with pytest.raises(ValueError, match="timestamp 0"):
        Record(b"a", timestamp=0)


def test_spark_runs_python_workers_with_this_interpreter(spark):
    assert [row.n for row in spark.range(3).selectExpr("id + 1 AS n").collect()] == [1, 2, 3]
    import sys

    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]
