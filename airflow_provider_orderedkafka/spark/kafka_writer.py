"""Batches of a range as records in Kafka, by way of DataFrames: transformed, kept in order, written by some tasks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Note, Tally
from airflow_provider_orderedkafka.core.identities import NOTHING_LANDED, Landed
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.errors import TaskFailedError
from airflow_provider_orderedkafka.kafka.write_settings import BatchName, WriteSettings, Written, written_columns
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.frames import RangeFrames, observed, read_tally
from airflow_provider_orderedkafka.spark.limit import without_surplus

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

TALLY = "rows long, left_out long, dead_letters long, bytes long"


@dataclass(frozen=True, slots=True)
class KafkaWriter:
    """Writes batches to Kafka, in order, by so many writers."""

    frames: RangeFrames
    settings: WriteSettings
    keep_order: str
    writers: int

    def ends(self) -> Offsets:
        """Where the output topics end now."""
        return Offsets()

    def write(self, batch: Batch, note: Note, *, replay: bool) -> Tally:  # noqa: ARG002
        """Write the batch in order; in a replay, leave out what is there already."""
        records, observation = observed(batch.frame)
        rows = without_surplus(self.frames.transformed(records), batch.surplus)
        settings = self._settings(batch.number)
        rows = by_key(rows, note.writers).select(*written_columns(rows.dtypes, settings))
        written = collect(rows, settings, {})
        return read_tally(observation).plus(emitted(written))

    def _settings(self, batch: int) -> WriteSettings:
        if self.settings.source is None:
            return self.settings
        return replace(self.settings, batch=BatchName(self.frames.loaded.id, batch))


def by_key(frame: "DataFrame", writers: int) -> "DataFrame":
    """In order for each key."""
    from pyspark.sql import functions as f

    numbered = frame.withColumn("_seq", f.monotonically_increasing_id())
    return numbered.repartition(writers, "key").sortWithinPartitions("_seq")


def collect(rows: "DataFrame", settings: WriteSettings, landed: Mapping[int, Landed]) -> Written:
    """Write each Spark partition by one task, the writer of its number; what the committed tasks wrote."""
    found = rows.mapInArrow(_task(settings, landed), TALLY).collect()
    return Written.total(Written(row.rows, row.left_out, row.dead_letters, row.bytes) for row in found)


def _task(settings: WriteSettings, landed: Mapping[int, Landed]) -> Any:
    def task(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        import pyarrow as pa
        from pyspark import TaskContext

        from airflow_provider_orderedkafka.kafka.writing import write

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber():
            raise TaskFailedError("Spark runs a task a second time: its batch is run again as a whole instead")
        writer = context.partitionId()
        found = write(batches, settings, writer, landed.get(writer, NOTHING_LANDED))
        columns = {"rows": found.rows, "left_out": found.left_out, "dead_letters": found.dead_letters}
        yield pa.RecordBatch.from_pylist([columns | {"bytes": found.bytes}])

    return task


def emitted(written: Written) -> Tally:
    """What a batch put into the output, or found there."""
    return Tally(
        rows_emitted=written.rows + written.left_out, replayed=written.left_out, dead_letters=written.dead_letters
    )
