"""The DataFrames of a range: its stream, a piece of it, and the column that says where each row came from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Tally
from airflow_provider_orderedkafka.core.cuts import Place, Span
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.planning import Planner
from airflow_provider_orderedkafka.kafka.arrow import columns
from airflow_provider_orderedkafka.kafka.log import KafkaLog
from airflow_provider_orderedkafka.spark.cluster import Cluster
from airflow_provider_orderedkafka.spark.options import SourceOptions, parse_options
from airflow_provider_orderedkafka.spark.source import OrderedKafkaDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.datasource import DataSource

    from airflow_provider_orderedkafka.spark.batches import Batch

SOURCE = "_source"
SOURCE_FIELDS = ("topic", "partition", "offset", "order_time")


@dataclass(frozen=True, slots=True)
class RangeFrames:
    """The range as DataFrames. Spark partition i is slice i, in order."""

    session: "SparkSession"
    loaded: Range
    options: Mapping[str, str]
    transform: Callable[["DataFrame"], "DataFrame"] | None = None
    source: type["DataSource"] = OrderedKafkaDataSource

    def stream(self) -> "DataFrame":
        """All of it, in micro-batches."""
        return self._reading(self.session.readStream, self.loaded)

    def piece(self, start: Place, end: Place) -> "DataFrame":
        """What lies between two places of it."""
        return self._reading(self.session.read, replace(self.loaded, start=start, end=end))

    def of_batch(self, batch: "Batch") -> "DataFrame":
        """The records of a batch."""
        return self.piece(batch.start, batch.end) if batch.frame is None else batch.frame

    def rows(self) -> "DataFrame":
        """What the transform makes, without a row: to be looked at before anything runs."""
        nothing = self.session.sparkContext.emptyRDD()
        schema = columns(include_headers=self.loaded.include_headers)
        return self.transformed(self.session.createDataFrame(nothing, schema))

    def transformed(self, records: "DataFrame") -> "DataFrame":
        """The rows that the records become, each with `_source`."""
        sourced = with_source(records)
        return sourced if self.transform is None else self.transform(sourced)

    def source_options(self) -> SourceOptions:
        """The options of the source, read."""
        return parse_options({**self.options, "range": self.loaded.to_text()}, stream=False)

    def log(self) -> KafkaLog:
        """The records of the range, as a planner asks for them."""
        return Cluster(self.source_options()).log

    def planner(self, span: Span) -> Planner:
        """What cuts a part of the range."""
        cluster = Cluster(self.source_options())
        return Planner(cluster.log, span, cluster.compacted(span.start.topics))

    def _reading(self, reader: Any, loaded: Range) -> "DataFrame":
        options = {**self.options, "range": loaded.to_text()}
        frame: DataFrame = reader.format(self.source.name()).options(**options).load()
        return frame


def with_source(frame: "DataFrame") -> "DataFrame":
    """The records, each with the position it came from: what a transform keeps."""
    from pyspark.sql import functions as f

    return frame.withColumn(SOURCE, f.struct(*SOURCE_FIELDS))


def observed(frame: "DataFrame") -> tuple["DataFrame", "Observation"]:
    """The records, counted as they pass."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    observation = Observation()
    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0))
    return frame.observe(
        observation,
        f.count(f.lit(1)).alias("rows_read"),
        f.coalesce(f.count_if("late"), f.lit(0)).alias("late"),
        f.coalesce(f.sum(size), f.lit(0)).alias("bytes_read"),
    ), observation


def read_tally(observation: "Observation") -> Tally:
    """What was counted, once the rows have passed."""
    found: dict[str, Any] = observation.get
    return Tally(rows_read=found["rows_read"], late=found["late"], bytes_read=found["bytes_read"])
