"""The sink under a real Spark, on a real broker; the output is read by a reader that shares no code."""

from threading import Thread

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as f
from support.messages import naming, says
from support.records import Record, violations
from support.spark import since

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.provenance import read_provenance
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings, Written, written_columns
from airflow_provider_orderedkafka.kafka.write.writing import plan_write, write
from airflow_provider_orderedkafka.spark import register
from airflow_provider_orderedkafka.spark.ordering import keep_order

pytestmark = since(4, 0)

ROWS = 12_000
KEYS = 101


@pytest.fixture(scope="module", autouse=True)
def registered(spark):
    register(spark)


@pytest.fixture
def frame(spark):
    """Rows in order over six partitions, each with where it came from; every value is its place."""
    return (
        spark.range(0, ROWS, 1, 6)
        .select(
            "id",
            f.col("id").cast("string").alias("value"),
            (f.col("id") % KEYS).cast("string").alias("key"),
            f.timestamp_millis(f.lit(1_700_000_000_000) + f.col("id")).alias("timestamp"),
        )
        .withColumn(
            "_source", f.expr("struct('orders' as topic, 1 as partition, id as offset, timestamp as order_time)")
        )
    )


@pytest.fixture
def save(kafka):
    def saved(frame, **options):
        writer = frame.write.format("orderedkafka").mode("append")
        return writer.options(**{"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}).save()

    return saved


def by_key(record):
    return record.key


def by_partition(record):
    return record.partition


def complete(seen):
    return sorted(int(record.value) for record in seen) == list(range(ROWS))


@pytest.mark.versions
def test_a_frame_is_written_whole_with_its_timestamps_and_provenance_which_is_another_each_time(
    frame, save, topics, records
):
    topic = topics.create(partitions=3)
    save(frame, topic=topic)
    seen = records.read(topic)
    assert complete(seen)
    found = [read_provenance(record.headers) for record in seen]
    assert all(record.timestamp == 1_700_000_000_000 + int(record.value) for record in seen)
    assert all(each.offset == int(record.value) for each, record in zip(found, seen, strict=True))
    assert len({each.identity for each in found}) == ROWS
    assert len({each.range_id for each in found}) == 1
    save(frame, topic=topic)
    assert len({read_provenance(record.headers).identity for record in records.read(topic)}) == 2 * ROWS


def test_another_thread_registers_too_and_writes(spark, frame, save, topics):
    topic = topics.create("orders")
    refused, done = [], []

    def unregistered():
        with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND") as error:
            save(frame, topic=topic)
        refused.append(error)

    def in_a_thread():
        register(spark)
        save(frame, topic=topic)
        done.append(topic)

    for work in (unregistered, in_a_thread):
        thread = Thread(target=work)
        thread.start()
        thread.join()
    assert (len(refused), done) == (1, [topic])


def test_without_provenance_there_are_no_headers(frame, save, topics, records):
    topic = topics.create()
    save(frame, topic=topic, provenance="false")
    assert {len(record.headers) for record in records.read(topic)} == {0}


def test_columns_that_mean_nothing_to_kafka_are_ignored(spark, save, topics, records):
    topic = topics.create()
    save(spark.range(3).selectExpr("cast(id as string) value", "id as amount", "now() as seen"), topic=topic)
    assert sorted(record.value for record in records.read(topic)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("column", "options", "said"),
    [
        ("1 as value", {}, "SettingError: ... 'value' ... int, ... binary"),
        ("'v' as value", {"topik": "x"}, "SettingError: ... 'topik' ... 'topic'"),
        ("'v' as value", {"topic": "no-such"}, "UnknownTopicError: topic 'no-such'"),
        ("'v' as value", {"provenance": "true"}, "SettingError: provenance ... '_source'"),
    ],
)
def test_what_is_wrong_is_said_before_a_task_runs(frame, save, column, options, said):
    with pytest.raises(AnalysisException) as caught:
        save(frame.selectExpr(column), **{"topic": "anything", **options})
    assert says(str(caught.value), said)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("overwrite", "append"),
        ("errorifexists", '"orderedkafka" ... "Append"'),
        ("ignore", '"orderedkafka" ... "Append"'),
    ],
)
def test_other_modes_than_append_are_refused_and_it_is_said_which_one_will_do(frame, kafka, topics, mode, said):
    writer = frame.write.format("orderedkafka").mode(mode).option("topic", topics.create())
    with pytest.raises(AnalysisException, match=naming(said)):
        writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).save()


