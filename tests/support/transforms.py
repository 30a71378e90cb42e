"""Transforms that applications in processes of their own import by name."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from airflow_provider_orderedkafka.spark.rows import row_transform


def unchanged(frame: DataFrame) -> DataFrame:
    """A DataFrame transform that changes nothing: it makes the records go by way of DataFrames."""
    return frame


@row_transform("topic string, partition int, offset long, number long")
def numbered(record: dict[str, Any]) -> dict[str, Any]:
    """The number of each record; one that is a path has none until there is such a file."""
    value = record["value"].decode()
    if value.startswith("/"):
        value = Path(value).read_text()
    return {name: record[name] for name in ("topic", "partition", "offset")} | {"number": json.loads(value)["number"]}


def tripled(frame: DataFrame) -> DataFrame:
    """Three rows for each record."""
    return frame.withColumn("part", f.explode(f.array(*(f.lit(part) for part in "abc")))).withColumn(
        "value", f.concat("part", f.col("value").cast("string"))
    )


def odd_ones(frame: DataFrame) -> DataFrame:
    """Every second record of each partition."""
    return frame.where("offset % 2 = 1")


def keyed(frame: DataFrame) -> DataFrame:
    """The records, with their key also in a column that SQL has to quote, and whether there is one."""
    return frame.withColumn("the-key", f.col("key")).withColumn("is_known", f.col("key").isNotNull())


def named(frame: DataFrame) -> DataFrame:
    """The records, with their key also as text."""
    return frame.withColumn("name", f.col("key").cast("string"))


def nothing(frame: DataFrame) -> DataFrame:
    """No row of any record."""
    return frame.where("offset < 0")


def first_version(frame: DataFrame) -> DataFrame:
    """The records, and a version in their values."""
    return _version(frame, 1)


def second_version(frame: DataFrame) -> DataFrame:
    return _version(frame, 2)


def _version(frame: DataFrame, version: int) -> DataFrame:
    value = f.to_json(f.struct(f.lit(version).alias("version"), f.col("value").cast("string").alias("value")))
    return frame.withColumn("value", f.when(f.col("value").isNotNull(), value.cast("binary")))


def positions(frame: DataFrame) -> DataFrame:
    """Where each record stands, and nothing else of it."""
    return frame.select("order_time", "topic", "partition", "offset", "_source")


def dated(frame: DataFrame) -> DataFrame:
    """Positions, with a time 20,000 days earlier."""
    return positions(frame).withColumn("long_ago", f.timestamp_millis(f.unix_millis("order_time") - 1_728_000_000_000))


def fields(frame: DataFrame) -> DataFrame:
    """The fields of decoded values as columns."""
    return frame.select("order_time", "value.*", "_source")


def environments_told(frame: DataFrame) -> DataFrame:
    """Changes nothing; writes down the environment of the driver and of each worker, where `TOLD_TO` says.

    But for connections of the Airflow that submits it: whatever starts there inherits these.
    """

    def passed(batches: Iterable[Any]) -> Iterator[Any]:
        _tell_environment("worker")
        yield from batches

    _tell_environment("driver")
    return frame.mapInArrow(passed, frame.schema)


def betraying(found: Any) -> Any:
    """Prints in the driver, and raises in a task, what the environment names `BETRAYED`; of either kind."""
    said = "; ".join(json.loads(os.environ["BETRAYED"]))
    if not isinstance(found, DataFrame):
        raise RuntimeError(said)
    print(said)
    return found.mapInArrow(lambda batches: map(betraying, batches), found.schema)


def _tell_environment(who: str) -> None:
    found = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_CONN_")}
    Path(os.environ["TOLD_TO"], f"{who}-{os.getpid()}").write_text(json.dumps(found))


def oddly_named(records: "DataFrame") -> "DataFrame":
    """With a struct whose members have names that SQL has to quote."""
    deeper = "array(named_struct('$x', 2)), '@m', map('k', named_struct('`', 3))"
    return records.selectExpr("*", f"named_struct('user-id', 1, 'a.b', {deeper}) AS odd")


def grown(records: DataFrame) -> DataFrame:
    """Positions, with columns and members of structs that a table of older records lacks."""
    both = "named_struct('b', 2L, 'a', 1L)"
    more = (f"{both} AS s", f"array({both}) AS l", f"map('k', {both}) AS m", "'paid' AS state", "offset AS n")
    return records.selectExpr("order_time", "topic", "partition", "offset", *more, "_source")
