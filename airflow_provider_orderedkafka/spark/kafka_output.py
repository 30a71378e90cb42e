"""Kafka as the output of a range's batches: where it ends, and which rows of a batch are there already."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider_orderedkafka.core.batches import Note
from airflow_provider_orderedkafka.core.identities import Landed
from airflow_provider_orderedkafka.core.positions import Offsets
from airflow_provider_orderedkafka.errors import TaskFailedError
from airflow_provider_orderedkafka.kafka.write_settings import BatchName, WriteSettings


@dataclass(frozen=True, slots=True)
class KafkaOutput:
    """The output topics of a range."""

    range_id: str
    settings: WriteSettings

    @property
    def partitions(self) -> int | None:
        """How many partitions the output has, where it is one topic."""
        topic = self.settings.topic
        return None if topic is None else self.settings.outputs[topic].partitions

    def of_batch(self, number: int) -> WriteSettings:
        """The settings for the rows of a batch."""
        if self.settings.source is None:
            return self.settings
        return replace(self.settings, batch=BatchName(self.range_id, number))

    def ends(self) -> Offsets:
        """Where the output topics end now."""
        return Offsets()

    def landed(self, note: Note) -> tuple[Mapping[int, Landed], int]:  # noqa: ARG002
        """What each writer wrote of a noted batch, and how many rows may be doubled all the same."""
        return {}, 0


def only_attempt() -> int:
    """The number of this task, for its first attempt; a second one would write beside the first."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber():
        raise TaskFailedError("Spark runs a task a second time: its batch is run again as a whole instead")
    number: int = context.partitionId()
    return number
