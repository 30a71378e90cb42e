"""The DataFrames of a range: the rows of a batch, with the column `_source`, and the tasks that read them.

Each slice is read by a Python task of Spark. That is what `spark.read` of the source does too; but for a source in
Python Spark starts two processes with each DataFrame, only to ask it again for its partitions. A task makes rows of its
records at once, and counts both.

A plan shows a function in Python by the name of its class, and `plans` goes by it: `ReadRecords` gives at most one row
for each record, `ReadSeveral` may give more.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from time import process_time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...compat.spark import spark_schema
from ...core.batches import SLICE_OFFSETS, Batch, Tally
from ...core.documents import Range
from ...core.lanes import Placement
from ...core.notation.spelling import counted
from ...core.order.cuts import Slice, Span
from ...core.order.positions import Offsets, TopicPartition
from ...errors import OrderedKafkaError, SettingError, TransformError
from ...kafka.clients.pools import ReadSettings, ReadTally
from ...kafka.lookup.survey import Kafka
from ...kafka.provenance import ERROR, SOURCE, SOURCE_FIELDS
from ...kafka.read import columns as arrow
from ...kafka.replay.landed import Landed, LandedFilter, RowsPerRecord
from ...kafka.write.settings import WriteSettings
from ...kafka.write.turns import LETTERS
from ...kafka.write.writing import misplaced, write
from ..connector.reading import read_batches, spark_columns
from ..connector.stream import Cluster
from ..session.counting import TaskCounter
from ..session.failures import classify_failure, failed
from .engine import TASKS_FOR_A_CORE, Engine
from .kafka_output import only_attempt
from .making import Making, places, whole_records

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Counters:
    """What tasks count of slices; keys that are placed in another way than `placement` are `misplaced`.

    Bad records, those that were written as dead letters, and the rows that had landed of these. `spent` is processor
    time in nanoseconds.
    """

    placement: Placement | None
    records: TaskCounter
    bytes: TaskCounter
    losses: TaskCounter
    misplaced: TaskCounter
    late: TaskCounter
    bad: TaskCounter
    letters: TaskCounter
    doubled: TaskCounter
    spent: TaskCounter

    def add(self, number: int, tally: ReadTally, lost: int, elsewhere: int) -> None:
        self.bytes.add(number, tally.bytes)
        self.losses.add(number, lost)
        self.misplaced.add(number, elsewhere)
        for partition, count in tally.read.items():
            self.records.add((number, partition), count)
            self.late.add((number, partition), tally.late[partition])

    def tally(self) -> Tally:
        """What was counted of the records, once they were read."""
        read, late = _by_partition(self.records), _by_partition(self.late)
        return Tally(
            rows_read=read.total(),
            bytes_read=self.bytes.total(),
            late=late.total(),
            late_in=Offsets(late),
            read_in=Offsets(read),
            may_be_out_of_order=self.misplaced.total(),
            lost=self.losses.total(),
            may_be_doubled=self.doubled.total(),
            core_ms=self.spent.total() // 1_000_000,
        )


def _by_partition(counter: TaskCounter) -> Counter[TopicPartition]:
    found: Counter[TopicPartition] = Counter()
    for (_, partition), count in counter.counts.items():
        found[partition] += count
    return found


@dataclass(frozen=True, slots=True)
class Letters:
    """Writes bad records as dead letters, but for those that are there.

    A task does it before it passes on the rows behind them. So no row lands behind a record that is missing, and that
    the next attempt might have rows for.
    """

    settings: WriteSettings
    rows_per_record: RowsPerRecord

    def tasks(self, slices: int) -> int:
        """How many tasks read so many slices: a later attempt has to know how many may write."""
        turn = self.settings.turn
        return slices if turn is None else min(slices, turn.writers)

    def write(self, bad: "RecordBatch", landed: Landed | None, counters: Counters) -> None:
        settings = replace(self.settings, writer=f"{LETTERS}{only_attempt()}")
        left = LandedFilter(landed or Landed(), self.rows_per_record, "struct")
        letters = [whole_records(bad)]
        written = write(letters if settings.range_id is None else left.of(letters), settings)
        place = places(bad.slice(0, 1))[0]
        counters.letters.add(place, written.dead_letters)
        counters.doubled.add(place, left.resent)


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """Gives the rows of the slices whose numbers come in. Records in `without` are skipped."""

    packed: Sequence[bytes]
    settings: ReadSettings
    making: Making
    counters: Counters | None = None
    without: Landed | None = None
    letters: Letters | None = None

    def __call__(self, numbers: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                if number < len(self.packed):
                    slice_, landed = pickle.loads(self.packed[number])  # noqa: S301 - packed by the driver
                    yield from self._made(self._left(self._records(number, slice_, landed)), landed)

    def _records(self, number: int, slice_: Slice, landed: Landed | None) -> "Iterator[RecordBatch]":
        began, tally, elsewhere = process_time_ns(), ReadTally(), 0
        for records in read_batches(slice_, self.settings, tally):
            elsewhere += 0 if self.counters is None else misplaced(records, self.counters.placement)
            yield records
        if self.counters is not None:
            lost = tally.lost.total() if landed is None else landed.lost(slice_, tally.lost)
            self.counters.add(number, tally, lost, elsewhere + tally.beyond)
            self.counters.spent.add(number, process_time_ns() - began)

    def _left(self, records: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
        if not self.without:
            return records
        return LandedFilter(self.without, "one", "columns").of(records)

    def _made(self, records: "Iterator[RecordBatch]", landed: Landed | None) -> "Iterator[RecordBatch]":
        for batch in records:
            rows, bad = self.making.split(batch)
            if self.counters is not None and bad.num_rows:
                self.counters.bad.add(places(bad.slice(0, 1))[0], bad.num_rows)
                if self.letters is not None:
                    self.letters.write(bad, landed, self.counters)
            yield rows


class ReadSeveral(ReadRecords):
    """The same, where a record may give several rows."""

    __slots__ = ()


class ReadBad(ReadRecords):
    """Gives the bad records, as the dead letters that they are, with the column `_error`."""

    __slots__ = ()

    def _made(self, records: "Iterator[RecordBatch]", _: Landed | None) -> "Iterator[RecordBatch]":
        for batch in records:
            yield whole_records(self.making.split(batch)[1])


SHOWN_PARTITIONS = 3

SHOWING_SHUFFLES = 2
"""With a single partition there is nothing to shuffle, whatever a transform does."""


@dataclass(frozen=True)
class RangeFrames:
    """The range as DataFrames. Spark partition i is slice i, in order."""

    engine: Engine
    loaded: Range
    kafka: Kafka
    read: ReadSettings
    slice_offsets: int = SLICE_OFFSETS
    transform: Callable[["DataFrame"], "DataFrame"] | None = None
    making: Making = field(default_factory=Making)

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster.of_range(self.kafka, self.loaded)

    def of_batch(
        self,
        batch: Batch,
        slices: Sequence[Slice] | None = None,
        landed: Sequence[Landed] = (),
        *,
        counters: Counters | None = None,
        making: Making | None = None,
        without: Landed | None = None,
        letters: Letters | None = None,
    ) -> "DataFrame":
        """The rows of a batch, by its slices, counted as they are read; what landed does not count as lost.

        They are made in this way, or in the range's own; records in `without` are skipped, and bad ones
        become `letters`.
        """
        packed = self._packed(batch, slices, landed)
        return self._rows(packed, making or self.making, counters, without, letters)

    @contextmanager
    def located(self, batch: Batch, rows: "DataFrame", slices: Sequence[Slice] = ()) -> Iterator[None]:
        """Where a function of the user's raises while a batch's rows are made: add which records it was about.

        They are those of its task, if it is known which of the `slices` that read; or else the whole batch. For which
        of them it raised only the function itself knows.
        """
        try:
            yield
        except Exception as error:
            raised = classify_failure(error)
            if type(raised) is not TransformError:
                raise
            part = self.engine.failed_part(rows, len(slices)) if slices else None
            if part is None:
                ends = batch.end.offsets
                about = f"its batch has {_spans({p: (first, ends[p]) for p, first in batch.start.offsets.items()})}"
            else:
                about = f"its task was reading about {_spans(slices[part].spans)}"
            raise TransformError(f"{raised}; {about}") from error

    def counters(self, placement: Placement | None = None) -> Counters:
        return Counters(placement, *(self.engine.counter() for _ in range(9)))

    def slices(self, batch: Batch, each: int, *, literal: bool = False) -> list[Slice]:
        """The slices of a batch, of about `each` offsets, `literal` where it has to be known which have which."""
        policy = self.loaded.on_data_loss
        return self.cluster.slices(self.span(batch), batch.end.floor, each, policy, literal=literal)

    def for_tasks(self, batch: Batch, *, literal: bool = False) -> list[Slice]:
        """The slices of a batch that is read by tasks of their own: few and long, but work for each core."""
        span = self.span(batch)
        most = max(self.slice_offsets, span.offsets // (TASKS_FOR_A_CORE * self.engine.cores))
        return self.slices(batch, min(self.cluster.each(span, self.slice_offsets), most), literal=literal)

    def span(self, batch: Batch) -> Span:
        return self.loaded.between(batch.start, batch.end)

    @property
    def copied(self) -> bool:
        return self.transform is None and self.making.idle

    def columns(self) -> list[tuple[str, str]]:
        """Names and types of the transform's columns; for a copy it needs no session."""
        if not self.copied:
            return list(self.rows.dtypes)
        records = spark_columns(include_headers=self.loaded.include_headers)
        of_source = ",".join(f"{name}:{records[name]}" for name in SOURCE_FIELDS)
        return [*records.items(), (SOURCE, f"struct<{of_source}>")]

    @cached_property
    def rows(self) -> "DataFrame":
        """The transform's rows for no records, to look at their plan."""
        return self._rows((), self.making)

    def bad(self, batch: Batch | None = None) -> "DataFrame":
        """The bad records of a batch, as the dead letters that they are, with `_error`; by default of no records."""
        none = pa.RecordBatch.from_pylist([], self._records_schema().append(pa.field(ERROR, pa.string())))
        packed = () if batch is None else self._packed(batch)
        return self._frame(ReadBad(packed, self.read, self.making), whole_records(none).schema)

    def made_columns(self, sampled: "Sequence[RecordBatch]" = ()) -> Any:
        """The columns of rows, by a sample of the records or by no records."""
        batch = sampled[0] if sampled else pa.RecordBatch.from_pylist([], self._records_schema())
        return self.making.split(batch)[0].schema

    def _rows(
        self,
        packed: Sequence[bytes],
        making: Making,
        counters: Counters | None = None,
        without: Landed | None = None,
        letters: Letters | None = None,
    ) -> "DataFrame":
        kind = ReadRecords if making.transform is None else ReadSeveral
        read = kind(packed, self.read, making, counters, without, letters)
        rows = self._frame(read, making.schema(self._records_schema()))
        if making.transform is not None:
            return rows
        sourced = self.engine.sourced(rows)
        if self.transform is None:
            return sourced
        return _transformed(self.transform, sourced)

    def _packed(
        self, batch: Batch, slices: Sequence[Slice] | None = None, landed: Sequence[Landed] = ()
    ) -> list[bytes]:
        """The slices with what landed of them: a task unpacks its own alone."""
        cut = self.slices(batch, self.slice_offsets) if slices is None else slices
        return [pickle.dumps(each) for each in zip_longest(cut, landed)]

    def _frame(self, read: ReadRecords, columns: Any) -> "DataFrame":
        count = len(read.packed) or SHOWING_SHUFFLES
        tasks = count if read.letters is None else read.letters.tasks(count)
        return self.engine.numbers(count, tasks).mapInArrow(read, spark_schema(columns))

    def _records_schema(self) -> Any:
        return arrow.schema(include_headers=self.loaded.include_headers)


def _spans(spans: Mapping[TopicPartition, tuple[int, int]]) -> str:
    found = [f"{partition.at(first)} to {last}" for partition, (first, last) in spans.items() if first < last]
    shown, more = ", ".join(found[:SHOWN_PARTITIONS]), len(found) - SHOWN_PARTITIONS
    return f"{shown}, and those of {counted(more, 'more partition')}" if more > 0 else shown


def _transformed(transform: Callable[["DataFrame"], "DataFrame"], rows: "DataFrame") -> "DataFrame":
    try:
        found = transform(rows)
    except OrderedKafkaError:
        raise
    except Exception as error:
        raise failed("the transform", error) from error
    if not isinstance(found, type(rows)):
        raise SettingError(
            f"the transform {getattr(transform, '__qualname__', transform)!r} must return a DataFrame, found "
            f"{type(found).__name__}: end it with `return` and the rows"
        )
    return found
