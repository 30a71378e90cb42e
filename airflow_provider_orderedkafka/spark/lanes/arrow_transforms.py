"""Transforms from RecordBatch to RecordBatch: in the direct lane, or on a DataFrame."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.compat.spark import spark_schema
from airflow_provider_orderedkafka.errors import SettingError, TransformError
from airflow_provider_orderedkafka.kafka.provenance import SOURCE, SOURCE_FIELDS

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Schema
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.decoding.records import RecordDecoder

ArrowTransform = Callable[["RecordBatch"], "RecordBatch"]


def with_source(batch: "RecordBatch") -> "RecordBatch":
    """The records with `_source`, which a transform must keep."""
    import pyarrow as pa

    if SOURCE in batch.schema.names:
        return batch
    columns = [batch.column(name) for name in SOURCE_FIELDS]
    return batch.append_column(SOURCE, pa.StructArray.from_arrays(columns, SOURCE_FIELDS))


def applied(transform: ArrowTransform, batch: "RecordBatch", keys: "Array | None" = None) -> "RecordBatch":
    """Apply the transform to a batch; `keys` are those that the rows may have, where it may not change them."""
    import pyarrow as pa

    try:
        found = transform(with_source(batch))
    except Exception as error:
        raise TransformError(f"the transform {_name(transform)!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(found, pa.RecordBatch):
        raise SettingError(
            f"the transform {_name(transform)!r} must return a pyarrow.RecordBatch, found {type(found).__name__}"
        )
    if keys is not None and rekeys(keys, found):
        raise SettingError(
            f"the transform {_name(transform)!r} changes keys in some batches only: rows of one key may then be "
            f"written side by side. Run the same range again with --sink-option writers=1"
        )
    return found


def rekeys(keys: "Array", found: "RecordBatch") -> bool:
    """Whether rows have keys that no record had, or lost their keys."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "key" not in found.schema.names or pa.types.is_nested(found.schema.field("key").type):
        return True
    known = pc.is_in(found.column("key").cast("binary"), keys)
    return not pc.all(known, min_count=0).as_py()


def output_schema(
    transform: ArrowTransform,
    sampled: Sequence["RecordBatch"] = (),
    *,
    include_headers: bool,
    decoder: "RecordDecoder | None" = None,
) -> "Schema":
    """The columns that the transform makes, of a sample or of no records, decoded if there is a decoder."""
    import pyarrow as pa

    from airflow_provider_orderedkafka.kafka.read.arrow import schema

    batch = sampled[0] if sampled else pa.RecordBatch.from_pylist([], schema(include_headers=include_headers))
    return applied(transform, batch if decoder is None else decoder.split(batch)[0]).schema


def as_frames(transform: ArrowTransform, schema: "Schema") -> Callable[["DataFrame"], "DataFrame"]:
    """The same transform for DataFrames."""
    made = spark_schema(schema)

    def each(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        for batch in batches:
            yield applied(transform, batch)

    return lambda frame: frame.mapInArrow(each, made)


def _name(transform: ArrowTransform) -> str:
    return getattr(transform, "__qualname__", str(transform))
