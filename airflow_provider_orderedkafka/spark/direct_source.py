"""The source of the direct lane: each Spark partition is a task's share of a batch, not read yet.

What Spark is handed is one row for each task, the slices of its partitions; the task that gets it reads them and
writes the records itself.
"""

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from airflow_provider_orderedkafka.core.cuts import Slice
from airflow_provider_orderedkafka.core.lanes import share_out, sizes
from airflow_provider_orderedkafka.spark.options import SourceOptions, parse_options
from airflow_provider_orderedkafka.spark.source import (
    OrderedKafkaDataSource,
    OrderedKafkaReader,
    OrderedKafkaStreamReader,
    SlicePartition,
)

if TYPE_CHECKING:
    from pyarrow import RecordBatch

NAME = "orderedkafka-direct"
TASKS = "tasks"


class SharePartition(InputPartition):
    """A task's share."""

    def __init__(self, task: int, slices: list[Slice]) -> None:
        super().__init__(task)
        self.slices = slices


class DirectDataSource(OrderedKafkaDataSource):
    """A range as shares of so many tasks; the option `tasks` says how many, the others are the source's."""

    @classmethod
    def name(cls) -> str:
        """What `format(...)` calls it."""
        return NAME

    def schema(self) -> str:
        """One pickled list of slices."""
        return "slices binary"

    def reader(self, schema: StructType) -> "DirectReader":  # noqa: ARG002 - Spark's signature
        """For `spark.read`."""
        return DirectReader(*_options(self.options, stream=False))

    def streamReader(self, schema: StructType) -> "DirectStreamReader":  # noqa: ARG002, N802
        """For `spark.readStream`."""
        return DirectStreamReader(*_options(self.options, stream=True))


class DirectReader(OrderedKafkaReader):
    """The shares of a whole range."""

    def __init__(self, options: SourceOptions, tasks: int) -> None:
        super().__init__(options)
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """One share for each task."""
        return shares(super().partitions(), self._options, self._tasks)

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """The share itself."""
        return _handed_on(partition)


class DirectStreamReader(OrderedKafkaStreamReader):
    """The shares of each micro-batch."""

    def __init__(self, options: SourceOptions, tasks: int) -> None:
        super().__init__(options)
        self._tasks = tasks

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_tasks": self._tasks}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One share for each task."""
        return shares(super().partitions(start, end), self._options, self._tasks)

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:
        """The share itself."""
        return _handed_on(partition)


def _options(given: Mapping[str, str], *, stream: bool) -> tuple[SourceOptions, int]:
    tasks = int(given[TASKS])
    options = parse_options({name: value for name, value in given.items() if name != TASKS}, stream=stream)
    # A task has a part of each slice's partitions: it reads as many records at once as a slice has.
    return replace(options, slice_offsets=options.slice_offsets * tasks), tasks


def shares(planned: list[InputPartition], options: SourceOptions, tasks: int) -> list[InputPartition]:
    """The slices, split by partition number; the same numbers go to the same task in every batch of a range."""
    assert options.range is not None
    slices = [each.slice for each in planned if isinstance(each, SlicePartition)]
    task_of = share_out(sizes(options.range.start.offsets, options.range.end.offsets), tasks)
    return [SharePartition(task, [_part(each, task_of, task) for each in slices]) for task in range(tasks)]


def _part(slice_: Slice, task_of: Mapping[int, int], task: int) -> Slice:
    stretches = tuple(each for each in slice_.stretches if task_of[each.partition.partition] == task)
    return replace(slice_, stretches=stretches)


def _handed_on(partition: InputPartition) -> Iterator["RecordBatch"]:
    import pyarrow as pa

    assert isinstance(partition, SharePartition)
    yield pa.record_batch({"slices": pa.array([pickle.dumps(partition.slices)], pa.binary())})
