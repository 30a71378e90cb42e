"""`spark.read` and `df.write`, and what the streams have in common with them.

The reader plans the slices of a batch, and reads each in a task. A task's rows reach Kafka at least once, in order,
with their timestamps. Options, columns and output topics are checked when Spark plans. If Spark runs a task again, its
rows are written again; only `run_available_now` skips them.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage

from ...core.documents import Isolation
from ...core.notation.spelling import counted
from ...core.order.cuts import Slice
from ...kafka.clients.pools import ReadTally
from ...kafka.write.settings import WriteSettings, Written
from .options import SourceOptions, parse_sink_options
from .reading import read_batches, read_settings
from .stream import Stream, StreamOffset

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType


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
        stream = Stream(self._options)
        return partitions_of(stream, *stream.whole())

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        return read_partition(self._options, partition, self._columns)


def partitions_of(stream: Stream, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
    """The slices between two offsets, in order; an empty one where there are none."""
    slices = stream.slices(start, end)
    empty = [Slice(0, (), end.latest, 0, start.place.floor)]  # Spark asks for at least one partition
    return [SlicePartition(each, end.isolation, dict(end.topics)) for each in slices or empty]


def read_partition(
    options: SourceOptions, partition: InputPartition, columns: tuple[str, ...] | None
) -> Iterator["RecordBatch"]:
    """The records of a slice, in order; warns of those that its batch was not to reach, as its end cannot be moved."""
    assert isinstance(partition, SlicePartition)
    settings = read_settings(options, partition.isolation, partition.topics)
    tally = ReadTally()
    yield from read_batches(partition.slice, replace(settings, columns=columns), tally)
    if tally.beyond:
        _log.warning(
            "%s of a slice belong after the end of their batch: the broker that was asked for times did not have them "
            "yet. Records of later batches that belong before them are not flagged as late",
            counted(tally.beyond, "record"),
        )


@dataclass
class TaskWritten(WriterCommitMessage):
    written: Written = field(default_factory=Written)


def batch_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "OrderedKafkaWriter":
    """For `DataSource.writer`; raises here, before anything runs, if it cannot work."""
    from ...kafka.write.writing import plan_write

    columns = columns_of(schema)
    settings = named(parse_sink_options(options, columns, overwrite=overwrite), f"write-{uuid.uuid4().hex}")
    return OrderedKafkaWriter(plan_write(settings, columns))


class OrderedKafkaWriter(DataSourceArrowWriter):
    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskWritten:
        return write_task(iterator, self._settings)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.info("wrote %s", total(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.warning("the write failed; tasks that had ended wrote %s, which a rerun writes again", total(messages))


def write_task(iterator: Iterator["RecordBatch"], settings: WriteSettings) -> TaskWritten:
    """Write a task's rows; return when Kafka has acknowledged them all."""
    from ...kafka.replay.landed import Landed, LandedFilter
    from ...kafka.write.writing import write

    if settings.source is not None:
        iterator = LandedFilter(Landed(), "many", settings.source).of(iterator)
    return TaskWritten(write(iterator, settings))


def named(settings: WriteSettings, range_id: str) -> WriteSettings:
    """Write provenance if the rows say where they came from."""
    return settings if settings.source is None else replace(settings, range_id=range_id)


def columns_of(schema: "StructType") -> list[tuple[str, str]]:
    return [(each.name, each.dataType.simpleString()) for each in schema.fields]


def total(messages: Sequence[WriterCommitMessage | None]) -> str:
    found = Written.total(message.written for message in messages if isinstance(message, TaskWritten))
    return f"{counted(found.rows, 'row')}, {counted(found.dead_letters, 'dead letter')}, {counted(found.bytes, 'byte')}"
