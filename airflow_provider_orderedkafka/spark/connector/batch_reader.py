"""The reader of `spark.read`: plans the slices of a batch, and reads each in a task."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.notation.spelling import counted
from airflow_provider_orderedkafka.core.order.cuts import Slice

from .options import SourceOptions
from .stream import StreamOffset

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from .stream import Stream


_log = logging.getLogger(__name__)


class SlicePartition(InputPartition):
    """A slice for the task that reads it, with what its rows depend on."""

    def __init__(self, slice_: Slice, isolation: Isolation, topics: dict[str, str]) -> None:
        super().__init__(slice_.index)
        self.slice = slice_
        self.isolation = isolation
        self.topics = topics


class OrderedKafkaReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...] | None) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        from .stream import Stream

        stream = Stream(self._options)
        return partitions_of(stream, *stream.whole())

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        return read_partition(self._options, partition, self._columns)


def partitions_of(stream: "Stream", start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
    """The slices between two offsets, in order; an empty one where there are none."""
    slices = stream.slices(start, end)
    empty = [Slice(0, (), end.latest, 0, start.place.floor)]  # Spark asks for at least one partition
    return [SlicePartition(each, end.isolation, dict(end.topics)) for each in slices or empty]


def read_partition(
    options: SourceOptions, partition: InputPartition, columns: tuple[str, ...] | None
) -> Iterator["RecordBatch"]:
    """The records of a slice, in order; warns of those that its batch was not to reach, as its end cannot be moved."""
    from airflow_provider_orderedkafka.kafka.clients.pools import ReadTally

    from .reading import read_batches, read_settings

    assert isinstance(partition, SlicePartition)
    settings = read_settings(options, partition.isolation, partition.topics)
    tally = ReadTally()
    yield from read_batches(partition.slice, replace(settings, columns=columns), tally)
    if tally.beyond:
        _log.warning(
            "%s of a slice belong behind the end of their batch: who was asked for times did not know them yet. "
            "What comes in a later batch and belongs before them is not flagged as late",
            counted(tally.beyond, "record"),
        )
