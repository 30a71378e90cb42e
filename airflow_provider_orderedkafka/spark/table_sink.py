"""The table sink: batches of a range as rows of tables and files.

Every row belongs to a range and a batch, and a batch is written in place of what an earlier attempt wrote of it: a
replay neither loses nor doubles rows, and nothing has to be noted for it. Files (Parquet, ORC, JSON, CSV, Avro) go to a
folder for each batch, `<path>/range_id=<range>/batch=<number>`; Spark reads the two as columns. A table of a catalog
(Iceberg, Delta, Hive, Spark's own) has them as partition columns; it is made where it is missing. Delta files by path
replace what has the same two values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.compat.spark import columns_as_ddl
from airflow_provider_orderedkafka.core.batches import Batch, Note, Setup, Tally
from airflow_provider_orderedkafka.core.notation.spelling import nearest
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.provenance import SOURCE
from airflow_provider_orderedkafka.spark.connector.option_tables import TABLE_SINK
from airflow_provider_orderedkafka.spark.lanes.arrow_transforms import as_frames, output_schema
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames, counted
from airflow_provider_orderedkafka.spark.lanes.limit import without_surplus
from airflow_provider_orderedkafka.spark.lanes.writer import Output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments
    from airflow_provider_orderedkafka.spark.lanes.bad_records import BadRecords
    from airflow_provider_orderedkafka.spark.lanes.kafka_output import Before

RANGE_ID, BATCH = "range_id", "batch"
FILES = frozenset({"parquet", "orc", "json", "csv", "avro"})
"""The formats that are folders of files, and nothing else."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An output whose batches are overwritten by a rerun, so that nothing has to be noted."""

    unprotected: None = None

    def noted(self, batch: Batch, attempt: int) -> Note:
        """The note, without outputs."""
        return Note(batch.number, attempt, batch.start, batch.end, Offsets(), {})

    def joined(self, note: Note) -> Note:
        """The note, unchanged."""
        return note

    def before(self, note: Note) -> None:
        """None: a rerun overwrites."""


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Writes each batch over what an earlier attempt wrote of it."""

    frames: RangeFrames
    put: Callable[["DataFrame", int], None]
    setup: Setup
    output: Output = Replaced()
    bad: "BadRecords | None" = None

    def write(self, batch: Batch, note: Note, before: "Before | None") -> Tally:
        """Write the batch over what an earlier attempt wrote of it."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        written, counters = Observation(), self.frames.counters()
        records, read = counted(self.frames.of_batch(batch, counters=counters))
        rows = without_surplus(self.frames.transformed(records, counters), batch.surplus).drop(SOURCE)
        self.put(rows.observe(written, f.count(f.lit(1)).alias("rows")), batch.number)
        dead = 0 if self.bad is None else self.bad.written(batch, note, before, counters.bad.total())
        return read().plus(Tally(rows_emitted=written.get["rows"], lost=counters.losses.total(), dead_letters=dead))


