"""The DataFrames of a range: the rows of a batch, with the column `_source`.

Each slice is read by a Python task of Spark. That is what `spark.read` of the source does too; but for a source in
Python Spark starts two processes with each DataFrame, to ask it what it already told.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.compat.spark import spark_schema
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.lanes import Placement
from airflow_provider_orderedkafka.core.order.cuts import Slice, Span
from airflow_provider_orderedkafka.core.plan import SLICE_OFFSETS
from airflow_provider_orderedkafka.errors import OrderedKafkaError, TransformError
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.provenance import ERROR, SOURCE, SOURCE_FIELDS
from airflow_provider_orderedkafka.kafka.reading import ReadSettings
from airflow_provider_orderedkafka.spark.connector.cluster import Cluster
from airflow_provider_orderedkafka.spark.connector.columns import spark_columns
from airflow_provider_orderedkafka.spark.lanes.making import Making
from airflow_provider_orderedkafka.spark.lanes.reading_tasks import Counters, ReadBad, ReadRecords, ReadSeveral
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter
from airflow_provider_orderedkafka.spark.session.lazy import LazySession

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_orderedkafka.core.batches import Batch
    from airflow_provider_orderedkafka.kafka.replay.landed import Landed

SHOWING_SHUFFLES = 2
"""With a single partition there is nothing to shuffle, whatever a transform does."""


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
        *,
        counters: Counters | None = None,
        making: Making | None = None,
        without: "Landed | None" = None,
    ) -> "DataFrame":
        """The rows of a batch, by its slices, counted as they are read; what landed does not count as lost.

        They are made in this way, or in the range's own; records `without` which it is done give none.
        """
        return self._rows(self._packed(batch, slices, landed), making or self.making, counters, without)

    def counter(self) -> TaskCounter:
        return TaskCounter(self.session.sparkContext)

    def counters(self, placement: Placement | None = None) -> Counters:
        return Counters(placement, *(self.counter() for _ in range(6)))

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
        return self._rows((), self.making)

    @property
    def bad(self) -> "DataFrame":
        """The bad ones of no records, to look at their columns."""
        return self._bad(())

    def bad_of_batch(self, batch: "Batch") -> "DataFrame":
        """The bad records of a batch, as they are, with `_source` and `_error`."""
        return self._bad(self._packed(batch))

    def made_columns(self, sampled: "Sequence[RecordBatch]" = ()) -> Any:
        """The columns of rows, by a sample of the records or by no records."""
        import pyarrow as pa

        batch = sampled[0] if sampled else pa.RecordBatch.from_pylist([], self._records_schema())
        return self.making.split(batch)[0].schema

    def _rows(
        self,
        packed: Sequence[bytes],
        making: Making,
        counters: Counters | None = None,
        without: "Landed | None" = None,
    ) -> "DataFrame":
        read = ReadRecords if making.transform is None else ReadSeveral
        rows = self._frame(read(packed, self.read, making, counters, without), making.schema(self._records_schema()))
        if making.transform is not None:
            return rows
        sourced = with_source(rows)
        if self.transform is None:
            return sourced
        try:
            return self.transform(sourced)
        except OrderedKafkaError:
            raise
        except Exception as error:
            raise TransformError(f"the transform failed: {type(error).__name__}: {first_line(error)}") from error

    def _bad(self, packed: Sequence[bytes]) -> "DataFrame":
        import pyarrow as pa

        columns = self._records_schema().append(pa.field(ERROR, pa.string()))
        return with_source(self._frame(ReadBad(packed, self.read, self.making), columns))

    def _packed(
        self, batch: "Batch", slices: Sequence[Slice] | None = None, landed: "Sequence[Landed]" = ()
    ) -> list[bytes]:
        """The slices with what landed of them: a task unpacks its own alone."""
        cut = self.slices(batch, self.slice_offsets) if slices is None else slices
        return [pickle.dumps(each) for each in zip_longest(cut, landed)]

    def _frame(self, read: ReadRecords, columns: Any) -> "DataFrame":
        partitions = len(read.packed) or SHOWING_SHUFFLES
        return self.session.range(0, partitions, 1, partitions).mapInArrow(read, spark_schema(columns))

    def _records_schema(self) -> Any:
        from airflow_provider_orderedkafka.kafka.read import arrow

        return arrow.schema(include_headers=self.loaded.include_headers)


def first_line(error: Exception) -> str:
    """The first line of an error, without Spark's plan or traceback."""
    return str(error).strip().split("\n", 1)[0]


def with_source(frame: "DataFrame") -> "DataFrame":
    """The records with `_source`, which a transform must keep."""
    from pyspark.sql import functions as f

    return frame.withColumn(SOURCE, f.struct(*SOURCE_FIELDS))
