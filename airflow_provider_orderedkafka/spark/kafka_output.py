"""Kafka as the output of a range's batches: where it ends, and which rows of a batch are there already."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_orderedkafka.core.batches import Note, Tally
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import TaskFailedError
from airflow_provider_orderedkafka.kafka.offsets import high_ends
from airflow_provider_orderedkafka.kafka.replays import Outputs, Replay, find_landed
from airflow_provider_orderedkafka.kafka.write_settings import BatchName, WriteSettings, Written

NO_REPLAY = Replay()

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KafkaOutput:
    """The output topics of a range. `shuffled` says that rows have no fixed order, and so no lasting identity.

    `tries` are what each try to replay the present batch found: one that failed has written, too.
    """

    range_id: str
    settings: WriteSettings
    shuffled: bool = False
    tries: dict[int, list[Replay]] = field(default_factory=dict, compare=False)

    @property
    def partitions(self) -> int | None:
        """How many partitions the output has, where it is one topic."""
        topic = self.settings.topic
        return None if topic is None else self.settings.outputs[topic].partitions

    @property
    def unprotected(self) -> str | None:
        """Why rows that landed cannot be told from those that did not; None where they can."""
        if self.settings.source is None:
            return "provenance is off, so records do not say which row they are"
        if self.shuffled:
            return "the transform shuffles, so its rows come in another order each time"
        return None

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the output topics, as they were when this attempt began."""
        return {name: output.id for name, output in self.settings.outputs.items()}

    def of_batch(self, number: int) -> WriteSettings:
        """The settings for the rows of a batch."""
        if self.settings.source is None:
            return self.settings
        return replace(self.settings, batch=BatchName(self.range_id, number))

    def ends(self) -> Offsets:
        """Where the output topics end now."""
        counts = {name: output.partitions for name, output in self.settings.outputs.items()}
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        return high_ends(self.settings.config, partitions, "read_uncommitted")

    def replay(self, note: Note) -> Replay:
        """What stands in the outputs of a noted batch, once nothing more of it comes."""
        found = self._found(note)
        self.tries.setdefault(note.batch, []).append(found)
        return found

    def may_be_doubled(self, batch: int, rows: int) -> int:
        """How many of a batch's rows may be doubled, now that so many are written or were there already."""
        return doubtful(self.tries.pop(batch, ()), rows)

    def _found(self, note: Note) -> Replay:
        if self.unprotected is not None:
            written = self.ends().since(note.outputs)
            _log.warning("batch %d is written again whole: %s", note.batch, self.unprotected)
            return Replay(may_be_doubled=written)
        settings = self.settings
        outputs = Outputs(tuple(sorted(settings.topics)), note.outputs, settings.dead_letter_topic, note.output_ids)
        return find_landed(settings.config, BatchName(self.range_id, note.batch), outputs)


def doubtful(tries: Sequence[Replay], rows: int) -> int:
    """How many of so many rows may be doubled after these tries to replay them.

    What one try could not know is in doubt though the next one could: what both are in doubt about counts once.
    """
    gone = max((found.may_be_doubled for found in tries), default=0)
    return gone + max([0, *(rows - found.rows for found in tries if not found.settled)])


def emitted(found: Written) -> Tally:
    """What a task put into the output, or found there."""
    return Tally(
        rows_emitted=found.rows + found.left_out,
        replayed=found.left_out + found.dead_left_out,
        dead_letters=found.dead_letters + found.dead_left_out,
    )


def only_attempt() -> int:
    """The number of this task, for its first attempt; a second one would write beside the first."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber():
        raise TaskFailedError("Spark runs a task a second time: its batch is run again as a whole instead")
    number: int = context.partitionId()
    return number
