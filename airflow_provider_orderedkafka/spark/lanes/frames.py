"""The DataFrames of a range: the records of a batch, and the column `_source`.

Each slice is read by a Python task of Spark. That is what `spark.read` of the source does too; but for a source in
Python Spark starts two processes with each DataFrame, to ask it what it already told.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.compat.spark import spark_schema
from airflow_provider_orderedkafka.core.batches import Tally
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.lanes import Placement
from airflow_provider_orderedkafka.core.order.cuts import Slice, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.plan import SLICE_OFFSETS
from airflow_provider_orderedkafka.errors import OrderedKafkaError, TransformError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.provenance import SOURCE, SOURCE_FIELDS
from airflow_provider_orderedkafka.kafka.reading import ReadSettings, ReadTally
from airflow_provider_orderedkafka.kafka.write.partitioners import misplaced
from airflow_provider_orderedkafka.spark.connector.cluster import Cluster
from airflow_provider_orderedkafka.spark.connector.columns import spark_columns
from airflow_provider_orderedkafka.spark.connector.reading import read_batches
from airflow_provider_orderedkafka.spark.lanes.making import Making, bad, made
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter
from airflow_provider_orderedkafka.spark.session.lazy import LazySession

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_provider_orderedkafka.core.batches import Batch
    from airflow_provider_orderedkafka.kafka.replay.landed import Landed

SHOWING_SHUFFLES = 2
"""With a single partition there is nothing to shuffle, whatever a transform does."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What tasks count: offsets that retention took, keys that are placed in another way, late records, bad ones."""

    losses: TaskCounter
    misplaced: TaskCounter
    late: TaskCounter
    bad: TaskCounter
    placement: Placement | None

    def tally(self) -> Tally:
        """What was counted of the records as they were read, once they were."""
        late: Counter[TopicPartition] = Counter()
        for (_, partition), count in self.late.told.items():
            late[partition] += count
        return Tally(
            late=late.total(),
            late_in=Offsets(late),
            may_be_out_of_order=self.misplaced.total(),
            lost=self.losses.total(),
        )


