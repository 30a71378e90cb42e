"""The Spark data source `orderedkafka`: `spark.read`, `spark.readStream`, `df.write`, `df.writeStream`.

Spark partition i is slice i, and each slice comes in order: a DataFrame is in time order over all topics and
partitions as it is read, without a shuffle or a sort, and stays so through every narrow transformation.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.core.streams import INITIAL, StreamOffset
from airflow_provider_orderedkafka.spark.connector.columns import asked_columns
from airflow_provider_orderedkafka.spark.connector.options import SourceOptions, parse_options

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from airflow_provider_orderedkafka.spark.connector.stream import Stream

NAME = "orderedkafka"


class SlicePartition(InputPartition):
    """A slice for the task that reads it, with what its rows depend on."""

    def __init__(self, slice_: Slice, isolation: Isolation, topics: dict[str, str]) -> None:
        super().__init__(slice_.index)
        self.slice = slice_
        self.isolation = isolation
        self.topics = topics


class OrderedKafkaDataSource(DataSource):
    """Kafka in time order. Options are those of Spark's own Kafka connector, and more: see docs/reading.md."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return NAME

    def schema(self) -> str:
        """The columns of Spark's own connector, `order_time` and `late`."""
        from airflow_provider_orderedkafka.kafka.read.arrow import columns

        return columns(include_headers=parse_options(self.options, stream=True).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`; a schema selects columns."""
        options = parse_options(self.options, stream=False)
        return OrderedKafkaReader(options, asked_columns(schema, include_headers=options.include_headers))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        options = parse_options(self.options, stream=True)
        return OrderedKafkaStreamReader(options, asked_columns(schema, include_headers=options.include_headers))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        from airflow_provider_orderedkafka.spark.connector.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For `df.writeStream`."""
        from airflow_provider_orderedkafka.spark.connector.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)


class OrderedKafkaReader(DataSourceReader):
    """Plans the slices when Spark plans, and reads them."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...] | None) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """The slices, in order."""
        from airflow_provider_orderedkafka.spark.connector.stream import Stream

        stream = Stream(self._options)
        return _partitions(stream, *stream.whole())

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """The records of a slice, in order."""
        return _read(self._options, partition, self._columns)


class OrderedKafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Passes Spark's calls to a `Stream`, which is made at the first one and does not travel to tasks."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...] | None = None) -> None:
        self._options = options
        self._columns = columns
        self._stream: Stream | None = None
        self._planned: StreamOffset | None = None

    def _live(self) -> "Stream":
        from airflow_provider_orderedkafka.spark.connector.stream import Stream

        if self._stream is None:
            self._stream = Stream(self._options)
        return self._stream

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}

    def initialOffset(self) -> dict[str, Any]:
        """A constant: Spark may ask again at any time, and another answer would lose records."""
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`."""
        return ReadAllAvailable() if self._options.most is None else ReadMaxRows(self._options.most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix how far this query reads."""
        self._live().fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch: a cut within the limit, or `start` if no batch is due."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        at = StreamOffset.from_json(start)
        found = self._live().first() if at is None else self._live().after(at, most)
        self._planned = found or at
        return start if found is None else found.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress: the high ends, and how many offsets the planned batch is behind them."""
        return self._live().progress(self._planned)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The slices of a batch, in order. They depend on the two offsets only."""
        before, after = StreamOffset.from_json(start), StreamOffset.from_json(end)
        if before is None or after is None:
            return []
        return _partitions(self._live(), before, after)

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """The records of a slice, in order."""
        return _read(self._options, partition, self._columns)

    def stop(self) -> None:
        """There is nothing to release."""


def _partitions(stream: "Stream", start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
    slices = stream.slices(start, end)
    empty = [Slice(0, (), end.latest, 0, start.place.floor)]  # Spark asks for at least one partition
    return [SlicePartition(each, end.isolation, dict(end.topics)) for each in slices or empty]


def _read(
    options: SourceOptions, partition: InputPartition, columns: tuple[str, ...] | None
) -> Iterator["RecordBatch"]:
    from airflow_provider_orderedkafka.spark.connector.reading import read_batches, read_settings

    assert isinstance(partition, SlicePartition)
    settings = read_settings(options, partition.isolation, partition.topics)
    return read_batches(partition.slice, replace(settings, columns=columns))
