"""The row limit inside a batch: counted only if it may be reached, and applied without a shuffle.

Slices are counted in order, a few at a time, until the limit is passed. Behind the record that gave the last row every
partition stands at a literal offset; the batch is read again up to there, so reading ends where the limit does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_orderedkafka.core.batches import Allotment, Batch, Surplus
from airflow_provider_orderedkafka.core.limits import allot, passes, place_after
from airflow_provider_orderedkafka.core.order.positions import Position, TopicPartition
from airflow_provider_orderedkafka.kafka.provenance import SOURCE, SOURCE_FIELDS
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.session.plans import read_plan

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
        """How far the batch goes with so many rows left; None where all of it passes.

        Begun again if retention or compaction took records meanwhile: those behind them may come earlier then.
        """
        if self.at_most_one and batch.end.offsets.since(batch.start.offsets) <= left:
            return None
        while not passes(counts := self._count(batch, left), left):
            found = self._behind_last(batch, allot(counts, left))
            if found is not None and self._is_exact(self.cut(batch, found), left):
                return found
        return None

    def cut(self, batch: Batch, allotment: Allotment) -> Batch:
        """The batch, as far as the allotment lets it go."""
        return replace(batch, end=allotment.end, surplus=allotment.surplus)

    def _rows(self, batch: Batch) -> "DataFrame":
        return without_surplus(self.frames.of_batch(batch), batch.surplus)

    def _count(self, batch: Batch, left: int) -> list[int]:
        """The rows of the first slices, up to the one where the limit ends."""
        from pyspark.sql import functions as f

        rows = self._rows(batch).select(f.lit(1))  # a batch without columns has no rows
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

    def _behind_last(self, batch: Batch, slices: tuple[int, ...]) -> Allotment | None:
        """What passes, up to the record of the last row; None if its slice has fewer rows now."""
        found = _last(self._rows(batch), len(slices) - 1, slices[-1])
        if found is None:
            return None
        last, of_it = found
        surplus = None if self.at_most_one else Surplus(*last.partition, last.offset, of_it)
        end = place_after(self.frames.cluster.log, self.frames.span(batch), last)
        return Allotment(batch.number, slices, end, surplus)

    def _is_exact(self, cut: Batch, left: int) -> bool:
        """Whether no more rows come from the batch as it is cut: only asked where records may be gone meanwhile."""
        return not self.frames.may_shrink or passes(self._count(cut, left + 1), left + 1)


def gives_at_most_one(frames: RangeFrames) -> bool:
    """Whether each record gives at most one row, by the plan; rows in no order are refused."""
    return frames.copied or read_plan(_in_order(frames.rows)).at_most_one


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


def _last(rows: "DataFrame", slice_: int, count: int) -> tuple[Position, int] | None:
    """Where the record stands that gave the slice's n-th row, and how many of its rows are among those.

    None if the slice has fewer rows now, or is not there any more.
    """
    from pyspark.sql import functions as f

    fields = [f.col(f"{SOURCE}.{name}").alias(name) for name in SOURCE_FIELDS[:-1]]
    time = f.unix_millis(f"{SOURCE}.order_time").alias("order_time")
    located = rows.select(*fields, time).mapInArrow(
        _locating(count), "topic string, partition int, offset long, order_time long, rows long"
    )
    slices = _in_order(located).rdd
    if slice_ >= slices.getNumPartitions():
        return None
    rows_found = rows.sparkSession.sparkContext.runJob(slices, list, [slice_])
    if not rows_found:
        return None
    [found] = rows_found
    return Position(found.order_time, TopicPartition(found.topic, found.partition), found.offset), found.rows


def _locating(count: int) -> Any:
    def locate(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        import pyarrow as pa

        left, tail = count, None
        for batch in batches:
            taken = batch.slice(0, left)
            left -= taken.num_rows
            tail = taken if tail is None else pa.concat_batches([_same_record(tail), taken])
        if left or tail is None:
            return
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
