"""Read slices in a task, with the options of the source and the range; and which columns are read.

`spark.read.schema("key binary, value binary")` makes no other columns: they are neither made nor sent from Python to
Spark. The types are the source's own.
"""

import gc
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ...compat.spark import spark_schema
from ...core.documents import Isolation
from ...core.notation.spelling import meant
from ...core.order.cuts import Slice
from ...errors import SettingError
from ...kafka.clients.pools import ReadSettings, ReadTally

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from ...kafka.read.columns import Records
    from ...kafka.read.slices import Make
    from .options import SourceOptions


def source_schema(*, include_headers: bool) -> "StructType":
    from ...kafka.read.columns import schema

    return spark_schema(schema(include_headers=include_headers))


def spark_columns(*, include_headers: bool) -> dict[str, str]:
    """The source's columns and their types, in Spark's notation."""
    return {field.name: field.dataType.simpleString() for field in source_schema(include_headers=include_headers)}


def asked_columns(schema: "StructType", *, include_headers: bool) -> tuple[str, ...] | None:
    """The names of the columns, or None for all; raises `SettingError` for an unknown one."""
    there = spark_columns(include_headers=include_headers)
    if not schema.fields:
        raise SettingError(f"the schema names no column; there are {', '.join(there)}")
    for field in schema.fields:
        if field.name not in there:
            raise SettingError(_unknown(field.name, list(there)))
        if field.dataType.simpleString() != there[field.name]:
            raise SettingError(
                f"the schema gives column {field.name!r} the type {field.dataType.simpleString()!r}, but it is "
                f"{there[field.name]!r}: read it as it is, and cast it afterwards"
            )
    asked = tuple(field.name for field in schema.fields)
    return None if asked == tuple(there) else asked


def _unknown(name: str, there: list[str]) -> str:
    if name == "headers":
        return "the schema names column 'headers', which comes with option 'includeHeaders' set to 'true'"
    hint = meant(name, there, f"there are {', '.join(there)}")
    return f"the schema names column {name!r}, which is not there; {hint}"


def read_settings(options: "SourceOptions", isolation: Isolation, topics: Mapping[str, str]) -> ReadSettings:
    return ReadSettings(
        options.kafka,
        isolation=isolation,
        include_headers=options.terms.include_headers,
        on_data_loss=options.terms.on_data_loss,
        topic_ids=topics,
    )


def read_batches(slice_: Slice, settings: ReadSettings, tally: ReadTally | None = None) -> Iterator["RecordBatch"]:
    """The records of a slice, in order, as Arrow batches of at most the byte budget."""
    from ...kafka.read.columns import BatchBuilder

    return _read(slice_, settings, tally, BatchBuilder.batch)


def read_records(slice_: Slice, settings: ReadSettings, tally: ReadTally) -> Iterator["Records"]:
    """The same, for a plain copy."""
    from ...kafka.read.columns import Records

    return _read(slice_, settings, tally, Records.of)


def _read(slice_: Slice, settings: ReadSettings, tally: ReadTally | None, make: "Make") -> Iterator[Any]:
    from ...core.order.planning import split
    from ...kafka.lookup.log import KafkaLog
    from ...kafka.read.slices import read_slice

    _settle()
    log = KafkaLog(settings.kafka, settings.isolation)
    policy = settings.on_data_loss
    return read_slice(slice_, settings, tally, lambda large, each: split(large, log, each, policy), make)


@cache
def _settle() -> None:
    """Once in a Python worker of Spark's, which looks for garbage after every task: not among what was imported."""
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        gc.freeze()
