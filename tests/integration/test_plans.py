"""What is known of a transform's rows by its plan, and that what is said to keep the order does."""

from dataclasses import replace

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as f
from support.applications import events
from support.messages import naming
from support.ranges import whole_range
from support.records import Records
from support.spark import since
from support.topics import Topics

from airflow_provider_orderedkafka.compat.spark import arrow_udf
from airflow_provider_orderedkafka.core.batches import Batch
from airflow_provider_orderedkafka.decoding.formats import Decode, Json
from airflow_provider_orderedkafka.decoding.payloads import RecordDecoder
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers
from airflow_provider_orderedkafka.spark import register
from airflow_provider_orderedkafka.spark.lanes.engine import Engine
from airflow_provider_orderedkafka.spark.lanes.frames import SOURCE, RangeFrames
from airflow_provider_orderedkafka.spark.lanes.making import Making
from airflow_provider_orderedkafka.spark.ordering import SEQUENCE, distributed
from airflow_provider_orderedkafka.spark.session import plans
from airflow_provider_orderedkafka.spark.session.plans import PlanFacts, read_any_plan, read_plan
from airflow_provider_orderedkafka.spark.session.starting import LazySession

pytestmark = pytest.mark.versions

ROWS = 60


@pytest.fixture(scope="module")
def loaded(kafka):
    topic = Topics(kafka.bootstrap_servers, "plans").create("a", 3)
    Records(kafka.bootstrap_servers).produce(topic, events(ROWS, 1))
    return whole_range(kafka.bootstrap_servers, topic)


@pytest.fixture
def rows(spark, loaded, config):
    def made(transform=lambda records: records):
        frames = RangeFrames(
            Engine(LazySession()), loaded, Brokers(config), ReadSettings.of_range(config, loaded), slice_offsets=10
        )
        return transform(frames.of_batch(Batch(1, loaded.start, loaded.end)))

    return made


def positions(frame):
    sources = [row[SOURCE] for row in frame.collect()]
    return [(source.order_time, source.partition, source.offset) for source in sources]


def keys(spark, *numbers):
    return spark.createDataFrame([(f"key-{number}".encode(), number) for number in numbers], "key binary, number int")


def tiny(frame):
    """A table that Spark takes to be smaller than the records, and broadcasts unasked."""
    return frame.sparkSession.range(1).selectExpr("cast('key-1' as binary) as key", "id as number")


def several(frame):
    return frame.withColumn("part", f.explode(f.array(f.lit(1), f.lit(2))))


def in_python(kind):
    return lambda frame: frame.withColumn("key", kind(lambda key: key, "binary")("key"))


@pytest.mark.parametrize(
    ("transform", "at_most_one"),
    [
        (lambda frame: frame, True),
        (lambda frame: frame.select("key", SOURCE).withColumn("x", f.lit("Exchange hashpartitioning")), True),
        (lambda frame: frame.where("partition > 0").drop("value"), True),
        (lambda frame: frame.where("false"), True),
        (lambda frame: frame.alias("a").hint("broadcast").select("a.*"), True),
        (lambda frame: frame.observe("seen", f.count(f.lit(1))), True),
        (in_python(f.udf), True),
        (in_python(f.pandas_udf), True),
        (in_python(arrow_udf), True),
        (lambda frame: frame.select(SOURCE).cache(), True),
        (several, False),
        (lambda frame: several(frame).cache().where("part = 1"), False),
        (lambda frame: frame.unpivot([SOURCE], ["key", "value"], "name", "bytes"), False),
        (lambda frame: frame.mapInArrow(lambda batches: batches, frame.schema), False),
        (lambda frame: frame.mapInPandas(lambda batches: batches, frame.schema), False),
    ],
    ids=[
        *("nothing", "select", "where", "where false", "alias", "observe", "udf", "pandas_udf", "arrow_udf", "cache"),
        *("explode", "cached explode", "unpivot", "mapInArrow", "mapInPandas"),
    ],
)
def test_what_goes_row_by_row_keeps_the_order(rows, transform, at_most_one):
    frame = rows(transform)
    facts = read_plan(frame)
    assert (facts.disordered, facts.untrusted, facts.joins) == (None, None, False)
    assert facts.at_most_one == at_most_one
    found = positions(frame)
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("join", "joins"),
    [
        (lambda frame, table: frame.join(f.broadcast(table), "key"), True),
        (lambda frame, table: f.broadcast(table).join(frame, "key"), True),
        (lambda frame, table: frame.join(f.broadcast(table), "key", "left"), True),
        (lambda frame, table: f.broadcast(table).join(frame, "key", "right"), True),
        (lambda frame, table: frame.join(f.broadcast(table), f.col("number") > f.col("partition"), "left"), True),
        (lambda frame, table: frame.crossJoin(f.broadcast(table)), True),
        (lambda frame, table: frame.join(f.broadcast(table.groupBy("key").count()), "key"), True),
        (lambda frame, table: frame.join(f.broadcast(table), "key", "semi"), False),
        (lambda frame, table: frame.join(f.broadcast(table), "key", "anti"), False),
    ],
    ids=["inner", "table first", "left", "right", "condition", "cross", "grouped table", "semi", "anti"],
)
def test_a_join_with_a_broadcast_table_keeps_the_order_and_may_give_a_row_for_each_match(spark, rows, join, joins):
    frame = rows(lambda records: join(records, keys(spark, 1, 2, 2, 3, 5)))
    facts = read_plan(frame)
    assert (facts.disordered, facts.untrusted) == (None, None)
    assert (facts.joins, facts.at_most_one) == (joins, not joins)
    found = positions(frame)
    assert found == sorted(found) != []


