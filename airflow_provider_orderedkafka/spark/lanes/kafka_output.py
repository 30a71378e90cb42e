"""Kafka as the output of batches: where it ends, and which rows of a batch it already has."""

import logging
from dataclasses import dataclass, field, replace

from airflow_provider_orderedkafka.core.batches import Batch, Doubt, Note, Tally
from airflow_provider_orderedkafka.core.lanes import Placement
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import TaskFailedError
from airflow_provider_orderedkafka.kafka.lookup.offsets import high_ends
from airflow_provider_orderedkafka.kafka.provenance import VERSION
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.kafka.replay.landed_filter import Giving
from airflow_provider_orderedkafka.kafka.replay.replays import BegunBatch, NotedOutputs, Replay, find_landed
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings, Written

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KafkaBefore:
    """What earlier attempts left of a batch: `landed` is left out now; and what of it nobody can know."""

    landed: Landed = field(default_factory=Landed)
    doubt: Doubt | None = None


NOTHING_BEFORE = KafkaBefore()


def batch_tally(note: Note, before: KafkaBefore, written: Written) -> Tally:
    """What a batch has come to, once the rest of it is written."""
    landed, dead = before.landed.rows, before.landed.dead_letters
    found = Tally(rows_emitted=written.rows + landed - dead, replayed=landed, dead_letters=written.dead_letters + dead)
    return found.plus(note.in_doubt(found.rows))


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """The output topics of a range.

    `giving` says how many rows a record gives, `code` is a digest of what makes them, `placement` says how keys are
    placed in the source, where the order relies on that. `untrusted` says why the rows have no lasting identity, if
    they have none.
    """

    range_id: str
    settings: WriteSettings
    code: str = ""
    giving: Giving = "one"
    untrusted: str | None = None
    placement: Placement | None = None

    @property
    def partitions(self) -> int | None:
        """How many partitions the output has, where it is one topic."""
        topic = self.settings.topic
        return None if topic is None else self.settings.outputs[topic].partitions

    @property
    def unprotected(self) -> str | None:
        """Why rows that landed cannot be recognised; None if they can."""
        if self.settings.source is None:
            return "provenance is off, so records do not say which row they are"
        if self.untrusted is not None:
            return f"the transform may make other rows each time: {self.untrusted}"
        return None

    def noted(self, batch: Batch, attempt: int, _keep: object) -> Note:
        """The note of a batch that is about to be written for the first time."""
        note = Note(batch.number, attempt, batch.start, batch.end, Offsets(), {}, provenance=VERSION)
        return self.joined(note)

    def joined(self, note: Note) -> Note:
        """The note of a batch in which this attempt takes part."""
        ids = {name: output.id for name, output in self.settings.outputs.items()}
        for topic in sorted(note.recreated(ids)):
            _log.warning(
                "output topic %r was deleted and created again since batch %d was noted: all of it is read",
                topic,
                note.batch,
            )
        return note.joined(self.ends(), ids, self.code).relying_on(self.placement)

    def of_batch(self, note: Note) -> WriteSettings:
        range_id = None if self.settings.source is None else self.range_id
        return replace(self.settings, range_id=range_id, partitions=note.partitions)

    def ends(self) -> Offsets:
        """Where the output topics end now."""
        counts = {name: output.partitions for name, output in self.settings.outputs.items()}
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        return high_ends(self.settings.config, partitions, "read_uncommitted")

    def before(self, note: Note) -> KafkaBefore:
        """What the outputs have of a noted batch, once they have settled."""
        if self.unprotected is not None:
            written = sum(max(end - note.outputs.get(p, 0), 0) for p, end in self.ends().items())
            _log.warning("batch %d is written again whole: %s", note.batch, self.unprotected)
            return KafkaBefore(doubt=Doubt(0, written, settled=True, known=False) if written else None)
        found = self._found(note)
        landed, doubtful = found.landed, found.gone + found.unnamed
        if self.giving != "one" and set(note.code) > {self.code} and landed:
            _log.warning(
                "batch %d is written again whole: the transform was changed since it was begun, and gives several rows "
                "for a record, so it cannot be told which of them are there",
                note.batch,
            )
            landed, doubtful = Landed(), doubtful + landed.rows
        if found.settled and not doubtful + found.again:
            return KafkaBefore(landed)
        return KafkaBefore(landed, Doubt(landed.rows, doubtful + found.again, found.settled, known=not doubtful))

    def _found(self, note: Note) -> Replay:
        settings = self.settings
        batch = BegunBatch(
            self.range_id,
            note.start.offsets,
            note.end.offsets,
            batch=note.batch if note.provenance < VERSION else None,
            at_most_one=self.giving == "one",
        )
        topics = tuple(sorted(settings.topics | set(note.output_ids)))
        compacted = frozenset(name for name, output in settings.outputs.items() if output.compacted)
        outputs = NotedOutputs(topics, note.outputs, settings.dead_letter_topic, compacted)
        return find_landed(settings.config, batch, outputs)


def only_attempt() -> int:
    """The number of this task, for its first attempt; a second one would write beside the first."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber():
        raise TaskFailedError("Spark runs a task a second time: its batch is run again as a whole instead")
    number: int = context.partitionId()
    return number
