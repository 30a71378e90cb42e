"""The DataFrame lane to Kafka: batches are transformed, kept in order, and written by some tasks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Note, Setup, Tally
from airflow_provider_orderedkafka.core.identities import NOTHING_LANDED, Landed
from airflow_provider_orderedkafka.kafka.write_settings import WriteSettings, written_columns
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.frames import RangeFrames, counted, read_tally
from airflow_provider_orderedkafka.spark.kafka_output import NO_REPLAY, KafkaOutput, emitted, only_attempt
from airflow_provider_orderedkafka.spark.limit import without_surplus
from airflow_provider_orderedkafka.spark.ordering import (
    KeepOrder,
    check_no_shuffle,
    dealt,
    keep_order,
    own_shuffles,
)

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Deal = Callable[["DataFrame", KeepOrder, int, int | None], "DataFrame"]

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
        losses = self.frames.losses()
        records = counted(self.frames.of_batch(batch, self.output.settings.config, losses))
        rows = without_surplus(self.frames.transformed(records), batch.surplus)
        rows = in_order(rows, self.setup, self.output, dealt)
        settings, columns = writing(self.setup, self.output.of_batch(batch.number)), rows.dtypes
        told = rows.select(*written_columns(columns, settings)).mapInArrow(_task(settings, there.landed), _tally())
        if self.setup.keep_order != "none":  # a batch may be planned in another way than the one before it
            check_no_shuffle(told, own_shuffles(dict(columns), self.setup.keep_order, self.setup.writers))
        written = Tally()
        for row in told.collect():
            written = written.plus(Tally(**row.asDict()))
        again = Tally(may_be_doubled=self.output.may_be_doubled(batch.number, written.rows), lost=losses.total())
        return read_tally(told).plus(written).plus(again)


def in_order(rows: "DataFrame", setup: Setup, output: KafkaOutput, deal: Deal = keep_order) -> "DataFrame":
    """The rows, split among the writers so that the order that was asked for is kept."""
    if setup.keep_order == "none":
        return rows
    if setup.keep_order == "key":
        return deal(rows, "key", setup.writers, None)
    return deal(rows, "partition", setup.writers, output.partitions)


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
