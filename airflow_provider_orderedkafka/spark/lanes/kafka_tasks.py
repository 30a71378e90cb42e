"""The tasks of the DataFrame lane that write to Kafka, and those that leave out what landed."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.kafka.provenance import ORDINAL
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.kafka.replay.landed_filter import Giving, LandedFilter
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings, Written, written_columns
from airflow_provider_orderedkafka.spark.lanes.kafka_output import only_attempt
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FIELDS = ("rows", "dead_letters")


def missing(rows: "DataFrame", landed: Landed, giving: Giving, resent: TaskCounter) -> "DataFrame":
    """The rows that are missing from the output, numbered where that is needed.

    Each task looks among all that landed: where one task has all the rows, Spark does not tell it which slice is which.
    """
    from pyspark.sql.types import IntegerType, StructField, StructType

    more = [] if giving == "one" else [StructField(ORDINAL, IntegerType())]
    return rows.mapInArrow(partial(_missing, landed, giving, resent), StructType([*rows.schema.fields, *more]))


def _missing(
    landed: Landed, giving: Giving, resent: TaskCounter, batches: Iterator["RecordBatch"]
) -> Iterator["RecordBatch"]:
    left = LandedFilter(landed, giving, "struct")
    yield from left.of(batches)
    if left.began is not None:
        resent.tell(left.began, left.resent)


def written_by_tasks(rows: "DataFrame", settings: WriteSettings) -> "DataFrame":
    """What each task has written, once the frame is collected."""
    return rows.select(*written_columns(rows.dtypes, settings)).mapInArrow(_task(settings), _tally())


def total(told: "DataFrame") -> Written:
    """Write, and sum up."""
    return Written.total(Written(**row.asDict()) for row in told.collect())


def _tally() -> "StructType":
    """The schema of a writer's result; as types, because Spark's SQL parser takes half a second to start."""
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType([StructField(name, LongType()) for name in FIELDS])


def _task(settings: WriteSettings) -> Any:
    def write_all(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        from pyarrow import RecordBatch

        from airflow_provider_orderedkafka.kafka.write.writing import write

        only_attempt()
        found = write(batches, settings)
        yield RecordBatch.from_pylist([{"rows": found.rows, "dead_letters": found.dead_letters}])

    return write_all
