"""The DataFrames of a range: its stream, a piece of it, and the column that says where each row came from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Tally
from airflow_provider_orderedkafka.core.cuts import Place, Span
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.planning import Planner
from airflow_provider_orderedkafka.errors import OrderedKafkaError, TransformError
from airflow_provider_orderedkafka.kafka.arrow import columns
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.spark.cluster import Cluster
from airflow_provider_orderedkafka.spark.columns import spark_columns
from airflow_provider_orderedkafka.spark.options import parse_options
from airflow_provider_orderedkafka.spark.session import Early, LazySession
from airflow_provider_orderedkafka.spark.source import NAME, OrderedKafkaDataSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_provider_orderedkafka.spark.batches import Batch

SOURCE = "_source"
READ = "read"
SOURCE_FIELDS = ("topic", "partition", "offset", "order_time")


@dataclass(frozen=True, slots=True)
class RangeFrames:
    """The range as DataFrames. Spark partition i is slice i, in order.

    `cluster` is asked for all of them: what it knows already, each batch need not look up again.
    """

    spark: LazySession
    loaded: Range
    options: Mapping[str, str]
    transform: Callable[["DataFrame"], "DataFrame"] | None = None
    cluster: Cluster = field(init=False, repr=False, compare=False)
    _stream: "Early[DataFrame]" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options = parse_options({**self.options, "range": self.loaded.to_text()}, stream=False)
        object.__setattr__(self, "cluster", Cluster(options))
        object.__setattr__(self, "_stream", Early(lambda: self._reading(self.session.readStream, self.loaded)))

    @property
    def session(self) -> "SparkSession":
        """The session, once it has started."""
        return self.spark.started()

    def begin(self) -> None:
        """Have the stream made beside everything else: Spark starts two processes of Python for that."""
        self._stream.begin()

    def stream(self) -> "DataFrame":
        """All of it, in micro-batches."""
        return self._stream.result()

    def piece(self, start: Place, end: Place) -> "DataFrame":
        """What lies between two places of it."""
        return self._reading(self.session.read, replace(self.loaded, start=start, end=end))

    def of_batch(self, batch: "Batch") -> "DataFrame":
        """The records of a batch."""
        return self.piece(batch.start, batch.end) if batch.frame is None else batch.frame

    def columns(self) -> list[tuple[str, str]]:
        """Names and types of what the transform makes; where there is none, without waiting for Spark."""
        if self.transform is not None:
            return list(self.rows().dtypes)
        records = spark_columns(include_headers=self.loaded.include_headers)
        of_source = ",".join(f"{name}:{records[name]}" for name in SOURCE_FIELDS)
        return [*records.items(), (SOURCE, f"struct<{of_source}>")]

    def rows(self) -> "DataFrame":
        """What the transform makes, without a row: to be looked at before anything runs."""
        nothing = self.session.sparkContext.emptyRDD()
        schema = columns(include_headers=self.loaded.include_headers)
        return self.transformed(self.session.createDataFrame(nothing, schema))

    def transformed(self, records: "DataFrame") -> "DataFrame":
        """The rows that the records become, each with `_source`."""
        sourced = with_source(records)
        if self.transform is None:
            return sourced
        try:
            return self.transform(sourced)
        except OrderedKafkaError:
            raise
        except Exception as error:
            raise TransformError(f"the transform failed: {type(error).__name__}: {first_line(error)}") from error

    def lost(self, batch: "Batch") -> int:
        """How many offsets of a batch that was read retention has taken, where that is counted and not an error.

        The tasks cannot tell it through Spark, so it is asked for once they are done: what went between their reading
        and this question is counted too.
        """
        if self.loaded.on_data_loss != "count":
            return 0
        start, end = batch.start.offsets, batch.end.offsets
        first = self.cluster.starts_of(end)
        return sum(max(min(first[p], offset) - start[p], 0) for p, offset in end.items())

    def log(self) -> KafkaLog:
        """The records of the range, as a planner asks for them."""
        return self.cluster.log

    def planner(self, span: Span) -> Planner:
        """What cuts a part of the range."""
        return Planner(self.cluster.log, span, self.cluster.compacted(span.start.topics))

    def _reading(self, reader: Any, loaded: Range) -> "DataFrame":
        options = {**self.options, "range": loaded.to_text()}
        register(self.session)
        frame: DataFrame = reader.format(NAME).options(**options).load()
        return frame


@cache
def register(session: "SparkSession") -> None:
    """Let the session know the source: once, and only where Spark has to read it, for that alone takes a second."""
    session.dataSource.register(OrderedKafkaDataSource)


def first_line(error: Exception) -> str:
    """What an error says, without the plan or the traceback behind it."""
    return str(error).strip().split("\n", 1)[0]


def with_source(frame: "DataFrame") -> "DataFrame":
    """The records, each with the position it came from: what a transform keeps."""
    from pyspark.sql import functions as f

    return frame.withColumn(SOURCE, f.struct(*SOURCE_FIELDS))


def counted(frame: "DataFrame") -> "DataFrame":
    """The records, counted as they pass."""
    return frame.observe(READ, *read_counts())


def read_counts() -> list["Column"]:
    """What is counted of records: how many, how many late, their bytes."""
    from pyspark.sql import functions as f

    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0))
    return [
        f.count(f.lit(1)).alias("rows_read"),
        f.coalesce(f.count_if("late"), f.lit(0)).alias("late"),
        f.coalesce(f.sum(size), f.lit(0)).alias("bytes_read"),
    ]


def read_tally(executed: "DataFrame") -> Tally:
    """What `counted` records came to, from the very frame that was collected: no listener has to be waited for."""
    found = executed._jdf.queryExecution().observedMetrics().apply(READ)
    return Tally(**{name: found.getLong(place) for place, name in enumerate(("rows_read", "late", "bytes_read"))})
