"""Kafka as the output of batches: where it ends, which rows of a batch it has, and the tasks that write the rest."""

import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from time import process_time_ns
from typing import TYPE_CHECKING

from ...core.batches import Batch, Doubt, Note, Tally
from ...core.documents import Destination, Ends
from ...core.lanes import KeepOrder, PlacedBy, Placement
from ...core.order.positions import Offsets, TopicPartition
from ...errors import SettingError, TaskFailedError
from ...kafka.provenance import ORDINAL
from ...kafka.replay.landed import Landed, LandedFilter, RowsPerRecord
from ...kafka.replay.replays import BegunBatch, NotedOutputs, Outputs, Replay, find_landed
from ...kafka.write.settings import WriteSettings, Written, written_columns
from ...kafka.write.turns import Turns
from ..session.counting import TaskCounter, each_partition, results

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KafkaBefore:
    """What earlier attempts left of a batch: `landed` is left out now; `doubt` is what cannot be known."""

    landed: Landed = field(default_factory=Landed)
    doubt: Doubt | None = None


NOTHING_BEFORE = KafkaBefore()


def batch_tally(note: Note, before: KafkaBefore, written: Written) -> Tally:
    landed, dead = before.landed.rows, before.landed.dead_letters
    found = Tally(
        rows_emitted=written.rows + landed - dead,
        replayed=landed,
        dead_letters=written.dead_letters + dead,
        bytes_written=written.bytes,
        core_ms=written.spent // 1_000_000,
    )
    return found.plus(note.in_doubt(found.rows)).plus(Tally(may_be_doubled=before.landed.in_letters_too))


@dataclass(frozen=True, slots=True)
class OutputTopics:
    """The output topics of a range.

    `code` is a digest of the transform's code, `placement` says how keys are placed in the source, where the
    order relies on that. `untrusted` says why the rows have no lasting identity, if they have none. With `turns` they
    are written exactly once, by so many `writers`.
    """

    range_id: str
    settings: WriteSettings
    kafka: Outputs
    code: str = ""
    rows_per_record: RowsPerRecord = "one"
    untrusted: str | None = None
    placement: Placement | None = None
    turns: Turns | None = None
    writers: int = 0

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
            return f"the transform may make different rows each time: {self.untrusted}"
        return None

    def destination(self, *, copied: bool, keep_order: KeepOrder) -> Destination:
        settings = self.settings
        dead = settings.dead_letter_topic
        by_key: PlacedBy = "" if settings.config.get("partitioner") == "random" else "key"
        return Destination(
            output=f"topic:{settings.topic or ','.join(settings.output_topics)}",
            dead_letters="" if dead is None else f"topic:{dead}",
            copied=copied,
            identity=settings.source is not None,
            headers=settings.use_headers,
            keep_order=keep_order,
            placed_by="row" if settings.use_partition == "always" else by_key,
            committed=self.turns is not None,
        )

    def may_double(self, batch: Batch) -> int | None:
        if self.turns is not None:
            return 0
        return batch.offsets if self.rows_per_record == "one" else None

    def noted(self, batch: Batch, attempt: int, _keep: object) -> Note:
        if self.turns is not None:
            self.turns.of_writers(self.writers)
        note = Note(batch.number, attempt, batch.start, batch.end, Offsets(), {})
        return self.joined(note)

    def joined(self, note: Note) -> Note:
        now = self.ends()
        for topic in sorted(note.recreated(now.ids)):
            _log.warning(
                "output topic %r was deleted and created again since batch %d began: the whole topic is read",
                topic,
                note.batch,
            )
        kept = [name for name, output in self.settings.outputs.items() if output.compacted is False]
        writers = 0 if self.turns is None else self.writers
        return note.joined(now.topics, now.ids, self.code, kept, writers).relying_on(self.placement)

    def of_batch(self, note: Note) -> WriteSettings:
        range_id = None if self.settings.source is None else self.range_id
        turn = None if self.turns is None else self.turns.of_writers(self.writers)
        return replace(self.settings, range_id=range_id, partitions=note.partitions, turn=turn)

    def ends(self) -> Ends:
        counts = {name: output.partitions for name, output in self.settings.outputs.items()}
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        ids = {name: output.id for name, output in self.settings.outputs.items()}
        return Ends(self.kafka.high_ends(partitions, "read_uncommitted"), ids)

    def before(self, note: Note) -> KafkaBefore:
        """What the outputs have of a noted batch, once nobody else writes it, or once they have settled."""
        if self.turns is not None:
            self.turns.take()
            self.turns.fence(note.writers, letters=self.settings.dead_letter_topic is not None)
        if self.unprotected is not None:
            written = sum(max(end - note.outputs.get(p, 0), 0) for p, end in self.ends().topics.items())
            _log.warning("batch %d is written again as a whole: %s", note.batch, self.unprotected)
            return KafkaBefore(doubt=Doubt(0, written, settled=True, known=False) if written else None)
        found = self._found(note)
        landed, doubtful = found.landed, found.gone + found.unnamed
        if (self.rows_per_record != "one" or landed.several) and set(note.code) > {self.code} and landed:
            if self.turns is not None:
                raise SettingError(
                    f"batch {note.batch} has been begun with other code of the transform, and {landed.rows:,} of its "
                    "rows are there: with several rows for a record it cannot be told which are missing, and each is "
                    "to be written exactly once. Set the code back, and run the same range again"
                )
            _log.warning(
                "batch %d is written again as a whole: the transform's code has changed since the batch began, or "
                "cannot be read, and a record may give several rows, so those already there cannot be recognised",
                note.batch,
            )
            landed, doubtful = Landed(), doubtful + landed.rows
        if found.settled and not doubtful + found.again:
            return KafkaBefore(landed)
        return KafkaBefore(landed, Doubt(landed.rows, doubtful + found.again, found.settled, known=not doubtful))

    def _found(self, note: Note) -> Replay:
        settings = self.settings
        batch = BegunBatch(self.range_id, note.start.offsets, note.end.offsets)
        topics = tuple(sorted(settings.topics | set(note.output_ids)))
        doubtful = frozenset(topics) - set(note.uncompacted)
        dead, fenced = settings.dead_letter_topic, self.turns is not None
        return find_landed(self.kafka, batch, NotedOutputs(topics, note.outputs, dead, doubtful, fenced))


