"""The DataFrame lane to Kafka: transform batches, keep their order, write them with several tasks."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.batches import Batch, Note, Setup, Tally
from airflow_provider_orderedkafka.core.limits import check_bad
from airflow_provider_orderedkafka.kafka.provenance import SEQUENCE
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings, Written
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_output import (
    NOTHING_BEFORE,
    KafkaBefore,
    OutputTopics,
    batch_tally,
)
from airflow_provider_orderedkafka.spark.lanes.kafka_tasks import missing, total, written_by_tasks
from airflow_provider_orderedkafka.spark.lanes.limit import without_surplus
from airflow_provider_orderedkafka.spark.ordering import dealt
from airflow_provider_orderedkafka.spark.session.plans import read_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class KafkaWriter:
    """Writes batches to Kafka in order, with several writers."""

    frames: RangeFrames
    output: OutputTopics
    setup: Setup

    def write(self, batch: Batch, note: Note, before: KafkaBefore | None) -> Tally:
        """Write the batch in order but for what is there already."""
        before = before or NOTHING_BEFORE
        asked = self.output.of_batch(note)
        settings = writing(self.setup, asked)
        resent, counters = self.frames.counter(), self.frames.counters(note.placement)
        slices = self.frames.slices(batch, self.frames.slice_offsets, literal=bool(before.landed))
        parts = [before.landed.within(each.spans) for each in slices]
        rows = without_surplus(self.frames.of_batch(batch, slices, parts, counters=counters), batch.surplus)
        if settings.range_id is not None and (self.output.giving != "one" or before.landed):
            rows = missing(rows, before.landed, self.output.giving, resent)
        rows = in_order(rows, self.setup, asked)
        told = written_by_tasks(rows, settings)
        check_plan(told, self.setup, self.output)  # a batch may be planned in another way than the one before it
        written = total(told)
        if found := counters.bad.total():
            check_bad(found, self.frames.making.max_bad)
            written += self._write_bad(batch, before, asked)
        read = counters.tally().plus(Tally(may_be_doubled=resent.total()))
        return read.plus(batch_tally(note, before, written))

    def _write_bad(self, batch: Batch, before: KafkaBefore, settings: WriteSettings) -> Written:
        """Write the bad records, but for those that are there: a transform may filter or join, so they pass it by."""
        rows = self.frames.bad_of_batch(batch)
        if before.landed:
            rows = missing(rows, before.landed, "one", self.frames.counter())
        return total(written_by_tasks(rows, settings))


def in_order(rows: "DataFrame", setup: Setup, settings: WriteSettings) -> "DataFrame":
    """The rows, split among the writers so that the order that was asked for is kept."""
    if setup.keep_order == "none":
        return rows
    if setup.keep_order == "key":
        return dealt(rows, "key", setup.writers)
    said = settings.use_partition == "always"  # by the rows: then no key says it
    count = None if said or settings.topic is None else settings.partitions.get(settings.topic)
    return dealt(rows, "partition", setup.writers, count)


def check_plan(rows: "DataFrame", setup: Setup, output: OutputTopics) -> None:
    """Refuse what was made of `in_order` where the transform loses the order, or the identities that are relied on."""
    if setup.keep_order != "none":
        facts = read_plan(rows, below=SEQUENCE)
        facts.check_ordered("ask for no order with --sink-option keepOrder=none")
    elif output.unprotected is None:
        read_plan(rows).check_trusted("switch provenance off with --sink-option provenance=false")


def writing(setup: Setup, settings: WriteSettings) -> WriteSettings:
    """The settings for rows in this order: order by partition is that of the column that `keep_order` makes."""
    return replace(settings, use_partition="always") if setup.keep_order == "partition" else settings
