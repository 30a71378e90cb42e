"""The row limit inside a batch: counted only if it may be reached, and applied without a shuffle.

Slices are counted in order, a few at a time, until the limit is passed. Behind the record that gave the last row every
partition stands at a literal offset; the batch is read again up to there, so reading ends where the limit does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import RecordBatch

from ...compat.spark import spark_schema
from ...core.batches import Allotment, Batch, Surplus
from ...core.next_range import allot, passes, place_after
from ...core.order.positions import Position, TopicPartition
from ...errors import UnreachableError
from ...kafka.provenance import SOURCE, SOURCE_FIELDS
from ...kafka.write.rows import milliseconds
from .frames import RangeFrames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

TRIES = 5
"""How often it is asked where the limit ends."""

GROWTH = 2
"""By this factor each wave counts more slices than the one before."""


@dataclass(frozen=True, slots=True)
class RowLimit:
    """Lets the first rows in order pass. `at_most_one` says that no record gives two rows."""

    frames: RangeFrames
    at_most_one: bool

    @classmethod
    def of(cls, frames: RangeFrames) -> Self:
        """That of a range, where it has one; rows in no order are refused then."""
        if frames.loaded.rows_left is None:
            return cls(frames, at_most_one=False)
        return cls(frames, frames.copied or frames.engine.facts(_in_order(frames, frames.rows)).at_most_one)

    def allot(self, batch: Batch, left: int) -> Allotment | None:
        """How far the batch goes with `left` rows; None where the whole batch passes.

        Begun again if more rows come up to there: retention or compaction took records meanwhile, so that those behind
        them come earlier, or a broker was behind when it was asked for times.
        """
        if self.at_most_one and batch.offsets <= left:
            return None
        for _ in range(TRIES):
            if passes(counts := self._count(batch, left), left):
                return None
            found = self._behind_last(batch, allot(counts, left))
            if found is not None and self._is_exact(self.cut(batch, found), left):
                return found
        raise UnreachableError(
            f"cannot find where the row limit ends in batch {batch.number}: {TRIES} times, the rows up to the place "
            f"that was found were not the {left:,} that are left. A broker may be behind, or records were deleted "
            "meanwhile; the next attempt looks again"
        )

    def cut(self, batch: Batch, allotment: Allotment) -> Batch:
        """The batch, as far as the allotment lets it go."""
        return replace(batch, end=allotment.end, surplus=allotment.surplus)

    def _rows(self, batch: Batch) -> "DataFrame":
        return without_surplus(self.frames.of_batch(batch), batch.surplus)

    def _count(self, batch: Batch, left: int) -> list[int]:
        """The rows of the first slices, up to the one where the limit ends."""
        engine, rows = self.frames.engine, self._rows(batch)
        least = rows.select(f"{SOURCE}.partition") if SOURCE in rows.columns else rows
        counted = _in_order(self.frames, least.mapInArrow(_counted, _kinds(rows="int64")))
        counts: list[int] = []
        wave = engine.cores
        with self.frames.located(batch, rows):
            while passes(counts, left) and (found := engine.collected(counted, range(len(counts), len(counts) + wave))):
                counts += [row.rows for row in found]
                wave *= GROWTH
        while counts and not passes(counts[:-1], left):
            counts.pop()
        return counts

    def _behind_last(self, batch: Batch, slices: tuple[int, ...]) -> Allotment | None:
        """What passes, up to the record of the last row; None if its slice has fewer rows now."""
        found = self._last(batch, len(slices) - 1, slices[-1])
        if found is None:
            return None
        last, of_it = found
        surplus = None if self.at_most_one else Surplus(*last.partition, last.offset, of_it)
        end = place_after(self.frames.cluster.log, self.frames.span(batch), last)
        return Allotment(batch.number, slices, end, surplus)

    def _last(self, batch: Batch, slice_: int, count: int) -> tuple[Position, int] | None:
        """Where the record stands that gave the slice's n-th row, and how many of its rows are among those.

        None if the slice has fewer rows now, or is not there any more.
        """
        kinds = _kinds(topic="string", partition="int32", offset="int64", order_time="int64", rows="int64")
        rows = self._rows(batch)
        located = _in_order(self.frames, rows.select(SOURCE).mapInArrow(_locating(count), kinds))
        with self.frames.located(batch, rows):
            collected = self.frames.engine.collected(located, [slice_])
        for found in collected:
            return Position(found.order_time, TopicPartition(found.topic, found.partition), found.offset), found.rows
        return None

    def _is_exact(self, cut: Batch, left: int) -> bool:
        """Whether no more rows come from the batch as it is cut."""
        return passes(self._count(cut, left + 1), left + 1)


def without_surplus(rows: "DataFrame", surplus: Surplus | None) -> "DataFrame":
    """The rows but for those of the surplus record behind its first few."""
    if surplus is None:
        return rows
    return rows.mapInArrow(lambda batches: trimmed(batches, surplus), rows.schema)


def trimmed(batches: Iterator[RecordBatch], surplus: Surplus | None) -> Iterator[RecordBatch]:
    """The same for batches of rows that come in order."""
    left = 0 if surplus is None else surplus.rows
    for batch in batches:
        if surplus is None:
            yield batch
            continue
        mine = _of_record(batch, surplus)
        number = pc.cumulative_sum(mine.cast("int64"))
        yield batch.filter(pc.or_(pc.invert(mine), pc.less_equal(number, left)))
        left -= pc.sum(mine, min_count=0).as_py()


def _in_order(frames: RangeFrames, rows: "DataFrame") -> "DataFrame":
    """The rows, whose plan keeps the order: one batch may be planned in another way than the next."""
    frames.engine.facts(rows).check_ordered("load without --row-limit")
    return rows


def _counted(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    yield RecordBatch.from_pylist([{"rows": sum(batch.num_rows for batch in batches)}])


def _locating(count: int) -> Any:
    """Where the record stands that gave a slice's n-th row, and how many of its rows are among those."""

    def locate(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        left, tail = count, None
        for batch in batches:
            taken = pa.RecordBatch.from_struct_array(batch.column(SOURCE)).slice(0, left)
            left -= taken.num_rows
            tail = taken if tail is None else pa.concat_batches([_same_record(tail), taken])
        if left or tail is None:
            return
        record = _same_record(tail)
        last = record.slice(record.num_rows - 1)
        time = {"order_time": milliseconds(last.column("order_time")), "rows": [record.num_rows]}
        yield pa.RecordBatch.from_pydict({name: last.column(name) for name in SOURCE_FIELDS[:-1]} | time)

    return locate


def _kinds(**kinds: str) -> "StructType":
    """Columns of these types; Spark's SQL parser, which takes them as a text, needs half a second to start."""
    return spark_schema(pa.schema({name: pa.type_for_alias(kind) for name, kind in kinds.items()}))


def _same_record(batch: RecordBatch) -> RecordBatch:
    """The rows at the end that the last record gave."""
    if not batch.num_rows:
        return batch
    same = None
    for name in SOURCE_FIELDS[:-1]:
        column = batch.column(name)
        equal = pc.equal(column, column[-1])
        same = equal if same is None else pc.and_(same, equal)
    return batch.filter(same)


def _of_record(batch: RecordBatch, surplus: Surplus) -> Any:
    """Which rows came from the record; by `_source`, or by the record's own columns in a plain copy."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    if SOURCE in columns:
        columns = {name: pc.struct_field(columns[SOURCE], name) for name in SOURCE_FIELDS}
    equal = [pc.equal(columns[name], getattr(surplus, name)) for name in SOURCE_FIELDS[:-1]]
    return pc.fill_null(pc.and_(pc.and_(equal[0], equal[1]), equal[2]), fill_value=False)
