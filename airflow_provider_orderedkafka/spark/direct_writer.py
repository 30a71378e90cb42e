"""The direct lane: one Python task reads its share of a batch and writes the records, and none crosses to the JVM."""

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Note, Setup, Surplus, Tally
from airflow_provider_orderedkafka.core.cuts import Place, Slice
from airflow_provider_orderedkafka.core.identities import NOTHING_LANDED, Landed
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.errors import OrderViolationError
from airflow_provider_orderedkafka.kafka.partitioners import Partitioner, misplaced
from airflow_provider_orderedkafka.kafka.reading import ReadSettings, ReadTally
from airflow_provider_orderedkafka.kafka.write_settings import WriteSettings, Written
from airflow_provider_orderedkafka.spark.arrow_transforms import ArrowTransform, applied
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.direct_source import TASKS, DirectDataSource
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.kafka_output import NO_REPLAY, KafkaOutput, doubtful, emitted, only_attempt
from airflow_provider_orderedkafka.spark.limit import trimmed

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

FIELDS = ("rows_read", "rows_emitted", "late", "replayed", "lost", "dead_letters", "bytes_read")
TALLY = ", ".join(f"{name} long" for name in FIELDS)


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
    """Writes batches to Kafka, each task its share of the partitions."""

    frames: RangeFrames
    output: KafkaOutput
    read: ReadSettings
    transform: ArrowTransform | None
    placed: tuple[Partitioner, int] | None
    setup: Setup

    def stream(self) -> "DataFrame":
        """The range in micro-batches of shares."""
        return self._shares().stream()

    def piece(self, start: Place, end: Place) -> "DataFrame":
        """The shares of what lies between two places."""
        return self._shares().piece(start, end)

    def ends(self) -> Offsets:
        """Where the output topics end now."""
        return self.output.ends()

    def write(self, batch: Batch, note: Note, *, replay: bool) -> Tally:
        """Read and write the batch; in a replay, leave out what is there already."""
        found = self.output.replay(note) if replay else NO_REPLAY
        settings = self.output.of_batch(batch.number)
        work = Work(self.read, settings, self.transform, self.placed, batch.surplus, found.landed)
        total = Tally()
        for row in batch.frame.mapInArrow(_task(work), TALLY).collect():
            total = total.plus(Tally(**row.asDict()))
        return total.plus(Tally(may_be_doubled=doubtful(found, total.rows - total.replayed)))

    def _shares(self) -> RangeFrames:
        options = {**self.frames.options, TASKS: str(self.setup.writers)}
        return replace(self.frames, options=options, source=DirectDataSource, transform=None)


def _task(work: Work) -> Any:
    def task(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        import pyarrow as pa

        from airflow_provider_orderedkafka.kafka.writing import write

        writer, tally = only_attempt(), ReadTally()
        slices = [each for batch in batches for text in batch.column(0) for each in pickle.loads(text.as_py())]  # noqa: S301
        rows = trimmed(_rows(work, slices, tally), work.surplus)
        found = write(rows, work.write, writer, work.landed.get(writer, NOTHING_LANDED))
        told = _told(tally, found)
        yield pa.RecordBatch.from_pydict({name: [told[name]] for name in FIELDS})

    return task


def _rows(work: Work, slices: list[Slice], tally: ReadTally) -> Iterator["RecordBatch"]:
    from airflow_provider_orderedkafka.spark.reading import read_records

    for slice_ in slices:
        for batch in read_records(slice_, work.read, tally):
            if work.placed is not None:
                _check_placed(batch, *work.placed)
            yield batch if work.transform is None else applied(work.transform, batch, same_keys=work.placed is not None)


def _check_placed(batch: "RecordBatch", partitioner: Partitioner, partitions: int) -> None:
    row = misplaced(batch, partitioner, partitions)
    if row is not None:
        topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
        raise OrderViolationError(
            f"{topic}[{partition}]@{offset} has a key that other producers put into another partition: two tasks would "
            f"write the rows of one key side by side. Run the range with --sink-option writers=1, or with "
            f"keepOrder=none, and a new checkpoint"
        )


def _told(tally: ReadTally, found: Written) -> dict[str, int]:
    read = {"rows_read": tally.records, "late": tally.late, "bytes_read": tally.bytes}
    return read | {"lost": sum(tally.lost.values())} | emitted(found)