def test_a_row_that_cannot_be_written_fails_the_write_and_names_it(frame, save, topics):
    with pytest.raises(PythonException, match=r"RowError: orders\[1\]@11000"):
        save(frame.withColumn("partition", f.expr("if(id = 11000, 7, 0)")), topic=topics.create())


@pytest.mark.versions
@since(4, 1)
def test_a_stream_is_written_by_the_same_code(spark, kafka, topics, records, tmp_path):
    source, output = topics.create(), topics.create(partitions=2)
    lines = tmp_path / "lines"
    lines.mkdir()
    for number in range(3):
        (lines / f"{number}.txt").write_text("".join(f"{number * 100 + row}\n" for row in range(100)))
    stream = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(lines))
    rows = stream.withColumn(
        "_source", f.expr(f"struct('{source}' topic, 0 partition, cast(value as long) offset, now() order_time)")
    )
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": output}
    query = (
        rows.writeStream.format("orderedkafka")
        .options(**options)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    seen = records.read(output)
    assert sorted(int(record.value) for record in seen) == list(range(300))
    identities = {read_provenance(record.headers).identity for record in seen}
    assert (len(identities), {each.range for each in identities}) == (300, {query.id})


@since(4, 2)
def test_a_stream_goes_from_a_topic_to_a_topic_in_order_and_goes_on_where_it_ended(
    spark, kafka, topics, records, tmp_path
):
    source, output = topics.create(partitions=3), topics.create()
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    asked = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 40, "includeHeaders": "true"}

    def run():
        rows = spark.readStream.format("orderedkafka").options(**servers, **asked).load()
        large = rows.where("cast(value as string) % 2 = 0").drop("topic", "partition")
        writer = large.writeStream.format("orderedkafka").options(**servers, topic=output)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    for first in (1, 101):
        records.produce(
            source, [Record(b"%d" % n, 1_000 + n, n % 3, headers=[("n", b"%d" % n)]) for n in range(first, first + 100)]
        )
        run()
    seen = records.read(output)
    even = [b"%d" % n for n in range(2, 201, 2)]
    assert [record.value for record in seen] == even
    assert [record.timestamp for record in seen] == [1_000 + int(value) for value in even]
    assert [dict(record.headers)["n"] for record in seen] == even


def ordered_write(frame, kafka, topic, **settings):
    asked = plan_write(
        WriteSettings({"bootstrap.servers": kafka.bootstrap_servers}, topic=topic, **settings), frame.dtypes
    )

    def task(batches):
        import pyarrow as pa

        yield pa.RecordBatch.from_pylist([{"rows": write(batches, asked).rows}])

    rows = frame.select(*written_columns(frame.dtypes, asked)).mapInArrow(task, "rows long").collect()
    return Written(rows=sum(row.rows for row in rows)), len(rows)


@pytest.mark.parametrize("writers", [1, 2, pytest.param(5, marks=pytest.mark.versions)])
def test_rows_of_a_key_stay_in_order(frame, kafka, topics, records, writers):
    topic = topics.create(partitions=4)
    ordered = keep_order(frame, by="key", writers=writers)
    assert ordered_write(ordered, kafka, topic) == (Written(rows=ROWS), writers)
    seen = records.read(topic)
    assert complete(seen)
    assert violations(seen, by_key) == 0


@pytest.mark.parametrize("writers", [1, 3, pytest.param(8, marks=pytest.mark.versions)])
def test_rows_of_an_output_partition_stay_in_order(frame, kafka, topics, records, writers):
    topic = topics.create(partitions=5)
    with_nulls = frame.withColumn("key", f.expr("if(id % 3 = 0, null, key)"))
    ordered = keep_order(with_nulls, by="partition", writers=writers, partitions=5)
    ordered_write(ordered, kafka, topic, use_partition="always")
    seen = records.read(topic)
    assert complete(seen)
    assert violations(seen, by_partition) == 0
    assert violations([record for record in seen if record.key], by_key) == 0


