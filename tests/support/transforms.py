"""Transforms that applications in processes of their own import by name."""

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


def too_large_now_and_then(frame: DataFrame) -> DataFrame:
    """Records of which one in a hundred becomes larger than its topic takes."""
    large = f.expr("if(offset % 100 = 60, repeat('x', 20000), cast(value as string))")
    return frame.withColumn("value", large)
