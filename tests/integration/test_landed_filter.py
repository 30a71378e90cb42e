"""What of a batch is left out in Spark: the same rows, however Spark puts its slices into tasks."""

import numpy as np
import pytest
from pyspark.sql import functions as f

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.spark.lanes.kafka_lanes import missing
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter


@pytest.fixture
def rows(spark):
    """Forty records in four slices."""
    place = (f.lit("orders").alias("topic"), f.lit(0).alias("partition"), f.col("id").alias("offset"))
    time = f.timestamp_millis("id").alias("order_time")
    return spark.range(0, 40, 1, 4).select(f.struct(*place, time).alias("_source"))


@pytest.fixture
def landed():
    found, offsets = Landed(), np.arange(0, 40, 2)
    found.add(TopicPartition("orders", 0), np.zeros(20, np.int64), offsets)
    return found


@pytest.mark.parametrize("writers", [1, 4])
def test_what_landed_of_every_slice_is_left_out_by_one_writer_as_by_many(spark, rows, landed, writers):
    left = missing(rows, landed, "one", TaskCounter(spark.sparkContext)).coalesce(writers)
    assert [row._source.offset for row in left.collect()] == list(range(1, 40, 2))


def test_rows_of_a_join_that_are_sent_again_are_counted_in_every_slice(spark, rows, landed):
    twice = rows.select("_source", f.explode(f.array(f.lit(0), f.lit(1)))).select("_source")
    resent = TaskCounter(spark.sparkContext)
    assert len(missing(twice, landed, "joined", resent).coalesce(1).collect()) == 80
    assert resent.total() == 20
