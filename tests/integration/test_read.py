"""The source as a batch: columns, options, what narrow transformations keep, and what bad input is told."""

import gc
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from support.messages import naming
from support.records import Record
from support.slices import whole
from support.spark import since

from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.spark import register
from airflow_provider_orderedkafka.spark.connector.reading import read_batches

pytestmark = since(4, 0)

BASE = 1_700_000_000_000
SECONDS_FOR_AN_ERROR = 25


@pytest.fixture
def read(spark, kafka):
    register(spark)

    def reading(**options):
        given = {"kafka.bootstrap.servers": kafka.bootstrap_servers} | options
        return spark.read.format("orderedkafka").options(**given).load()

    return reading


@pytest.fixture
def read_columns(spark, kafka):
    register(spark)

    def reading(columns, **options):
        given = {"kafka.bootstrap.servers": kafka.bootstrap_servers} | options
        return spark.read.schema(columns).format("orderedkafka").options(**given).load()

    return reading


@pytest.fixture
def late_records(topics, records):
    """A topic of two partitions with 40 records, every third of them late."""
    topic = topics.create(partitions=2)
    for partition in range(2):
        times = [BASE + 10 * n + partition - (25 if n % 3 == 2 else 0) for n in range(20)]
        records.produce(topic, [Record(b"%d" % n, t, partition, b"k%d" % (n % 5)) for n, t in enumerate(times)])
    return topic


@pytest.mark.versions
def test_columns_and_types_are_those_of_sparks_own_source_and_two_more(read, late_records):
    assert read(subscribe=late_records).dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("order_time", "timestamp"),
        ("late", "boolean"),
    ]


def test_headers_come_when_they_are_asked_for(read, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"v", BASE, 0, None, [("a", b"1"), ("b", None)]), Record(None, BASE, 0, b"k")])
    rows = read(subscribe=topic, includeHeaders="true").collect()
    assert [[tuple(header) for header in row.headers or []] for row in rows] == [[("a", b"1"), ("b", None)], []]
    assert [(row.key, row.value) for row in rows] == [(None, b"v"), (b"k", None)]


def test_a_schema_asks_for_some_columns_in_an_order_of_its_own(read, read_columns, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(b"%d" % n, BASE + n, 0, b"k", [("a", b"1")]) for n in range(3)])
    asked = read_columns(
        "late boolean, headers array<struct<key: string, value: binary>>, value binary", subscribe=topic
    )
    whole = read(subscribe=topic, includeHeaders="true")
    with pytest.raises(PySparkException, match="'includeHeaders'"):
        asked.collect()
    asked = read_columns(asked.schema, subscribe=topic, includeHeaders="true")
    assert asked.collect() == whole.select("late", "headers", "value").collect()
    assert read_columns("offset long", subscribe=topic).count() == 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [("valeu binary", "'valeu' ... 'value'"), ("value string", "'string', ... 'binary'"), ("x int", "'x' ... key")],
)
def test_a_schema_that_does_not_fit_is_told_by_name(read_columns, late_records, columns, said):
    with pytest.raises(PySparkException, match=naming(said)):
        read_columns(columns, subscribe=late_records).collect()


@pytest.mark.versions
def test_spark_partition_i_is_slice_i_and_narrow_transformations_keep_the_order(read, late_records):
    frame = read(subscribe=late_records, sliceOffsets=7)
    kept = (
        frame.where("cast(cast(value AS string) AS int) % 4 != 1")
        .select("order_time", "topic", "partition", "offset", f.explode(f.array(f.lit(1), f.lit(2))).alias("copy"))
        .withColumn("slice", f.spark_partition_id())
        .withColumn("number", f.monotonically_increasing_id())
    )
    mapped = kept.mapInArrow(lambda batches: batches, kept.schema)
    rows = [tuple(row) for row in mapped.collect()]
    assert len(rows) == 2 * 30
    assert [row[:5] for row in rows] == sorted(row[:5] for row in rows)
    assert [row[5] for row in rows] == sorted(row[5] for row in rows)
    assert [row[6] for row in rows] == sorted(row[6] for row in rows)
    assert len({row[5] for row in rows}) > 3


