"""The records of a batch that cannot be decoded, on their way to the dead letter topic.

A transform may filter or join, so bad records do not go through it: a batch that has some is read once more, for them
alone. They have their positions for identities, like all rows, so a replay leaves out those that landed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.batches import Batch, Note
from airflow_provider_orderedkafka.core.limits import check_bad
from airflow_provider_orderedkafka.core.outputs import DEAD_LETTERS
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings, Written
from airflow_provider_orderedkafka.kafka.write.writing import plan_write
from airflow_provider_orderedkafka.spark.connector.columns import spark_columns
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_output import Before, KafkaOutput
from airflow_provider_orderedkafka.spark.lanes.kafka_tasks import missing, total, written_by_tasks

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments


@dataclass(frozen=True, slots=True)
class BadRecords:
    """The bad records of a range's batches, on their way to the dead letter topic of `output`."""

    frames: RangeFrames
    output: KafkaOutput

    def write(self, batch: Batch, note: Note, before: Before | None, found: int) -> Written:
        """Write the bad records of a batch, of which there are so many, but for those that are there already."""
        if not found:
            return Written()
        check_bad(found, self.frames.max_bad)
        settings = self.output.of_batch(note)
        rows = self.frames.bad_of_batch(batch)
        if before is not None and before.landed:
            rows = missing(rows, before.landed, "one", self.frames.counter())
        return total(written_by_tasks(rows, settings))

    def written(self, batch: Batch, note: Note, before: Before | None, found: int) -> int:
        """The same where nothing else goes to Kafka: how many are in the dead letter topic then."""
        there = 0 if before is None else before.landed.dead_letters
        return self.write(batch, note, before, found).dead_letters + there


def bad_records(arguments: "Arguments", frames: RangeFrames) -> BadRecords | None:
    """The bad records of rows that go to tables, on their way to a topic of their own; None without one."""
    topic = arguments.sink_options.get(DEAD_LETTERS)
    if topic is None:
        return None
    kafka = arguments.source.kafka
    # Without the names of other topics: a record's own topic is where it was read from, and is not written to.
    settings = WriteSettings(
        kafka, use_partition="never", dead_letter_topic=topic, output_topics=(topic,), source="columns"
    )
    columns = list(spark_columns(include_headers=frames.loaded.include_headers).items())
    return BadRecords(frames, KafkaOutput(frames.loaded.id, plan_write(settings, columns)))