def only_attempt() -> int:
    """The number of this task; TaskFailedError if it is tried again: it would write at the same time as the first."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        raise TaskFailedError("Spark runs a task a second time: its batch is run again as a whole instead")
    return 0 if context is None else context.partitionId()


def missing(rows: "DataFrame", landed: Landed, rows_per_record: RowsPerRecord, resent: TaskCounter) -> "DataFrame":
    """The rows that are missing from the output, numbered where that is needed.

    Each task looks among all that landed: where one task has all the rows, Spark does not tell it which slice is which.
    """
    from pyspark.sql.types import IntegerType, StructField, StructType

    more = [] if rows_per_record == "one" else [StructField(ORDINAL, IntegerType())]
    return rows.mapInArrow(partial(_missing, landed, rows_per_record, resent), StructType([*rows.schema.fields, *more]))


def _missing(
    landed: Landed, rows_per_record: RowsPerRecord, resent: TaskCounter, batches: Iterator["RecordBatch"]
) -> Iterator["RecordBatch"]:
    left = LandedFilter(landed, rows_per_record, "struct")
    yield from left.of(batches)
    if left.began is not None:
        resent.add(left.began, left.resent)


def written_by_tasks(rows: "DataFrame", settings: WriteSettings) -> "DataFrame":
    """What each task writes, once `total` runs it."""
    return each_partition(rows.select(*written_columns(rows.dtypes, settings)), partial(_write_all, settings))


def total(rows: "DataFrame") -> Written:
    return Written.total(results(rows))


def _write_all(settings: WriteSettings, batches: Iterator["RecordBatch"]) -> Generator[int, None, Written]:
    from ...kafka.write.writing import steps

    settings = replace(settings, writer=str(only_attempt()))
    began, written = process_time_ns(), Written()
    for written in steps(batches, settings):
        yield written.rows
    return replace(written, spent=process_time_ns() - began)