def table_sink(arguments: "Arguments", frames: RangeFrames) -> TableWriter:
    """Write to a table or to files, as `run_available_now(sink=table_sink)`; called once for each attempt.

    :param arguments: The application's command line.
    :param frames: The range, as DataFrames of its batches.
    """
    if arguments.output_topic is not None:
        raise SettingError("--output-topic is for Kafka: name where to write with --sink-option path=... or table=...")
    given = dict(arguments.sink_options)
    path, table, kind = given.pop("path", None), given.pop("table", None), given.pop("format", "parquet").lower()
    if (path is None) == (table is None):
        raise SettingError(
            f"where to write is not said, or said twice: set either --sink-option path=... or table=..., found "
            f"{sorted(arguments.sink_options)}{_hint(given)}"
        )
    if arguments.arrow_transform is not None:
        headers, decoder = frames.loaded.include_headers, frames.decoder
        schema = output_schema(arguments.arrow_transform, include_headers=headers, decoder=decoder)
        frames = replace(frames, transform=as_frames(arguments.arrow_transform, schema))
    from airflow_provider_orderedkafka.spark.lanes.bad_records import BadRecords, dead_letter_output

    dead = dead_letter_output(arguments, frames, given.pop("deadLetterTopic", None))
    output, bad = (Replaced(), None) if dead is None else (dead, BadRecords(frames, dead))
    _check_columns(frames.rows)
    setup = Setup(
        lane="frames",
        writers=0,
        keep_order="none",
        placed=None,
        output=f"{kind} {table or path}",
        transform=arguments.transform_name,
        reason="tables are written from DataFrames",
    )
    if table is not None:
        return TableWriter(frames, _InTable(frames, table, kind, given), setup, output, bad)
    assert path is not None
    way = _InFolders if kind in FILES else _ByCondition
    return TableWriter(frames, way(frames.loaded.id, path.rstrip("/"), kind, given), setup, output, bad)


def _hint(given: Mapping[str, str]) -> str:
    for name in given:
        if near := nearest(name, TABLE_SINK.parsers):
            return f"; did you mean {near!r} instead of {name!r}?"
    return ""


def _check_columns(rows: "DataFrame") -> None:
    taken = {RANGE_ID, BATCH} & {name.lower() for name in rows.columns}
    if taken:
        raise SettingError(
            f"the column {sorted(taken)[0]!r} is this sink's own: it says which batch a row belongs to. Rename the "
            f"transform's, found {', '.join(map(repr, rows.columns))}"
        )


@dataclass(frozen=True, slots=True)
class _InFolders:
    """A folder for each batch, overwritten as a whole."""

    range_id: str
    path: str
    kind: str
    options: Mapping[str, str]

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        folder = f"{self.path}/{RANGE_ID}={self.range_id}/{BATCH}={batch}"
        rows.write.format(self.kind).options(**self.options).mode("overwrite").save(folder)


@dataclass(frozen=True, slots=True)
class _ByCondition:
    """A format by path that replaces what matches a condition, such as Delta."""

    range_id: str
    path: str
    kind: str
    options: Mapping[str, str]

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        condition = f"{RANGE_ID} = {_quoted(self.range_id)} AND {BATCH} = {batch}"
        writer = _named(rows, self.range_id, batch).write.format(self.kind).options(**self.options)
        writer.mode("overwrite").option("replaceWhere", condition).partitionBy(RANGE_ID, BATCH).save(self.path)


class _InTable:
    """A catalog's table with a partition for each batch, overwritten as a whole."""

    def __init__(self, frames: RangeFrames, table: str, kind: str, options: Mapping[str, str]) -> None:
        self._frames = frames
        self._table = table
        self._make(kind, options)

    def _make(self, kind: str, options: Mapping[str, str]) -> None:
        columns = columns_as_ddl(_named(self._frames.rows.drop(SOURCE), "", 0))
        listed = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in options.items())
        self._frames.session.sql(
            f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) USING {kind} "
            f"{f'OPTIONS ({listed}) ' if listed else ''}PARTITIONED BY ({RANGE_ID}, {BATCH})"
        )

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        names = ", ".join(f"`{name.replace('`', '``')}`" for name in rows.columns)
        partition = f"{RANGE_ID} = {_quoted(self._frames.loaded.id)}, {BATCH} = {batch}"
        insert = f"INSERT OVERWRITE TABLE {self._table} PARTITION ({partition}) ({names})"
        rows.sparkSession.sql(f"{insert} SELECT {names} FROM {{rows}}", rows=rows)  # noqa: S608 - names are quoted


def _named(rows: "DataFrame", range_id: str, batch: int) -> "DataFrame":
    from pyspark.sql import functions as f

    return rows.withColumn(RANGE_ID, f.lit(range_id)).withColumn(BATCH, f.lit(batch).cast("long"))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
