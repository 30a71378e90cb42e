"""Upserts: batches merged into a table of Iceberg or Delta of which each row is the last one of its key.

- A row comes in where its key is not there. It replaces the row of its key if it is later: within one partition of a
  topic by offset and ordinal, which is right whatever was rewound; otherwise by its position in the load's order.
- Of a record that is there, a row gives its values anew; the later one of its order times stays.
- What is loaded "again" does nothing else than that.
- A delete leaves a row, with its key and `_is_deleted`: what is older than it may still come.

So a batch may be merged as often as one likes, by any attempt, and nothing has to be looked for before.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from ...core.batches import Batch, Note, Tally
from ...core.commits import DELETED, IDENTITY, TableVersion
from ...core.documents import Changes
from ...core.order.positions import TopicPartition
from ...errors import RowError, SettingError
from ...kafka.provenance import ORDINAL, SOURCE
from ...kafka.replay.landed import Landed
from ..lanes.engine import Engine
from ..session.starting import ADAPTIVE
from .columns import quoted
from .table import LakeTable, identified, in_few_files
from .writer import OutputTable, TableBefore, TableWriter, column_tally

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

TURN: Final = f"{IDENTITY}_turn"
POSITION: Final = ("order_time", "topic", "partition", "offset", "ordinal")
PARTITION: Final = ("topic_id", "topic", "partition")
WITHIN: Final = ("offset", "ordinal")
OWN: Final = frozenset({IDENTITY, DELETED, SOURCE, ORDINAL})

WITHOUT_LOSS: Final = (
    *("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"),
    *("tinyint", "smallint", "int", "bigint", "decimal"),
)
"""Types of which two values are the same one where they are equal."""

Field = Callable[[str], str]
"""How a field of an identity is written in SQL, of the new row or of the one that is there."""


def same(new: Field, there: Field, fields: Sequence[str]) -> str:
    return " AND ".join(f"{new(each)} = {there(each)}" for each in fields)


def later(new: Field, there: Field, fields: Sequence[str] = POSITION) -> str:
    """Whether the new one comes after the one that is there, by these fields, the first one first."""
    first, *rest = fields
    above = f"{new(first)} > {there(first)}"
    return f"({above} OR ({new(first)} = {there(first)} AND {later(new, there, rest)}))" if rest else above


def replaces(new: Field, there: Field) -> str:
    within = same(new, there, PARTITION)
    return f"CASE WHEN {within} THEN {later(new, there, WITHIN)} ELSE {later(new, there)} END"


def of_record(new: Field, there: Field) -> str:
    return same(new, there, (*PARTITION, *WITHIN))


def _new(field: str) -> str:
    return f"s.{IDENTITY}.{quoted(field)}"


def _target(field: str) -> str:
    return f"t.{IDENTITY}.{quoted(field)}"


@dataclass(frozen=True, slots=True)
class Merge:
    """The statements that merge rows of these columns into the table `name`, which has the `lacking` ones, too."""

    name: str
    columns: Sequence[str]
    lacking: Sequence[str]
    keys: Sequence[str]
    again: bool

    def met(self, rows: str) -> str:
        """How many of the rows find their key there, by what they change, and of how many it moves."""
        change = f"WHEN s.{DELETED} THEN 'deleted' WHEN t.{DELETED} THEN 'inserted' ELSE 'updated'"
        moved = f"{self._applies} AND NOT ({same(_new, _target, PARTITION)})"
        return (
            f"SELECT CASE WHEN NOT {self._applies} THEN 'unchanged' {change} END AS change, count(*) AS keys, "  # noqa: S608
            f"count_if(s.{DELETED}) AS deletes, count_if({moved}) AS moved "
            f"FROM {self.name} t JOIN {rows} s ON {self._matches} GROUP BY 1"
        )

    def merged(self, rows: str) -> str:
        given = [each for each in self.columns if each not in {*self.keys, IDENTITY}]
        identity = [] if self.again else [f"t.{IDENTITY} = {self._identity}"]
        values = [f"t.{quoted(each)} = s.{quoted(each)}" for each in given]
        sets = ", ".join([*values, *(f"t.{quoted(each)} = NULL" for each in self.lacking), *identity])
        names, inserted = (", ".join(f"{of}{quoted(each)}" for each in self.columns) for of in ("", "s."))
        absent = "" if self.again else f" WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({inserted})"  # noqa: S608 - quoted
        return (
            f"MERGE INTO {self.name} t USING {rows} s ON {self._matches} "
            f"WHEN MATCHED AND {self._applies} THEN UPDATE SET {sets}{absent}"
        )

    @property
    def _matches(self) -> str:
        of_key = " AND ".join(f"s.{quoted(each)} = t.{quoted(each)}" for each in self.keys)
        return f"{of_key} AND {of_record(_new, _target)}" if self.again else of_key

    @property
    def _applies(self) -> str:
        return "true" if self.again else f"({replaces(_new, _target)} OR ({of_record(_new, _target)}))"

    @property
    def _identity(self) -> str:
        names = ("range_id", "batch", *POSITION[1:], "topic_id")
        latest = f"greatest({_new('order_time')}, {_target('order_time')})"
        time = f"CASE WHEN {of_record(_new, _target)} THEN {latest} ELSE {_new('order_time')} END"
        fields = [*((each, _new(each)) for each in names), ("order_time", time)]
        return f"named_struct({', '.join(f'{name!r}, {text}' for name, text in fields)})"


def last_of_each(rows: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    """The last row of each key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    latest_first = [f.col(f"{IDENTITY}.{each}").desc() for each in POSITION]
    of_key = Window.partitionBy(*(f.col(quoted(key)) for key in keys)).orderBy(*latest_first)
    return rows.withColumn(TURN, f.row_number().over(of_key)).where(f"{TURN} = 1").drop(TURN)