@pytest.mark.parametrize(
    ("join", "said"),
    [
        (lambda frame, table: table.join(f.broadcast(frame), "key"), plans.BROADCAST_THE_OTHER),
        (lambda frame, table: frame.join(table, "key"), plans.BROADCAST_THE_OTHER),
        (lambda frame, table: frame.join(tiny(frame), "key"), plans.NO_HINT),
        (lambda frame, table: f.broadcast(frame).join(f.broadcast(tiny(frame)), "key"), plans.NO_HINT),
        (lambda frame, table: frame.crossJoin(tiny(frame).select("number")), plans.NO_HINT),
        (lambda frame, table: frame.join(table, "key", "right"), plans.BROADCAST_THE_OTHER),
        (lambda frame, table: frame.join(f.broadcast(table), "key", "full"), "SortMergeJoin"),
        (lambda frame, table: frame.join(f.broadcast(table), f.col("number") > 2, "full"), plans.ANY_OTHER_WAY),
        (
            lambda frame, table: frame.join(table.hint("merge"), "key"),
            f"SortMergeJoin ... {plans.OTHER_WAYS['SortMergeJoin']}",
        ),
    ],
    ids=[
        "records broadcast",
        "no hint",
        "tiny table",
        "two hints",
        "cross",
        "right",
        "full",
        "full by condition",
        "merge",
    ],
)
def test_a_join_whose_rows_do_not_follow_the_records_is_refused(spark, rows, join, said):
    facts = read_plan(rows(lambda records: join(records, keys(spark, *range(200)))))
    assert facts.untrusted
    otherwise = "ask for none"
    with pytest.raises(SettingError, match=naming(f"{said} ... ; or {otherwise}")):
        facts.check_ordered(otherwise)


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (lambda frame: frame.where("partition = 1").union(frame.where("partition = 0")), "Union"),
        (lambda frame: frame.sortWithinPartitions("key"), "Sort"),
        (lambda frame: frame.orderBy("key"), "Sort"),
        (lambda frame: frame.repartition(3), "Exchange"),
        (lambda frame: frame.repartition(3).cache(), "Exchange"),
        (lambda frame: frame.dropDuplicates(["key"]), "SortAggregate"),
        (lambda frame: frame.groupBy("key").count(), "HashAggregate"),
        (lambda frame: frame.groupBy("key").applyInPandas(lambda group: group, frame.schema), "FlatMapGroupsInPandas"),
        (
            lambda frame: frame.withColumn("n", f.row_number().over(Window.partitionBy("key").orderBy("offset"))),
            "Window",
        ),
        (lambda frame: frame.limit(5), "CollectLimit"),
        (lambda frame: frame.limit(5).where("partition = 1"), "GlobalLimit"),
        (lambda frame: frame.offset(5), "CollectLimit"),
        (lambda frame: frame.orderBy("key").limit(5), "TakeOrderedAndProject"),
        (lambda frame: frame.sparkSession.createDataFrame(frame.rdd, frame.schema), "Scan ExistingRDD"),
    ],
    ids=[
        *("union", "sortWithinPartitions", "orderBy", "repartition", "cached", "dropDuplicates", "groupBy"),
        *("applyInPandas", "window", "limit", "limit below", "offset", "top", "rdd"),
    ],
)
def test_what_is_not_known_to_keep_the_order_is_named_with_the_way_out(rows, transform, said):
    facts = read_plan(rows(transform))
    assert facts.untrusted
    assert not facts.at_most_one
    with pytest.raises(SettingError, match=naming(f"{said} ... {plans.OTHER_WAYS.get(said, '')}")):
        facts.check_ordered("ask for none")