@pytest.mark.versions
def test_keys_that_spark_routes_land_where_the_producer_would_put_them(frame, kafka, topics, records):
    routed, plain = topics.create(partitions=5), topics.create(partitions=5)
    ordered_write(keep_order(frame, by="partition", writers=2, partitions=5), kafka, routed, use_partition="always")
    ordered_write(frame, kafka, plain)
    places = [{record.key: record.partition for record in records.read(topic)} for topic in (routed, plain)]
    assert places[0] == places[1]


def test_the_partition_column_can_say_where_rows_go(frame, kafka, topics, records):
    topic = topics.create(partitions=3)
    with_partition = frame.withColumn("partition", (f.col("id") % 3).cast("int"))
    ordered_write(keep_order(with_partition, by="partition", writers=2), kafka, topic, use_partition="always")
    seen = records.read(topic)
    assert all(int(record.value) % 3 == record.partition for record in seen)
    assert violations(seen, by_partition) == 0


def test_rows_without_a_key_stay_in_order_in_each_partition(frame, kafka, topics, records):
    topic = topics.create(partitions=3)
    ordered_write(keep_order(frame.withColumn("key", f.lit(None).cast("binary")), writers=4), kafka, topic)
    seen = records.read(topic)
    assert complete(seen)
    assert violations(seen, by_partition) == 0


def test_rows_that_one_record_gives_stay_in_order(frame, kafka, topics, records):
    topic = topics.create(partitions=3)
    many = frame.select("key", f.explode(f.sequence(f.col("id") * 3, f.col("id") * 3 + 2)).alias("row"))
    ordered_write(keep_order(many.select("key", f.col("row").cast("string").alias("value")), writers=3), kafka, topic)
    seen = records.read(topic)
    assert len(seen) == 3 * ROWS
    assert violations(seen, by_key) == 0


def test_the_order_lives_through_filters_and_broadcast_joins(spark, frame, kafka, topics, records):
    topic = topics.create(partitions=3)
    names = spark.range(KEYS).selectExpr("cast(id as string) as key", "id % 7 as size").groupBy("key").max("size")
    joined = frame.join(f.broadcast(names), "key").where("id % 5 > 0")
    ordered_write(keep_order(joined, writers=3), kafka, topic)
    seen = records.read(topic)
    assert len(seen) == ROWS - ROWS // 5
    assert violations(seen, by_key) == 0


def test_a_plan_that_is_not_known_to_keep_the_order_is_refused(frame):
    with pytest.raises(SettingError, match="without keep_order"):
        keep_order(frame.orderBy("key"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"by": "topic"}, "by ... 'key' ... 'partition', ... 'topic'"),
        ({"writers": 0}, "writers ... 1, ... 0"),
        ({"by": "partition"}, "'partition', ... partitions="),
    ],
)
def test_order_that_cannot_be_kept_is_refused(frame, arguments, said):
    with pytest.raises(SettingError, match=naming(said)):
        keep_order(frame, **arguments)
    with pytest.raises(SettingError, match="once"):
        keep_order(keep_order(frame, writers=1))


def test_rows_that_were_shuffled_behind_our_back_are_found_out(frame, kafka, topics):
    with pytest.raises(PythonException, match="OrderViolationError"):
        ordered_write(keep_order(frame, writers=1).repartition(2), kafka, topics.create())


def test_a_worker_keeps_its_producer_from_batch_to_batch(frame, kafka, topics):
    config = {"bootstrap.servers": kafka.bootstrap_servers}

    def task(batches):
        import os

        import pyarrow as pa

        from airflow_provider_orderedkafka.kafka.write.producer import POOL

        for _ in batches:
            pass
        with POOL.lend(config) as lent:
            yield pa.RecordBatch.from_pylist([{"worker": os.getpid(), "producer": id(lent.producer)}])

    small = frame.limit(10).coalesce(1).mapInArrow(task, "worker long, producer long")
    found = {tuple(row) for _ in range(4) for row in small.collect()}
    assert len(found) == len({worker for worker, _ in found}) < 4