def test_late_records_are_flagged_and_have_the_order_time_of_the_one_before(read, late_records):
    rows = read(subscribe=late_records).collect()
    late = [row for row in rows if row.late]
    assert len(late) == 12
    assert all(row.timestamp < row.order_time for row in late)
    assert all(row.timestamp == row.order_time for row in rows if not row.late)


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({"startingOffsets": '{"TOPIC": [18, 19]}'}, [(0, 18), (0, 19), (1, 19)]),
        ({"startingOffsets": '{"TOPIC": {"0": -1, "1": 18}}'}, [(1, 18), (1, 19)]),
        ({"endingOffsets": '{"TOPIC": [1, 2]}'}, [(0, 0), (1, 0), (1, 1)]),
        ({"startingTimestamp": str(BASE + 180)}, [(0, 18), (1, 18), (0, 19), (1, 19)]),
        ({"endingTimestamp": str(BASE + 11)}, [(0, 0), (1, 0), (0, 1), (0, 2)]),
        ({"assign": '{"TOPIC": [1]}', "endingTimestamp": str(BASE + 11)}, [(1, 0)]),
    ],
)
def test_where_reading_starts_and_ends(options, offsets, read, late_records):
    given = {name: value.replace("TOPIC", late_records) for name, value in options.items()}
    rows = read(**({} if "assign" in given else {"subscribe": late_records}), **given).collect()
    assert [(row.partition, row.offset) for row in rows] == offsets


def test_a_topic_with_log_append_time_is_in_the_order_it_was_appended(read, topics, records):
    topic = topics.create(partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    records.produce(topic, [Record(b"%d" % n, BASE - n, 0) for n in range(5)])
    rows = read(subscribe=topic).collect()
    assert [row.value for row in rows] == [b"0", b"1", b"2", b"3", b"4"]
    assert {row.timestampType for row in rows} == {1}
    assert not any(row.late for row in rows)


BAD = {
    "an unknown topic": ({"subscribe": "no-such-topic"}, "no-such-topic"),
    "a pattern without match": ({"subscribePattern": "nothing-like-this.*"}, "nothing-like-this.*"),
    "a partition that does not exist": ({"assign": '{"TOPIC": [7]}'}, r"TOPIC\[7\]"),
    "a start beyond the end": ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC": [99, 0]}'}, r"TOPIC\[0\]@99"),
    "an end before the start": (
        {"subscribe": "TOPIC", "startingOffsets": '{"TOPIC": [5, 5]}', "endingOffsets": '{"TOPIC": [4, 9]}'},
        r"TOPIC\[0\]@4",
    ),
    "an end that leaves a partition out": (
        {"subscribe": "TOPIC", "endingOffsets": '{"TOPIC": [4]}'},
        r"the end names no offset for TOPIC\[1\]",
    ),
    "malformed JSON": ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC": [1'}, "startingOffsets.*JSON"),
    "an unknown option": ({"subscribe": "TOPIC", "startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
    "a stream's option": ({"subscribe": "TOPIC", "maxOffsetsPerTrigger": "4"}, "is for streams"),
    "two subscriptions": ({"subscribe": "TOPIC", "subscribePattern": "a"}, "exactly one of"),
    "no subscription": ({}, "exactly one of"),
    "an unreachable broker": ({"subscribe": "TOPIC", "kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_by_name_within_seconds(case, read, late_records):
    options, message = BAD[case]
    begun = time.monotonic()
    with pytest.raises(PySparkException, match=message.replace("TOPIC", late_records)):
        read(**{name: value.replace("TOPIC", late_records) for name, value in options.items()}).collect()
    assert time.monotonic() - begun < SECONDS_FOR_AN_ERROR


@pytest.mark.parametrize("limit", [17, 1_000])
def test_a_row_limit_lets_the_first_rows_in_order_pass(read, late_records, limit):
    rows = read(subscribe=late_records, sliceOffsets=6).collect()
    assert read(subscribe=late_records, sliceOffsets=6, rowLimit=limit).collect() == rows[:limit]


def test_what_a_worker_has_imported_is_no_longer_searched_for_garbage_and_what_others_have_is(
    spark, config, late_records, records
):
    slice_, settings = whole(late_records, records.ends(late_records)), ReadSettings(config)

    def reading(_):
        return sum(batch.num_rows for batch in read_batches(slice_, settings)), gc.get_freeze_count() > 0

    before = gc.get_freeze_count()
    assert reading(0)[0] == 40
    assert gc.get_freeze_count() == before
    assert spark.sparkContext.parallelize([0], 1).map(reading).collect() == [(40, True)]