@dataclass(frozen=True)
class RangeFrames:
    """The range as DataFrames. Spark partition i is slice i, in order."""

    spark: LazySession
    loaded: Range
    kafka: KafkaConfig
    slice_offsets: int = SLICE_OFFSETS
    transform: Callable[["DataFrame"], "DataFrame"] | None = None
    making: Making = field(default_factory=Making)

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster.of_range(self.kafka, self.loaded)

    @cached_property
    def read(self) -> ReadSettings:
        loaded = self.loaded
        lost = loaded.on_data_loss
        return ReadSettings(self.kafka, loaded.isolation, loaded.include_headers, lost, topic_ids=loaded.topics)

    @property
    def session(self) -> "SparkSession":
        return self.spark.started()

    def of_batch(
        self,
        batch: "Batch",
        slices: Sequence[Slice] | None = None,
        landed: "Sequence[Landed]" = (),
        counters: Counters | None = None,
    ) -> "DataFrame":
        """The records of a batch, by its slices, counted as they are read; what landed does not count as lost."""
        cut = self.slices(batch, self.slice_offsets) if slices is None else slices
        return self._of_slices(list(zip_longest(cut, landed)), max(len(cut), 1), counters)

    def counter(self) -> TaskCounter:
        return TaskCounter(self.session.sparkContext)

    def counters(self, placement: Placement | None = None) -> Counters:
        return Counters(self.counter(), self.counter(), self.counter(), self.counter(), placement)

    def slices(self, batch: "Batch", each: int, *, literal: bool = False) -> list[Slice]:
        """The slices of a batch, of about `each` offsets, `literal` where it has to be known which have which.

        So it is, too, where retention may take records between two slices that are read: a bound by time would move.
        """
        literal = literal or self.loaded.on_data_loss == "count"
        return self.cluster.planner(self.span(batch), literal=literal).slices(each)

    @property
    def may_shrink(self) -> bool:
        """Whether records of the range may disappear without an error."""
        return self.loaded.on_data_loss == "count" or bool(self.cluster.compacted(self.loaded.topics))

    def span(self, batch: "Batch") -> Span:
        return Span(batch.start.offsets, batch.end.offsets, batch.start.floor, self.loaded.latest)

    @property
    def copied(self) -> bool:
        """Whether the rows are the records as they are."""
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
        return self.transformed(self._of_slices((), SHOWING_SHUFFLES))

    @property
    def bad(self) -> "DataFrame":
        """The bad ones of no records, to look at their columns."""
        return self._bad(self._of_slices((), SHOWING_SHUFFLES))

    def bad_of_batch(self, batch: "Batch") -> "DataFrame":
        """The bad records of a batch, as they are, with `_source` and `_error`."""
        return self._bad(self.of_batch(batch))

    def _bad(self, records: "DataFrame") -> "DataFrame":
        return with_source(bad(records, self.making, self._records_schema()))

    def made_columns(self, sampled: "Sequence[RecordBatch]" = ()) -> Any:
        """The columns of rows, by a sample of the records or by no records."""
        import pyarrow as pa

        batch = sampled[0] if sampled else pa.RecordBatch.from_pylist([], self._records_schema())
        return self.making.split(batch)[0].schema

    def transformed(
        self,
        records: "DataFrame",
        counters: Counters | None = None,
        making: Making | None = None,
        without: "Landed | None" = None,
    ) -> "DataFrame":
        """Make rows of the records, with `_source`, but of those that were dealt with already."""
        making = making or self.making
        if not making.idle or without:
            seen = None if counters is None else counters.bad
            records = made(records, making, self._records_schema(), seen, without)
        if making.transform is not None:
            return records
        sourced = with_source(records)
        if self.transform is None:
            return sourced
        try:
            return self.transform(sourced)
        except OrderedKafkaError:
            raise
        except Exception as error:
            raise TransformError(f"the transform failed: {type(error).__name__}: {first_line(error)}") from error

    def _of_slices(
        self,
        slices: "Sequence[tuple[Slice, Landed | None]]",
        partitions: int,
        counters: Counters | None = None,
    ) -> "DataFrame":
        packed = [pickle.dumps(each) for each in slices]  # a task unpacks its own alone
        asked = self.session.range(0, partitions, 1, partitions)
        schema = spark_schema(self._records_schema())
        return asked.mapInArrow(partial(_read, packed, self.read, counters), schema)

    def _records_schema(self) -> Any:
        from airflow_provider_orderedkafka.kafka.read import arrow

        return arrow.schema(include_headers=self.loaded.include_headers)


def _read(
    packed: Sequence[bytes],
    settings: ReadSettings,
    counters: Counters | None,
    asked: Iterator["RecordBatch"],
) -> Iterator["RecordBatch"]:
    for batch in asked:
        for number in batch.column(0).to_pylist():
            if number < len(packed):
                slice_, landed = pickle.loads(packed[number])  # noqa: S301 - packed by the driver
                tally, elsewhere = ReadTally(), 0
                for records in read_batches(slice_, settings, tally):
                    elsewhere += 0 if counters is None else misplaced(records, counters.placement)
                    yield records
                if counters is not None:
                    lost = sum(tally.lost.values()) if landed is None else landed.lost(slice_, tally.lost)
                    counters.losses.tell(number, lost)
                    counters.misplaced.tell(number, elsewhere)
                    for partition, late in tally.late.items():
                        counters.late.tell((number, partition), late)


def first_line(error: Exception) -> str:
    """The first line of an error, without Spark's plan or traceback."""
    return str(error).strip().split("\n", 1)[0]


def with_source(frame: "DataFrame") -> "DataFrame":
    """The records with `_source`, which a transform must keep."""
    from pyspark.sql import functions as f

    return frame.withColumn(SOURCE, f.struct(*SOURCE_FIELDS))


def counted(frame: "DataFrame") -> "tuple[DataFrame, Callable[[], Tally]]":
    """The records, and a function that gives their counts once they were processed."""
    from pyspark.sql import Observation

    read = Observation()
    return frame.observe(read, *_read_counts()), lambda: Tally(**read.get)


def _read_counts() -> list["Column"]:
    from pyspark.sql import functions as f

    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0))
    return [
        f.count(f.lit(1)).alias("rows_read"),
        f.coalesce(f.sum(size), f.lit(0)).alias("bytes_read"),
    ]
