"""Decoding in the DataFrame lane: the records that can be decoded, and those that cannot, as frames."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.compat.spark import spark_schema

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.decoding.records import RecordDecoder
    from airflow_provider_orderedkafka.spark.session.counting import TaskCounter


def decoded(records: "DataFrame", decoder: "RecordDecoder", schema: Any, seen: "TaskCounter | None") -> "DataFrame":
    """The records that can be decoded; `schema` is that of the records, in Arrow."""
    return records.mapInArrow(partial(_good, decoder, seen), spark_schema(decoder.schema(schema)))


def bad(records: "DataFrame", decoder: "RecordDecoder", schema: Any) -> "DataFrame":
    """The records that cannot be decoded, as they are, with the column `_error`."""
    import pyarrow as pa

    from airflow_provider_orderedkafka.kafka.provenance import ERROR

    return records.mapInArrow(partial(_bad, decoder), spark_schema(schema.append(pa.field(ERROR, pa.string()))))


def _good(
    decoder: "RecordDecoder", seen: "TaskCounter | None", batches: Iterator["RecordBatch"]
) -> Iterator["RecordBatch"]:
    for batch in batches:
        good, wrong = decoder.split(batch)
        if seen is not None and wrong.num_rows:
            first = tuple(wrong.column(name)[0].as_py() for name in ("topic", "partition", "offset"))
            seen.tell(first, wrong.num_rows)
        yield good


def _bad(decoder: "RecordDecoder", batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
    for batch in batches:
        yield decoder.split(batch)[1]
