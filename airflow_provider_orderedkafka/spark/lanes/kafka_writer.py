"""The DataFrame lane to Kafka: transform batches, keep their order, write them with several tasks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.batches import Batch, Note, Setup, Tally
from airflow_provider_orderedkafka.kafka.provenance import ORDINAL, SEQUENCE
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.kafka.replay.landed_filter import Giving, LandedFilter
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings, Written, written_columns
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames, counted
from airflow_provider_orderedkafka.spark.lanes.kafka_output import (
    NOTHING_BEFORE,
    Before,
    KafkaOutput,
    batch_tally,
    only_attempt,
)
from airflow_provider_orderedkafka.spark.lanes.limit import without_surplus
from airflow_provider_orderedkafka.spark.ordering import dealt
from airflow_provider_orderedkafka.spark.session.counting import TaskCounter
from airflow_provider_orderedkafka.spark.session.plans import read_plan

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FIELDS = ("rows", "dead_letters")


@dataclass(frozen=True, slots=True)
class KafkaWriter:
    """Writes batches to Kafka in order, with several writers."""

    frames: RangeFrames
    output: KafkaOutput
    setup: Setup

    def write(self, batch: Batch, note: Note, before: Before | None) -> Tally:
        """Write the batch in order but for what is there already."""
        before = before or NOTHING_BEFORE
        asked = self.output.of_batch(note)
        settings = writing(self.setup, asked)
        resent, counters = self.frames.counter(), self.frames.counters(note.placement)
        slices = self.frames.slices(batch, self.frames.slice_offsets, literal=bool(before.landed))
        parts = [before.landed.within(each.spans) for each in slices]
        records, read = counted(self.frames.of_batch(batch, slices, parts, counters))
        rows = without_surplus(self.frames.transformed(records), batch.surplus)
        if settings.range_id is not None and (self.output.giving != "one" or before.landed):
            rows = missing(rows, before.landed, self.output.giving, resent)
        rows = in_order(rows, self.setup, asked)
        told = rows.select(*written_columns(rows.dtypes, settings)).mapInArrow(_task(settings), _tally())
        check_plan(told, self.setup, self.output)  # a batch may be planned in another way than the one before it
        written = Written.total(Written(**row.asDict()) for row in told.collect())
        counted_apart = Tally(
            may_be_doubled=resent.total(),
            may_be_out_of_order=counters.misplaced.total(),
            lost=counters.losses.total(),
        )
        return read().plus(batch_tally(note, before, written)).plus(counted_apart)


def missing(rows: "DataFrame", landed: Landed, giving: Giving, resent: TaskCounter) -> "DataFrame":
    """The rows that are missing from the output, numbered where that is needed.

    Each task looks among all that landed: where one task has all the rows, Spark does not tell it which slice is which.
    """
    from pyspark.sql.types import IntegerType, StructField, StructType

    more = [] if giving == "one" else [StructField(ORDINAL, IntegerType())]
    return rows.mapInArrow(partial(_missing, landed, giving, resent), StructType([*rows.schema.fields, *more]))


def _missing(
    landed: Landed, giving: Giving, resent: TaskCounter, batches: Iterator["RecordBatch"]
) -> Iterator["RecordBatch"]:
    left = LandedFilter(landed, giving, "struct")
    yield from left.of(batches)
    if left.began is not None:
        resent.tell(left.began, left.resent)


def in_order(rows: "DataFrame", setup: Setup, settings: WriteSettings) -> "DataFrame":
    """The rows, split among the writers so that the order that was asked for is kept."""
    if setup.keep_order == "none":
        return rows
    if setup.keep_order == "key":
        return dealt(rows, "key", setup.writers)
    said = settings.use_partition == "always"  # by the rows: then no key says it
    count = None if said or settings.topic is None else settings.partitions.get(settings.topic)
    return dealt(rows, "partition", setup.writers, count)


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
    """The schema of a writer's result; as types, because Spark's SQL parser takes half a second to start."""
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType([StructField(name, LongType()) for name in FIELDS])


def _task(settings: WriteSettings) -> Any:
    def task(batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        from pyarrow import RecordBatch

        from airflow_provider_orderedkafka.kafka.write.writing import write

        only_attempt()
        found = write(batches, settings)
        yield RecordBatch.from_pylist([{"rows": found.rows, "dead_letters": found.dead_letters}])

    return task
