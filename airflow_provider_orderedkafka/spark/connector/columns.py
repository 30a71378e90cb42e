"""Select columns by a schema: `spark.read.schema("key binary, value binary")` makes no others.

Other columns are neither made nor sent from Python to Spark. The types are the source's own.
"""

from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.compat.spark import spark_schema
from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def spark_columns(*, include_headers: bool) -> dict[str, str]:
    """The source's columns and their types, in Spark's notation."""
    from airflow_provider_orderedkafka.kafka.read import arrow

    schema = spark_schema(arrow.schema(include_headers=include_headers))
    return {field.name: field.dataType.simpleString() for field in schema}


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
                f"the schema gives column {field.name!r} the type {field.dataType.simpleString()!r}, it is "
                f"{there[field.name]!r}: read it as it is, and cast it then"
            )
    asked = tuple(field.name for field in schema.fields)
    return None if asked == tuple(there) else asked


def _unknown(name: str, there: list[str]) -> str:
    if name == "headers":
        return "the schema names column 'headers', which comes with option 'includeHeaders' set to 'true'"
    hint = meant(name, there, f"there are {', '.join(there)}")
    return f"the schema names column {name!r}, which is not there; {hint}"
