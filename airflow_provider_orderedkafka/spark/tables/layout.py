"""The columns of a table's rows, the names of SQL, and into how many files a batch goes."""

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final

from airflow_provider_orderedkafka.core.commits import IDENTITY
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.provenance import ORDINAL, SOURCE
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.spark.lanes.kafka_tasks import missing
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter
from airflow_provider_orderedkafka.spark.session.plans import read_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_BYTES: Final = 256 * 2**20
"""About how many bytes of records go into one file: columns and compression make a fraction of it."""

LEAST_BYTES: Final = 32 * 2**20
"""So many make a file where a core would have nothing to do."""

STRUCT: Final = "STRUCT<range_id: STRING, batch: BIGINT, topic: STRING, partition: INT, offset: BIGINT, ordinal: INT>"
"""The type of the identity."""

_COLUMN: Final = re.compile(r"\((?:\d+, *)?(\w+)\)|^(\w+)$")


def identified(rows: "DataFrame", range_id: str, batch: int, *, identity: bool) -> "DataFrame":
    """The rows with their identity in one column in place of `_source`, or without both."""
    from pyspark.sql import functions as f

    if not identity:
        return rows.drop(SOURCE)
    if SOURCE not in rows.columns:
        raise SettingError(
            f"the transform makes no column {SOURCE!r}, from which each row gets its identity in the table: keep it, "
            f"or ask for none with identity=False, found {', '.join(map(repr, rows.columns))}"
        )
    rows = _numbered(rows)
    ordinal = f.col(ORDINAL) if ORDINAL in rows.columns else f.lit(0)
    fields = [f.col(f"{SOURCE}.{name}").alias(name) for name in ("topic", "partition", "offset")]
    of_batch = [f.lit(range_id).alias("range_id"), f.lit(batch).cast("long").alias("batch")]
    struct = f.struct(*of_batch, *fields, ordinal.cast("int").alias("ordinal"))
    return rows.withColumn(IDENTITY, struct).drop(SOURCE, ORDINAL)


def _numbered(rows: "DataFrame") -> "DataFrame":
    """With the column `_ordinal`, if a record can give several rows."""
    if read_plan(rows).at_most_one:
        return rows
    return missing(rows, Landed(), "many", TaskCounter(rows.sparkSession.sparkContext))


def in_few_files(rows: "DataFrame", size: float | None) -> "DataFrame":
    """The rows of neighbouring slices in one task each, in their order, so that files are not too small."""
    if size is None:
        return rows
    busy = min(int(size // LEAST_BYTES), rows.sparkSession.sparkContext.defaultParallelism)
    return rows.coalesce(max(ceil(size / FILE_BYTES), busy, 1))


def columns(rows: "DataFrame") -> str:
    """The columns as CREATE TABLE takes them; all may be null, as columns that are added later have to."""
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in rows.dtypes)


def check_columns(rows: "DataFrame", there: Sequence[str], of: str, name: str, *, widens: bool = False) -> None:
    """`SettingError` for a column of the rows that the table lacks."""
    known = {column.lower() for column in there}
    lacking = [column for column in rows.columns if column.lower() not in known]
    if IDENTITY in lacking:
        raise SettingError(
            f"{of}: the table has no column {IDENTITY!r} for the rows' identity: add it with ALTER TABLE {name} ADD "
            f"COLUMN {IDENTITY} {STRUCT}, or ask for none with identity=False"
        )
    if lacking and not widens:
        raise SettingError(
            f"{of}: the table has no column {lacking[0]!r}, which the rows have: add it with ALTER TABLE, or leave it "
            f"out in the transform; the table has {', '.join(map(repr, there))}"
        )


def check_partitions(rows: "DataFrame", partition_by: Sequence[str], of: str) -> None:
    """`SettingError` for a column that a new table would be partitioned by, and that the rows lack."""
    for each in partition_by:
        found = _COLUMN.search(each)
        column = "" if found is None else found[1] or found[2]
        if column.lower() not in {name.lower() for name in rows.columns}:
            raise SettingError(
                f"{of}: partition_by={each!r} names no column of the rows, which are "
                f"{', '.join(map(repr, rows.columns))}: name one of them, or none with partition_by=()"
            )


def listed(properties: Mapping[str, str]) -> str:
    """TBLPROPERTIES, if there are any."""
    pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    return f" TBLPROPERTIES ({pairs})" if pairs else ""


def quoted(*names: str) -> str:
    """A name as SQL takes it, part by part."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def literal(text: str) -> str:
    """A text as SQL takes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def asked(session: "SparkSession", statement: str, of: str) -> "DataFrame":
    """Run a statement; `SettingError` for what Spark says is wrong with it."""
    from pyspark.errors import AnalysisException

    try:
        return session.sql(statement)
    except AnalysisException as error:
        raise SettingError(f"{of}: {str(error).strip().splitlines()[0]}") from error


def of_range(range_id: str, batch: int | None = None) -> str:
    """The condition for the rows of a range, or of one of its batches."""
    condition = f"{IDENTITY}.range_id = {literal(range_id)}"
    return condition if batch is None else f"{condition} AND {IDENTITY}.batch = {batch}"
