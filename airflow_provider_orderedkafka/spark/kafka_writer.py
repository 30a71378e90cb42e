"""The DataFrame lane to Kafka: batches are transformed, kept in order, and written by some tasks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Note, Setup, Tally
from airflow_provider_orderedkafka.core.identities import NOTHING_LANDED, Landed
from airflow_provider_orderedkafka.kafka.write_settings import SEQUENCE, WriteSettings, written_columns
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.frames import RangeFrames, counted, read_tally
from airflow_provider_orderedkafka.spark.kafka_output import NO_REPLAY, KafkaOutput, doubtful, emitted, only_attempt
from airflow_provider_orderedkafka.spark.limit import without_surplus
from airflow_provider_orderedkafka.spark.ordering import dealt
from airflow_provider_orderedkafka.spark.plans import read_plan

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FIELDS = ("rows_emitted", "replayed", "dead_letters")


@dataclass(frozen=True, slots=True)
class KafkaWriter:
    """Writes batches to Kafka, in order, by so many writers."""

    frames: RangeFrames
    output: KafkaOutput
    setup: Setup

    def write(self, batch: Batch, note: Note, *, replay: bool) -> Tally:
        """Write the batch in order; in a replay, leave out what is there already."""
        there = self.output.replay(note) if replay else NO_REPLAY
        records = counted(self.frames.of_batch(batch, self.output.settings.config))
        rows = without_surplus(self.frames.transformed(records), batch.surplus)
        rows = in_order(rows, self.setup, self.output)
        settings, columns = writing(self.setup, self.output.of_batch(batch.number)), rows.dtypes
        told = rows.select(*written_columns(columns, settings)).mapInArrow(_task(settings, there.landed), _tally())
        check_plan(told, self.setup, self.output)  # a batch may be planned in another way than the one before it
        written = Tally()
        for row in told.collect():
            written = written.plus(Tally(**row.asDict()))
        again = Tally(may_be_doubled=doubtful(there, written.rows - written.replayed), lost=self.frames.lost(batch))
        return read_tally(told).plus(written).plus(again)


def in_order(rows: "DataFrame", setup: Setup, output: KafkaOutput) -> "DataFrame":
    """The rows, split among the writers so that the order that was asked for is kept."""
    if setup.keep_order == "none":
        return rows
    if setup.keep_order == "key":
        return dealt(rows, "key", setup.writers)
    said = output.settings.use_partition == "always"  # by the rows: then no key says it
    return dealt(rows, "partition", setup.writers, None if said else output.partitions)


def check_plan(rows: "DataFrame", setup: Setup, output: KafkaOutput) -> None:
    """Refuse what was made of `in_order` where the transform loses the order, or the identities that are relied on."""
    if setup.keep_order != "none":
        facts = read_plan(rows, below=SEQUENCE)
        facts.check_ordered("ask for no order with --sink-option keepOrder=none")
    elif output.unprotected is None:
        read_plan(rows).check_trusted("switch provenance off with --sink-option provenance=false")


def writing(setup: Setup, settings: WriteSettings) -> WriteSettings:
    """The settings for rows in this order: order by partition is that of the column that `keep_order` makes."""
    return replace(settings, use_partition="always") if setup.keep_order == "partition" else settings


def _tally() -> "StructType":
    """What each writer tells. As types and not as text: Spark's parser of SQL takes half a second to start."""
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType([StructField(name, LongType()) for name in FIELDS])


def _task(settings: WriteSettings, landed: Mapping[int, Landed]) -> Any:
    def task(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        from airflow_provider_orderedkafka.kafka import buffers, reader  # noqa: F401 - it may read the next batch
        from airflow_provider_orderedkafka.kafka.writing import write

        writer = only_attempt()
        found = write(batches, settings, writer, landed.get(writer, NOTHING_LANDED))
        told = emitted(found)
        yield buffers.counts(**{name: getattr(told, name) for name in FIELDS})

    return task
