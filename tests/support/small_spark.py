"""As much of Spark as a load uses, in this process: lazy frames of Arrow batches, tasks, and the functions of columns.

    SmallSession(run)        `range`, `sparkContext`; `run` is given the tasks of each job that writes, and runs them
    functions                what stands for `pyspark.sql.functions`
    here()                   what stands for `TaskContext.get()`

A partition is a function that makes its batches, as lazy as Spark's: what is narrow runs in the task that asks for it,
so a coalesced frame has one task for all its partitions, and tells them all the number of that task.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.types import LongType, NullType, StructField, StructType

Batches = Iterator[pa.RecordBatch]
Part = Callable[[], Batches]
Tasks = Sequence[Callable[[], Any]]
Run = Callable[[Tasks], list[Any]]

_NUMBER_BITS = 33
_tasks: list[int] = []


@contextmanager
def _task(number: int) -> Iterator[None]:
    _tasks.append(number)
    try:
        yield
    finally:
        _tasks.pop()


def here() -> Any:
    """The task that runs now."""
    number = _tasks[-1]
    return SimpleNamespace(partitionId=lambda: number, attemptNumber=lambda: 0)


def _in_task(number: int, work: Callable[[], Any]) -> Any:
    with _task(number):
        return work()


def in_turn(tasks: Tasks) -> list[Any]:
    """Run tasks one after the other."""
    return [task() for task in tasks]


@dataclass(frozen=True)
class Column:
    """A value for each row of a batch; it is told the partition's number and how many rows came before.

    `fields` are those of a struct.
    """

    name: str
    of: Callable[[pa.RecordBatch, int, int], pa.Array]
    fields: tuple["Column", ...] = ()

    def kind(self, known: StructType) -> Any:
        """Its type, as far as it has to be known: that of what was there already, and of structs."""
        if self.fields:
            return StructType([StructField(each.name, each.kind(known)) for each in self.fields])
        return known[self.name].dataType if self.name in known.names else NullType()

    def alias(self, name: str) -> "Column":
        return replace(self, name=name)

    def cast(self, kind: str) -> "Column":
        return self._mapped(lambda values: values.cast({"int": pa.int32(), "long": pa.int64()}.get(kind, kind)))

    def _mapped(self, change: Callable[[pa.Array], pa.Array]) -> "Column":
        return Column(self.name, lambda *row: change(self.of(*row)))

    def __add__(self, other: "Column") -> "Column":
        return Column(self.name, lambda *row: pc.add(self.of(*row).cast("int64"), other.of(*row).cast("int64")))


def _col(name: str | Column) -> Column:
    if isinstance(name, Column):
        return name
    outer, _, inner = name.partition(".")

    def of(batch: pa.RecordBatch, *_: int) -> pa.Array:
        return pc.struct_field(batch.column(outer), inner) if inner else batch.column(name)

    return Column(inner or name, of)


def _numbers(batch: pa.RecordBatch, number: int, before: int) -> pa.Array:
    first = (number << _NUMBER_BITS) + before
    return pa.array(range(first, first + batch.num_rows), pa.int64())


def _each(change: Callable[..., Any], *columns: str | Column) -> Column:
    found = [_col(column) for column in columns]

    def of(*row: Any) -> pa.Array:
        values = zip(*(column.of(*row).to_pylist() for column in found), strict=True)
        return pa.array([change(*each) for each in values], pa.int64())

    return Column("each", of)


def _struct(*columns: str | Column) -> Column:
    fields = tuple(_col(column) for column in columns)
    names = [field.name for field in fields]
    return Column("struct", lambda *row: pa.StructArray.from_arrays([f.of(*row) for f in fields], names), fields)


def _lit(value: Any) -> Column:
    return Column("lit", lambda batch, *_: pa.array([value] * batch.num_rows, pa.scalar(value).type))


def _udf(function: Callable[..., pa.Array], _kind: str) -> Callable[..., Column]:
    return lambda *columns: Column("udf", lambda *row: function(*(column.of(*row) for column in columns)))


def _in_common(*columns: Column) -> Column:
    return Column(
        "coalesce", lambda *row: pc.coalesce(*(column.of(*row).cast("int64") for column in columns)).cast("int64")
    )


functions: Any = SimpleNamespace(
    col=_col,
    lit=_lit,
    count=lambda column: column,
    struct=_struct,
    coalesce=_in_common,
    pmod=partial(_each, lambda value, by: None if value is None else value % by),
    hash=partial(_each, lambda value: zlib.crc32(value or b"null")),
    monotonically_increasing_id=lambda: Column("id", _numbers),
    unix_millis=lambda name: _col(name)._mapped(lambda times: times.cast(pa.timestamp("ms", "UTC")).cast("int64")),
    arrow_udf=_udf,
)


@dataclass
class SmallObservation:
    """A count of rows under a name, once a job is done with them."""

    get: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SmallFrame:
    """A DataFrame; names are all that its schema has to know of its columns."""

    session: "SmallSession"
    parts: tuple[Part, ...]
    schema: Any

    @property
    def columns(self) -> list[str]:
        return [each.name for each in self.schema.fields]

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return [(each.name, each.dataType.simpleString()) for each in self.schema.fields]

    @property
    def rdd(self) -> "SmallFrame":
        return self

    def getNumPartitions(self) -> int:
        return len(self.parts)

    def mapInArrow(self, function: Callable[[Batches], Batches], schema: Any) -> "SmallFrame":
        def mapped(part: Part) -> Batches:
            return function(part())

        return replace(self, parts=tuple(partial(mapped, part) for part in self.parts), schema=schema)

    def select(self, *names: str | Column) -> "SmallFrame":
        columns = [_col(name) for name in names]
        parts = tuple(partial(_selected, part, number, columns) for number, part in enumerate(self.parts))
        return replace(self, parts=parts, schema=self._with(columns))

    def withColumn(self, name: str, column: Column) -> "SmallFrame":
        others = [each for each in self.columns if each != name]
        return self.select(*others, column.alias(name))

    def _with(self, columns: Sequence[Column]) -> StructType:
        return StructType([StructField(each.name, each.kind(self.schema)) for each in columns])

    def drop(self, *names: str) -> "SmallFrame":
        return self.select(*(each for each in self.columns if each not in names))

    def observe(self, observation: SmallObservation, count: Column) -> "SmallFrame":
        def seen(part: Part) -> Batches:
            for batch in part():
                observation.get[count.name] = observation.get.get(count.name, 0) + batch.num_rows
                yield batch

        observation.get[count.name] = 0
        return replace(self, parts=tuple(partial(seen, part) for part in self.parts))

    def persist(self) -> "SmallFrame":
        kept: dict[int, list[pa.RecordBatch]] = {}

        def rows(number: int, part: Part) -> Batches:
            if number not in kept:
                kept[number] = list(part())
            return iter(kept[number])

        return replace(self, parts=tuple(partial(rows, number, part) for number, part in enumerate(self.parts)))

    def unpersist(self) -> None:
        pass

    @property
    def write(self) -> "SmallWrite":
        return SmallWrite(self)

    def coalesce(self, partitions: int) -> "SmallFrame":
        assert partitions == 1
        return replace(self, parts=(lambda: chain.from_iterable(part() for part in self.parts),))

    def repartitionById(self, partitions: int, column: Column) -> "SmallFrame":
        shuffled: list[pa.Table] = []

        def rows(number: int) -> Batches:
            if not shuffled:
                dealt = self.select(*self.columns, column.alias("_to"))
                shuffled.extend(_table(part, each) for each, part in enumerate(dealt.parts))
            for table in shuffled:
                if table is not None:
                    yield from table.filter(pc.equal(table["_to"], number)).drop_columns(["_to"]).to_batches()

        return replace(self, parts=tuple(partial(rows, number) for number in range(partitions)))

    def sortWithinPartitions(self, name: str) -> "SmallFrame":
        def rows(part: Part) -> Batches:
            batches = list(part())
            return iter(pa.Table.from_batches(batches).sort_by(name).combine_chunks().to_batches() if batches else [])

        return replace(self, parts=tuple(partial(rows, part) for part in self.parts))

    def collect(self) -> list[Row]:
        jobs = [partial(_in_task, number, partial(_rows, part)) for number, part in enumerate(self.parts)]
        return [row for rows in self.session.run(jobs) for row in rows]

    @property
    def sparkSession(self) -> "SmallSession":
        return self.session


@dataclass(frozen=True)
class SmallWrite:
    """Writes a frame over what is in a folder, one file for each task; or nowhere."""

    frame: SmallFrame

    def format(self, _name: str) -> "SmallWrite":
        return self

    def options(self, **_options: str) -> "SmallWrite":
        return self

    def mode(self, name: str) -> "SmallWrite":
        assert name == "overwrite"
        return self

    def save(self, folder: str | None = None) -> None:
        files = self.frame.session.files
        for name in [each for each in files if folder is not None and each.startswith(f"{folder}/")]:
            del files[name]

        def saved(number: int, part: Part) -> None:
            rows = _in_task(number, partial(_rows, part))
            if folder is not None:
                files[f"{folder}/part-{number}"] = rows

        self.frame.session.run([partial(saved, number, part) for number, part in enumerate(self.frame.parts)])


def _selected(part: Part, number: int, columns: Sequence[Column]) -> Batches:
    before = 0
    for batch in part():
        values = [column.of(batch, number, before) for column in columns]
        yield pa.RecordBatch.from_arrays(values, [column.name for column in columns])
        before += batch.num_rows


def _table(part: Part, number: int) -> pa.Table | None:
    batches = _in_task(number, lambda: list(part()))
    return pa.Table.from_batches(batches) if batches else None


def _rows(part: Part) -> list[Row]:
    return [Row(**values) for batch in part() for values in batch.to_pylist()]


@dataclass
class Accumulator:
    value: Any
    param: Any

    def add(self, more: Any) -> None:
        self.value = self.param.addInPlace(self.value, more)


@dataclass(frozen=True)
class SmallRdd:
    """Pieces of work, each its own partition."""

    run: Run
    pieces: tuple[Any, ...]
    function: Callable[[Iterable[Any]], Iterator[Any]] = iter

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterator[Any]]) -> "SmallRdd":
        return replace(self, function=function)

    def collect(self) -> list[Any]:
        def work(piece: Any) -> list[Any]:
            return list(self.function(iter([piece])))

        jobs = [partial(_in_task, number, partial(work, piece)) for number, piece in enumerate(self.pieces)]
        return [found for each in self.run(jobs) for found in each]


@dataclass(frozen=True)
class SmallContext:
    run: Run
    defaultParallelism: int = 2

    def parallelize(self, pieces: Sequence[Any], partitions: int) -> SmallRdd:
        assert len(pieces) == partitions
        return SmallRdd(self.run, tuple(pieces))

    def accumulator(self, value: Any, param: Any) -> Accumulator:
        return Accumulator(value, param)

    def runJob(self, frame: SmallFrame, function: Callable[[Iterable[Row]], Iterable[Any]], numbers: list[int]) -> Any:
        jobs = [partial(_in_task, each, partial(_rows, frame.parts[each])) for each in numbers]
        return [found for rows in in_turn(jobs) for found in function(iter(rows))]


@dataclass(frozen=True)
class SmallSession:
    """A session, which is also what starts it. `files` has the documents and the rows that were saved."""

    run: Run = in_turn
    files: dict[str, Any] = field(default_factory=dict)
    sparkContext: SmallContext = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sparkContext", SmallContext(self.run))

    def started(self) -> "SmallSession":
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> SmallFrame:
        assert (start, step, end) == (0, 1, partitions)

        def ids(number: int) -> Batches:
            return iter([pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], ["id"])])

        parts = tuple(partial(ids, number) for number in range(partitions))
        return SmallFrame(self, parts, StructType([StructField("id", LongType())]))