def test_a_coalesce_loses_the_order_and_makes_the_same_rows_each_time(rows):
    facts = read_plan(rows(lambda records: records.coalesce(2)))
    assert (facts.untrusted, facts.at_most_one) == (None, True)
    assert "Coalesce 2" in facts.disordered
    assert plans.OTHER_WAYS["Coalesce"] in facts.disordered


@pytest.mark.parametrize(
    ("transform", "at_most_one"),
    [
        (lambda frame: frame.where(f.rand() < 0.5), True),
        (lambda frame: frame.sample(0.5), True),
        (lambda frame: frame.sample(True, 0.5), False),
    ],
    ids=["rand", "sample", "sample with replacement"],
)
def test_rows_that_are_chosen_by_chance_are_in_order_and_not_known_again(rows, transform, at_most_one):
    facts = read_plan(rows(transform))
    assert (facts.disordered, facts.at_most_one) == (None, at_most_one)
    assert facts.untrusted.startswith(("Sample", "Filter"))


def test_records_that_are_read_twice_are_not_known_again(rows):
    def with_count(frame):
        return frame.join(f.broadcast(frame.groupBy("key").count()), "key")

    facts = read_plan(rows(with_count))
    assert (facts.disordered, facts.untrusted) == (None, "the records are read 2 times in one plan")


def test_a_decoded_record_gives_one_row_and_an_arrow_transform_may_give_several(spark, loaded, config):
    decoder = RecordDecoder.of(Decode(value=Json("number long")), list(loaded.topics))
    read = ReadSettings.of_range(config, loaded)
    decoded = RangeFrames(Engine(LazySession()), loaded, Brokers(config), read, making=Making(decoder))
    transformed = replace(decoded, making=Making(decoder, lambda rows: rows, columns=decoded.made_columns()))
    assert read_plan(decoded.rows) == PlanFacts(at_most_one=True)
    assert read_plan(transformed.rows) == PlanFacts(at_most_one=False)


def test_another_frame_than_the_records_is_no_frame_of_theirs(spark, rows):
    facts = read_plan(spark.range(10))
    assert "Range" in facts.disordered
    assert facts.untrusted
    assert read_any_plan(spark.range(10)).disordered is None
    assert read_plan(rows(lambda records: records.where("offset < 5"))).disordered is None


@pytest.mark.parametrize("writers", [1, 3])
@pytest.mark.parametrize(("by", "partitions"), [("key", None), ("partition", None), ("partition", 4)])
def test_the_rows_before_they_were_dealt_are_looked_at_below_their_number(rows, writers, by, partitions):
    def written(frame):
        return distributed(frame, by, writers, partitions).select(SEQUENCE).mapInArrow(lambda rows: rows, "rows long")

    facts = read_plan(written(rows(lambda records: records.where("offset > 3"))), below=SEQUENCE)
    assert (facts.disordered, facts.untrusted, facts.at_most_one) == (None, None, True)
    for lossy in (lambda records: records.repartition(2), lambda records: records.sortWithinPartitions("key")):
        facts = read_plan(written(rows(lossy)), below=SEQUENCE)
        assert facts.disordered
        assert facts.untrusted


@since(4, 0)
def test_a_frame_of_the_source_is_its_own_records(spark, loaded, config):
    register(spark)
    [topic] = loaded.topics
    read = (
        spark.read.format("orderedkafka")
        .option("kafka.bootstrap.servers", config.servers)
        .option("subscribe", topic)
        .load()
    )
    assert read_any_plan(several(read.where("partition > 0"))).disordered is None
    table = keys(spark, *range(200))
    assert read_any_plan(read.join(f.broadcast(table), "key")).disordered is None
    assert plans.BROADCAST_THE_OTHER in read_any_plan(table.join(f.broadcast(read), "key")).disordered