def with_deletes(rows: "DataFrame", deletes: str | None, of: str) -> "DataFrame":
    """The rows with `_is_deleted`; those of which it is true have their key and what says where they are from, only."""
    from pyspark.sql import functions as f

    there = {name.lower(): name for name in rows.columns}
    if deletes is not None and DELETED in there:
        raise SettingError(
            f"{of}: the column {DELETED!r} and deletes={deletes!r} both say which rows delete their key: leave one out"
        )
    if deletes is None and not {DELETED, "value"} & there.keys():
        raise SettingError(
            f"{of}: nothing says which rows delete their key: they have no column {DELETED!r} or 'value', found "
            f'{", ".join(map(repr, rows.columns))}: set Rows(deletes=...), such as "op = \'d\'", or "false"'
        )
    if deletes is not None:
        return rows.withColumn(DELETED, f.expr(deletes).cast("boolean"))
    if DELETED in there:
        return rows.withColumnRenamed(there[DELETED], DELETED)
    return rows.withColumn(DELETED, f.col(there["value"]).isNull())


def without_values(rows: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    from pyspark.sql import functions as f

    kept = {*(key.lower() for key in keys), *OWN}
    values = {name: f.when(~f.col(DELETED), f.col(quoted(name))) for name in rows.columns if name.lower() not in kept}
    return rows.withColumns(values)


def check_keys(rows: "DataFrame", keys: Sequence[str], of: str) -> None:
    kinds = {name.lower(): kind for name, kind in rows.dtypes}
    for key in keys:
        kind = kinds.get(key.lower())
        if kind is None:
            there = ", ".join(map(repr, rows.columns))
            raise SettingError(f"{of}: upsert={key!r} is no column of the rows, which are {there}")
        if kind.partition("(")[0] not in WITHOUT_LOSS:
            raise SettingError(
                f"{of}: upsert={key!r} is of type {kind}, whose values can mean the same without being equal: "
                f"make it one of {', '.join(WITHOUT_LOSS)} in a transform"
            )


@dataclass(frozen=True, slots=True)
class UpsertTable(OutputTable):
    """A table of upserts; `topic_ids` are those of the range's topics, `deletes` says which rows delete their key."""

    topic_ids: Mapping[str, str] = field(default_factory=dict)
    deletes: str | None = None

    @property
    def lake(self) -> LakeTable[Any]:
        assert isinstance(self.table, LakeTable)  # files have no upserts
        return self.table

    def may_double(self, _batch: Batch) -> int | None:
        return 0 if self.dead_letters is None else None

    def seen(self, _batch: int) -> TableVersion | None:
        return None

    def there(self, _note: Note) -> TableBefore:
        """Nothing that matters: what landed is merged again."""
        return TableBefore()

    def named(self, rows: "DataFrame", engine: Engine, batch: int) -> "DataFrame":
        from pyspark.sql import functions as f

        output = self.lake.output
        check_keys(rows, output.upsert, output.of)
        ids = f.create_map(*(f.lit(text) for pair in self.topic_ids.items() for text in pair))
        more = {"topic_id": ids[f.col(f"{SOURCE}.topic")], "order_time": f.col(f"{SOURCE}.order_time")}
        marked = without_values(with_deletes(rows, self.deletes, output.of), output.upsert)
        found = identified(marked, engine, self.range_name, batch, more)
        own = [name for key in output.upsert for name in found.columns if name.lower() == key.lower()]
        return found.select(*map(quoted, [*own, *(each for each in found.columns if each not in own)]))


@dataclass(frozen=True, slots=True)
class UpsertWriter(TableWriter):
    """Merges each batch by one commit."""

    output: UpsertTable

    def write(self, batch: Batch, note: Note, before: TableBefore | None) -> Tally:
        tally = TableWriter.write(self, batch, note, before)
        return tally if before is None else replace(tally, changes=Changes(unknown=tally.rows_emitted))

    def written(self, batch: Batch, note: Note, dead_letters: Landed) -> Tally:  # noqa: ARG002 - as it is elsewhere
        slices = self.frames.for_tasks(batch)
        rows, counted = self.rows(batch, dead_letters, slices)
        columns = self.output.table.settle(rows.schema)
        with self.frames.located(batch, rows, slices), _as_many_tasks_as_it_takes(self.frames.engine.session):
            emitted, changes = self._merged(self.output.lake.kept(columns.fit(rows)), self.size(batch))
        found = replace(counted(), rows_emitted=emitted, changes=changes).plus(column_tally(columns))
        return replace(found, bytes_written=None, files_written=None)  # Spark does not say which commit is its merge

    def _merged(self, rows: "DataFrame", size: float | None) -> tuple[int, Changes]:
        table = self.output.lake
        keys = rows.columns[: len(table.output.upsert)]  # as the rows write them
        again = table.upsert is not None and table.upsert.stage == "again"
        merge = Merge(table.name, rows.columns, table.lacking(rows.columns), keys, again)
        rows, emitted = self.frames.engine.counted(rows)
        # what is kept stays in the tasks it has, and so do the files that are made of it
        given = in_few_files(rows if again else last_of_each(rows, keys), self.frames.engine.cores, size).persist()
        try:
            [total] = given.agg(*_totals(keys)).collect()
            if not total["keys"]:
                return 0, Changes()
            if total["wrong"]:
                raise _wrong(given, keys)
            with _view(given) as name:
                changes = _changes(total, table.sql(merge.met(name)).collect(), again=again)
                if changes.inserted or changes.updated or changes.deleted:
                    table.merge(merge.merged(name))
        finally:
            given.unpersist()
        return emitted(), changes


def _totals(keys: Sequence[str]) -> "list[Column]":
    from pyspark.sql import functions as f

    counts = {"keys": f.count(f.lit(1)), "deletes": f.count_if(f.col(DELETED)), "wrong": f.count_if(_is_wrong(keys))}
    return [count.alias(name) for name, count in counts.items()]


def _is_wrong(keys: Sequence[str]) -> "Column":
    from pyspark.sql import functions as f

    return reduce(or_, [f.col(quoted(each)).isNull() for each in (*keys, DELETED)])


def _changes(total: "Row", met: "Sequence[Row]", *, again: bool) -> Changes:
    """What the rows of a batch change. Those that do not find their key are new, unless they are loaded again."""
    absent = total["keys"] - sum(row["keys"] for row in met)
    deletes = total["deletes"] - sum(row["deletes"] for row in met)
    found = Changes(moved=sum(row["moved"] for row in met), **{row["change"]: row["keys"] for row in met})
    return found + (Changes(unchanged=absent) if again else Changes(inserted=absent - deletes, deleted=deletes))


@contextmanager
def _as_many_tasks_as_it_takes(session: "SparkSession") -> Iterator[None]:
    """Let Spark choose how many tasks shuffle, which elsewhere would lose the order: a merge has none."""
    before = session.conf.get(ADAPTIVE)
    session.conf.set(ADAPTIVE, "true")
    try:
        yield
    finally:
        session.conf.set(ADAPTIVE, before)


@contextmanager
def _view(frame: "DataFrame") -> Iterator[str]:
    name = f"orderedkafka_{secrets.token_hex(6)}"
    frame.createTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


def _wrong(rows: "DataFrame", keys: Sequence[str]) -> RowError:
    row = rows.where(_is_wrong(keys)).orderBy(*(f"{IDENTITY}.{each}" for each in POSITION)).first()
    assert row is not None
    where = TopicPartition(row[IDENTITY]["topic"], row[IDENTITY]["partition"]).at(row[IDENTITY]["offset"])
    null = next(each for each in (*keys, DELETED) if row[each] is None)
    return RowError(
        f"{where}: the column {null!r} of an upsert is null, as an empty text is in what partitions a table of Delta; "
        "but a row must have its whole key, and say whether it deletes that: leave such rows out in a transform, or "
        "fill in a value, as with coalesce()"
    )
