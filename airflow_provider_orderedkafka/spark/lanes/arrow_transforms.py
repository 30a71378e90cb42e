"""Transforms from RecordBatch to RecordBatch."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError, TransformError
from airflow_provider_orderedkafka.kafka.provenance import SOURCE, SOURCE_FIELDS

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

ArrowTransform = Callable[["RecordBatch"], "RecordBatch"]


def with_source(batch: "RecordBatch") -> "RecordBatch":
    """The records with `_source`, which a transform must keep."""
    import pyarrow as pa

    if SOURCE in batch.schema.names:
        return batch
    columns = [batch.column(name) for name in SOURCE_FIELDS]
    return batch.append_column(SOURCE, pa.StructArray.from_arrays(columns, SOURCE_FIELDS))


def applied(transform: ArrowTransform, batch: "RecordBatch") -> "RecordBatch":
    """Apply the transform to a batch."""
    import pyarrow as pa

    try:
        found = transform(with_source(batch))
    except OrderedKafkaError:
        raise
    except Exception as error:
        raise TransformError(f"the transform {_name(transform)!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(found, pa.RecordBatch):
        raise SettingError(
            f"the transform {_name(transform)!r} must return a pyarrow.RecordBatch, found {type(found).__name__}"
        )
    return found


def check_keys(keys: "Array", rows: "RecordBatch") -> None:
    """`SettingError` if rows have other keys than their records, where the transform may not change them."""
    if rekeys(keys, rows):
        raise SettingError(
            "the transform changes keys in some batches only: rows of one key may then be written side by side. Run "
            "the same range again with --sink-option writers=1"
        )


def rekeys(keys: "Array", found: "RecordBatch") -> bool:
    """Whether rows have keys that no record had, or lost their keys."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "key" not in found.schema.names or pa.types.is_nested(found.schema.field("key").type):
        return True
    known = pc.is_in(found.column("key").cast("binary"), keys)
    return not pc.all(known, min_count=0).as_py()


def _name(transform: ArrowTransform) -> str:
    return getattr(transform, "__qualname__", str(transform))
