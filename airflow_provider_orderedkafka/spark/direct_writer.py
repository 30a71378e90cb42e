"""The direct lane: one Python task reads its share of a batch and writes the records, and none crosses to the JVM."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_provider_orderedkafka.core.batches import Note, Setup, Surplus, Tally
from airflow_provider_orderedkafka.core.cuts import Slice
from airflow_provider_orderedkafka.core.identities import NOTHING_LANDED, Landed
from airflow_provider_orderedkafka.core.lanes import share_out, sizes
from airflow_provider_orderedkafka.errors import OrderViolationError
from airflow_provider_orderedkafka.kafka.partitioners import Partitioner, misplaced
from airflow_provider_orderedkafka.kafka.reading import ReadSettings, ReadTally
from airflow_provider_orderedkafka.kafka.write_settings import WriteSettings
from airflow_provider_orderedkafka.spark.arrow_transforms import ArrowTransform, applied
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.kafka_output import NO_REPLAY, KafkaOutput, emitted, only_attempt
from airflow_provider_orderedkafka.spark.limit import trimmed
from airflow_provider_orderedkafka.spark.reading import read_batches, read_records


@dataclass(frozen=True, slots=True)
class Work:
    """What a task is told beside its slices. `placed` says how each topic's keys must be placed to stay in order."""

    read: ReadSettings
    write: WriteSettings
    transform: ArrowTransform | None
    placed: tuple[Partitioner, int] | None
    surplus: Surplus | None
    landed: Mapping[int, Landed]


@dataclass(frozen=True, slots=True)
class DirectWriter:
    """Writes batches to Kafka, each task its share of the partition numbers."""

    frames: RangeFrames
    output: KafkaOutput
    transform: ArrowTransform | None
    placed: tuple[Partitioner, int] | None
    setup: Setup

    def write(self, batch: Batch, note: Note, *, replay: bool) -> Tally:
        """Read and write the batch; in a replay, leave out what is there already."""
        there = self.output.replay(note) if replay else NO_REPLAY
        settings = self.output.of_batch(batch.number)
        work = Work(self.frames.read, settings, self.transform, self.placed, batch.surplus, there.landed)
        context, shares = self.frames.session.sparkContext, self._shares(batch)
        total = Tally()
        for tally in context.parallelize(shares, len(shares)).mapPartitions(partial(_task, work)).collect():
            total = total.plus(tally)
        return total.plus(Tally(may_be_doubled=self.output.may_be_doubled(batch.number, total.rows)))

    def _shares(self, batch: Batch) -> list[list[Slice]]:
        """The batch's slices, split by partition number; a number has the same task in every batch of the range."""
        loaded, tasks = self.frames.loaded, self.setup.writers
        slices = self.frames.slices(batch, self.frames.cluster.options.slice_offsets * tasks)
        task_of = share_out(sizes(loaded.start.offsets, loaded.end.offsets), tasks)
        return [[_part(each, task_of, task) for each in slices] for task in range(tasks)]


def _part(slice_: Slice, task_of: Mapping[int, int], task: int) -> Slice:
    return replace(slice_, stretches=tuple(s for s in slice_.stretches if task_of[s.partition.partition] == task))


def _task(work: Work, shares: Iterable[list[Slice]]) -> Iterator[Tally]:
    """What each task does: one writer, one share."""
    from airflow_provider_orderedkafka.kafka.writing import write

    writer, tally = only_attempt(), ReadTally()
    slices = [each for share in shares for each in share]
    rows = trimmed(_rows(work, slices, tally), work.surplus)
    found = write(rows, work.write, writer, work.landed.get(writer, NOTHING_LANDED))
    lost = sum(tally.lost.values())
    yield Tally(rows_read=tally.records, late=tally.late, bytes_read=tally.bytes, lost=lost).plus(emitted(found))


def _rows(work: Work, slices: Iterable[Slice], tally: ReadTally) -> Iterator[Any]:
    read = read_records if work.transform is None else read_batches
    for slice_ in slices:
        for batch in read(slice_, work.read, tally):
            if work.placed is not None:
                _check_placed(batch, *work.placed)
            if work.transform is None:
                yield batch
            else:
                yield applied(work.transform, batch, same_keys=work.placed is not None)


def _check_placed(batch: Any, partitioner: Partitioner, partitions: int) -> None:
    row = misplaced(batch, partitioner, partitions)
    if row is not None:
        topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
        raise OrderViolationError(
            f"{topic}[{partition}]@{offset} has a key that other producers put into another partition: two tasks would "
            f"write the rows of one key side by side. Run the range with --sink-option writers=1, or with "
            f"keepOrder=none, and a new checkpoint"
        )
