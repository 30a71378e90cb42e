"""Transforms that applications in processes of their own import by name."""

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def unchanged(frame: DataFrame) -> DataFrame:
    """A DataFrame transform that changes nothing: it makes the records go by way of DataFrames."""
    return frame


def tripled(frame: DataFrame) -> DataFrame:
    """Three rows for each record."""
    return frame.withColumn("part", f.explode(f.array(*(f.lit(part) for part in "abc")))).withColumn(
        "value", f.concat("part", f.col("value").cast("string"))
    )


def odd_ones(frame: DataFrame) -> DataFrame:
    """Every second record of each partition."""
    return frame.where("offset % 2 = 1")


def routed(frame: DataFrame) -> DataFrame:
    """Each record to one of the topics that the environment names, by its key."""
    topics = f.array(*(f.lit(topic) for topic in os.environ["ROUTED_TO"].split(",")))
    return frame.withColumn("topic", f.element_at(topics, f.pmod(f.hash("key"), f.size(topics)) + 1))


def positions(frame: DataFrame) -> DataFrame:
    """Where each record stands, and nothing else of it."""
    return frame.select("order_time", "topic", "partition", "offset", "_source")
