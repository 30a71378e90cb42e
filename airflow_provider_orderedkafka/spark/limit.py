"""The row limit inside a batch: counted only if it may be reached, and applied without a shuffle.

Slices are counted in order, a few at a time, until the limit is passed. Behind the record that gave the last row every
partition stands at a literal offset; the batch is read again up to there, so reading ends where the limit does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_orderedkafka.core.batches import Allotment, Surplus
from airflow_provider_orderedkafka.core.cuts import Place
from airflow_provider_orderedkafka.core.limits import allot, passes, place_after
from airflow_provider_orderedkafka.core.positions import Position, TopicPartition
from airflow_provider_orderedkafka.kafka.write_settings import SOURCE
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.frames import SOURCE_FIELDS, RangeFrames
from airflow_provider_orderedkafka.spark.plans import read_plan

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

GROWTH = 2
"""Each wave counts so many times the slices of the one before it."""


@dataclass(frozen=True, slots=True)
class RowLimit:
    """Lets the first rows in order pass. `at_most_one` says that no record gives two rows."""

    frames: RangeFrames
    at_most_one: bool

    @classmethod
    def of(cls, frames: RangeFrames) -> Self:
        """That of a range, where it has one; rows in no order are refused then."""
        return cls(frames, frames.loaded.rows_left is not None and gives_at_most_one(frames))

    def allot(self, batch: Batch, left: int) -> Allotment | None:
        """How far the batch goes with so many rows left; None where all of it passes."""
        from pyspark.sql import functions as f

        if self.at_most_one and batch.end.offsets.since(batch.start.offsets) <= left:
            return None
        rows = self.frames.transformed(self.frames.of_batch(batch))
        counts = self._count(rows.select(f.lit(1)), left)  # a batch without columns has no rows
        if passes(counts, left):
            return None
        slices = allot(counts, left)
        last, of_it = _last(rows, len(slices) - 1, slices[-1])
        surplus = None if self.at_most_one else Surplus(*last.partition, last.offset, of_it)
        return Allotment(batch.number, slices, self._end(batch, last), surplus)

    def cut(self, batch: Batch, allotment: Allotment) -> Batch:
        """The batch, as far as the allotment lets it go."""
        return replace(batch, end=allotment.end, surplus=allotment.surplus)

    def _count(self, rows: "DataFrame", left: int) -> list[int]:
        """The rows of the first slices, up to the one where the limit ends."""
        counted = _in_order(rows.mapInArrow(_counted, "rows long")).rdd
        counts: list[int] = []
        wave, total = self.frames.session.sparkContext.defaultParallelism, counted.getNumPartitions()
        while len(counts) < total and passes(counts, left):
            slices = range(len(counts), min(len(counts) + wave, total))
            counts += self.frames.session.sparkContext.runJob(counted, _sum, list(slices))
            wave *= GROWTH
        while counts and not passes(counts[:-1], left):
            counts.pop()
        return counts

    def _end(self, batch: Batch, last: Position) -> Place:
        return place_after(self.frames.cluster.log, self.frames.span(batch), last)


def gives_at_most_one(frames: RangeFrames) -> bool:
    """Whether each record gives at most one row, by the plan; rows in no order are refused."""
    return frames.transform is None or read_plan(_in_order(frames.rows)).at_most_one


def without_surplus(rows: "DataFrame", surplus: Surplus | None) -> "DataFrame":
    """The rows but for those of the surplus record behind its first few."""
    if surplus is None:
        return rows
    return rows.mapInArrow(lambda batches: trimmed(batches, surplus), rows.schema)


def trimmed(batches: Iterator["RecordBatch"], surplus: Surplus | None) -> Iterator["RecordBatch"]:
    """The same for batches of rows that come in order."""
    import pyarrow.compute as pc

    left = 0 if surplus is None else surplus.rows
    for batch in batches:
        if surplus is None:
            yield batch
            continue
        mine = _of_record(batch, surplus)
        number = pc.cumulative_sum(mine.cast("int64"))
        yield batch.filter(pc.or_(pc.invert(mine), pc.less_equal(number, left)))
        left -= pc.sum(mine, min_count=0).as_py()


def _in_order(frame: "DataFrame") -> "DataFrame":
    """The frame, whose plan keeps the order: one batch may be planned in another way than the next."""
    read_plan(frame).check_ordered("load without --row-limit")
    return frame


def _sum(rows: Iterator[Any]) -> list[int]:
    return [sum(row.rows for row in rows)]


def _counted(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
    from pyarrow import RecordBatch

    yield RecordBatch.from_pylist([{"rows": sum(batch.num_rows for batch in batches)}])


def _last(rows: "DataFrame", slice_: int, count: int) -> tuple[Position, int]:
    """Where the record stands that gave the slice's n-th row, and how many of its rows are among those."""
    from pyspark.sql import functions as f

    fields = [f.col(f"{SOURCE}.{name}").alias(name) for name in SOURCE_FIELDS[:-1]]
    time = f.unix_millis(f"{SOURCE}.order_time").alias("order_time")
    located = rows.select(*fields, time).mapInArrow(
        _locating(count), "topic string, partition int, offset long, order_time long, rows long"
    )
    [found] = rows.sparkSession.sparkContext.runJob(_in_order(located).rdd, list, [slice_])
    return Position(found.order_time, TopicPartition(found.topic, found.partition), found.offset), found.rows


def _locating(count: int) -> Any:
    def locate(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        import pyarrow as pa

        left, tail = count, None
        for batch in batches:
            taken = batch.slice(0, left)
            left -= taken.num_rows
            tail = taken if tail is None else pa.concat_batches([_same_record(tail), taken])
        assert tail is not None
        record = _same_record(tail)
        yield record.slice(record.num_rows - 1).append_column("rows", pa.array([record.num_rows], pa.int64()))

    return locate


def _same_record(batch: "RecordBatch") -> "RecordBatch":
    """The rows at the end that the last record gave."""
    import pyarrow.compute as pc

    if not batch.num_rows:
        return batch
    same = None
    for name in ("topic", "partition", "offset"):
        column = batch.column(name)
        equal = pc.equal(column, column[-1])
        same = equal if same is None else pc.and_(same, equal)
    return batch.filter(same)


def _of_record(batch: "RecordBatch", surplus: Surplus) -> Any:
    """Which rows came from the record; by `_source`, or by the record's own columns in a plain copy."""
    import pyarrow.compute as pc

    columns = {name: batch.column(name) for name in batch.schema.names}
    if SOURCE in columns:
        columns = {name: pc.struct_field(columns[SOURCE], name) for name in SOURCE_FIELDS}
    equal = [pc.equal(columns[name], getattr(surplus, name)) for name in SOURCE_FIELDS[:-1]]
    return pc.fill_null(pc.and_(pc.and_(equal[0], equal[1]), equal[2]), fill_value=False)
