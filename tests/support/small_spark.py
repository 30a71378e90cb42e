"""As much of Spark as a load uses, in this process: lazy frames of Arrow batches, whose parts run as tasks.

    SmallEngine(facts, run)    what stands for Spark; `run` is given the tasks of each job, and runs them

A part is a function that makes its batches, as lazy as Spark's: what is narrow runs in the task that asks for it, so a
coalesced frame has one task for all its parts.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import DataType, IntegerType, LongType, NullType, StructField, StructType

from airflow_provider_orderedkafka.core.batches import Planned
from airflow_provider_orderedkafka.core.commits import IDENTITY
from airflow_provider_orderedkafka.core.lanes import OrderBy
from airflow_provider_orderedkafka.kafka.provenance import ORDINAL, SEQUENCE, SOURCE, SOURCE_FIELDS
from airflow_provider_orderedkafka.kafka.write.writing import partitions_of
from airflow_provider_orderedkafka.spark.application.batch_loop import BatchLoop
from airflow_provider_orderedkafka.spark.lanes.making import with_source
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter
from airflow_provider_orderedkafka.spark.session.plans import PlanFacts

Batches = Iterator[pa.RecordBatch]
Part = Callable[[], Batches]
Tasks = Sequence[Callable[[], Any]]
Run = Callable[[Tasks], list[Any]]

NUMBER_BITS = 33


def in_turn(tasks: Tasks) -> list[Any]:
    """Run tasks one after the other."""
    return [task() for task in tasks]


@dataclass(frozen=True)
class SmallFrame:
    """A DataFrame, of which names are all that its schema has to know of most columns."""

    engine: "SmallEngine"
    parts: tuple[Part, ...]
    schema: StructType

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        return [(each.name, each.dataType.simpleString()) for each in self.schema.fields]

    def each(self, change: Callable[[int, Part], Batches], schema: StructType | None = None) -> "SmallFrame":
        """The frame whose parts are made of these, by their numbers."""
        parts = tuple(partial(change, number, part) for number, part in enumerate(self.parts))
        return replace(self, parts=parts, schema=schema or self.schema)

    def mapInArrow(self, function: Callable[[Batches], Batches], schema: StructType) -> "SmallFrame":
        return self.each(lambda _, part: function(part()), schema)

    def select(self, *names: str) -> "SmallFrame":
        """Columns, or fields of one that is a struct."""

        def selected(batch: pa.RecordBatch) -> pa.RecordBatch:
            found = [pa.RecordBatch.from_struct_array(batch[o])[i] if i else batch[o] for o, _, i in paths]
            return pa.RecordBatch.from_arrays(found, [inner or outer for outer, _, inner in paths])

        paths = [name.partition(".") for name in names]
        outer = {each.name: each.dataType for each in self.schema.fields}
        fields = [StructField(i or o, outer[o][i].dataType if i else outer[o]) for o, _, i in paths]
        return self.each(lambda _, part: map(selected, part()), StructType(fields))

    def drop(self, *names: str) -> "SmallFrame":
        return self.select(*(each for each in self.columns if each not in names))

    def coalesce(self, partitions: int) -> "SmallFrame":
        count = len(self.parts)
        of_tasks = [self.parts[n * count // partitions : (n + 1) * count // partitions] for n in range(partitions)]
        return replace(self, parts=tuple(partial(_chained, parts) for parts in of_tasks if parts))

    def persist(self) -> "SmallFrame":
        kept: dict[int, list[pa.RecordBatch]] = {}

        def rows(number: int, part: Part) -> Batches:
            if number not in kept:
                kept[number] = list(part())
            return iter(kept[number])

        return self.each(rows)

    def unpersist(self) -> None:
        pass

    def collect(self) -> list[Row]:
        return [row for rows in self.engine.run_tasks([partial(_rows, part) for part in self.parts]) for row in rows]

    def isLocal(self) -> bool:
        return False

    @property
    def write(self) -> "SmallWrite":
        return SmallWrite(self)


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
        files = self.frame.engine.files
        for name in [each for each in files if folder is not None and each.startswith(f"{folder}/")]:
            del files[name]

        def saved(number: int, part: Part) -> None:
            rows = _rows(part)
            if folder is not None:
                files[f"{folder}/part-{number}"] = rows

        self.frame.engine.run_tasks([partial(saved, number, part) for number, part in enumerate(self.frame.parts)])


def _chained(parts: Sequence[Part]) -> Batches:
    return chain.from_iterable(part() for part in parts)


def _rows(part: Part) -> list[Row]:
    return [Row(**values) for batch in part() for values in batch.to_pylist()]


@dataclass
class Accumulator:
    value: Any
    param: Any

    def add(self, more: Any) -> None:
        self.value = self.param.addInPlace(self.value, more)


class Accumulators:
    """What makes them."""

    def accumulator(self, value: Any, param: Any) -> Accumulator:
        return Accumulator(value, param)


@dataclass(frozen=True)
class SmallEngine:
    """What stands for Spark. `facts_of_all` is what is known of any rows, `files` are the rows that were saved."""

    facts_of_all: PlanFacts
    run_tasks: Run = in_turn
    files: dict[str, Any] = field(default_factory=dict)
    cores: int = 2
    session: Any = None

    def counter(self) -> TaskCounter:
        accumulators: Any = Accumulators()
        return TaskCounter(accumulators)

    def numbers(self, parts: int, tasks: int | None = None) -> Any:
        def numbered(number: int) -> Batches:
            return iter([pa.record_batch({"id": pa.array([number], pa.int64())})])

        kind = StructType([StructField("id", LongType())])
        return SmallFrame(self, tuple(partial(numbered, number) for number in range(parts)), kind).coalesce(
            tasks or parts
        )

    def collected(self, frame: Any, parts: Iterable[int]) -> list[Row]:
        return [row for number in parts if number < len(frame.parts) for row in _rows(frame.parts[number])]

    def failed_part(self, _frame: Any, _parts: int) -> int | None:
        return None

    def facts(self, _frame: Any, _below: str | None = None) -> PlanFacts:
        return self.facts_of_all

    def sourced(self, frame: Any) -> Any:
        kind = StructType([frame.schema[name] for name in SOURCE_FIELDS])
        return _with(frame, SOURCE, kind, lambda batch, *_: with_source(batch).column(SOURCE))

    def counted(self, frame: Any) -> tuple[Any, Callable[[], int]]:
        seen = [0] * len(frame.parts)

        def rows(number: int, part: Part) -> Batches:
            seen[number] = 0
            for batch in part():
                seen[number] += batch.num_rows
                yield batch

        return frame.each(rows), lambda: sum(seen)

    def identified(self, frame: Any, range_name: str, batch: int, _more: Any = None) -> Any:
        def identity(rows: pa.RecordBatch, *_: int) -> pa.Array:
            source = pa.RecordBatch.from_struct_array(rows.column(SOURCE))
            fields = {"range_id": [range_name] * len(source), "batch": [batch] * len(source)}
            fields |= {name: source.column(name) for name in ("topic", "partition", "offset")}
            fields["ordinal"] = rows.column(ORDINAL) if ORDINAL in rows.schema.names else [0] * len(source)
            return pa.record_batch(fields).to_struct_array()

        return _with(frame, IDENTITY, NullType(), identity)

    def distributed(self, frame: Any, by: OrderBy, writers: int, partitions: int | None = None) -> Any:
        """By a shuffle of rows that are numbered, if there are several writers."""

        def numbers(batch: pa.RecordBatch, number: int, before: int) -> pa.Array:
            first = (number << NUMBER_BITS) + before
            return pa.array(range(first, first + batch.num_rows), pa.int64())

        frame = _with(frame, SEQUENCE, LongType(), numbers)
        if by == "partition" and partitions is not None:
            frame = _with(frame, "partition", IntegerType(), lambda batch, *_: _placed(batch, partitions))
        if writers == 1:
            return frame.coalesce(1)
        shuffled: list[list[Any]] = []

        def rows(writer: int) -> Batches:
            if not shuffled:
                shuffled.extend([] for _ in range(writers))
                for batch in chain.from_iterable(part() for part in frame.parts):
                    for number, to in enumerate(_writer(batch, by, writers)):
                        shuffled[to].append(batch.slice(number, 1))
            return iter(shuffled[writer])

        return replace(frame, parts=tuple(partial(rows, writer) for writer in range(writers)))


def _writer(batch: pa.RecordBatch, by: OrderBy, writers: int) -> list[int]:
    if by == "key":
        return [zlib.crc32(key or b"null") % writers for key in batch.column("key").to_pylist()]
    return [partition % writers for partition in batch.column("partition").to_pylist()]


def _placed(batch: pa.RecordBatch, partitions: int) -> pa.Array:
    """The partition of each row, by its key, or else by its source."""
    by_key = partitions_of(batch.column("key"), partitions).to_pylist()
    source = [(each["offset"] + each["partition"]) % partitions for each in batch.column(SOURCE).to_pylist()]
    placed = [other if each is None else each for each, other in zip(by_key, source, strict=True)]
    return pa.array(placed, pa.int32())


def _with(
    frame: SmallFrame, name: str, kind: DataType, column: Callable[[pa.RecordBatch, int, int], pa.Array]
) -> SmallFrame:
    """With one more column, or another one; it is told the part's number and how many rows came before."""

    def added(number: int, part: Part) -> Batches:
        before = 0
        for batch in part():
            rows = batch.drop_columns([each for each in [name] if each in batch.schema.names])
            yield rows.append_column(name, column(batch, number, before))
            before += batch.num_rows

    return frame.each(added, StructType([*frame.drop(name).schema.fields, StructField(name, kind)]))


class Host:
    def ready(self) -> None:
        pass

    def wait_for_tasks(self) -> None:
        pass

    def spent(self) -> int | None:
        return 0

    def tell(self, *_: Any) -> None:
        pass


def hand_over(window: Sequence[Planned], loop: BatchLoop) -> None:
    """Hand over the batches of a window, some too early; what Spark's query does."""
    for planned in (*window[1::2], *window[::2]):
        loop.take(planned)
