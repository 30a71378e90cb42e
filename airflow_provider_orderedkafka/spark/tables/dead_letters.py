"""The dead letters of a table's batches, in a topic or in a table of their own.

They are written before the batch, and known by their positions: a batch that is tried again, by whatever attempt and
with whatever format, writes none of them twice, and leaves their records out of its rows.
"""

import secrets
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from airflow_provider_orderedkafka.core.batches import Batch, Note
from airflow_provider_orderedkafka.core.commits import name_of
from airflow_provider_orderedkafka.core.limits import check_bad
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.kafka_output import KafkaBefore, OutputTopics
from airflow_provider_orderedkafka.spark.lanes.kafka_tasks import missing, total, written_by_tasks
from airflow_provider_orderedkafka.spark.tables.delta import DeltaTable
from airflow_provider_orderedkafka.spark.tables.iceberg import IcebergTable
from airflow_provider_orderedkafka.spark.tables.layout import identified
from airflow_provider_orderedkafka.spark.tables.table import Write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.spark.lanes.making import Place

PLACE = ("topic", "partition", "offset")


class Letterbox(Protocol):
    """Where dead letters go."""

    def joined(self, note: Note) -> Note:
        """The note of a batch in which this attempt takes part."""
        ...

    def before(self, note: Note) -> KafkaBefore:
        """Those of a noted batch that are there."""
        ...

    def put(self, letters: "DataFrame", note: Note) -> None:
        """Add those of a batch that are not there yet."""
        ...

    def forget(self) -> None:
        """Delete those of the range, which is about to be loaded again."""
        ...


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, whose records say by their headers which ones they are."""

    output: OutputTopics

    def joined(self, note: Note) -> Note:
        """The note, with the topic's ends."""
        return self.output.joined(note)

    def before(self, note: Note) -> KafkaBefore:
        """Those behind the ends that were noted."""
        return self.output.before(note)

    def put(self, letters: "DataFrame", note: Note) -> None:
        """Write them, acknowledged."""
        total(written_by_tasks(letters, self.output.of_batch(note)))

    def forget(self) -> None:
        """Nothing: a topic keeps what it has, and the range that is loaded again has dead letters of its own."""


@dataclass(frozen=True, slots=True)
class LetterTable:
    """A table, whose rows say by their identities which ones they are."""

    table: IcebergTable | DeltaTable
    range_id: str

    def joined(self, note: Note) -> Note:
        """The note as it is: the rows say enough."""
        return note

    def before(self, note: Note) -> KafkaBefore:
        """The rows of the batch."""
        return KafkaBefore(landed_at(_places(self.table.of_batch(self.range_id, note.batch))))

    def put(self, letters: "DataFrame", note: Note) -> None:
        """Append them by one commit, which is a transaction of its own: a batch may have two."""
        name = name_of(self.range_id, note.batch, secrets.token_hex(4))
        self.table.append(self.rows(letters, note.batch), Write(name, note.batch, name, letters.count))

    def rows(self, letters: "DataFrame", batch: int) -> "DataFrame":
        """The rows that dead letters become."""
        return identified(letters, self.range_id, batch, identity=True)

    def forget(self) -> None:
        """Delete the rows of the range."""
        self.table.forget(self.range_id)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The bad records of batches, on their way there."""

    frames: RangeFrames
    to: Letterbox

    def write(self, batch: Batch, note: Note, there: Landed) -> Landed:
        """Write those of a batch but for what is `there`, if there are not too many; all that are there then."""
        bad = missing(self.frames.bad_of_batch(batch), there, "one", self.frames.counter()).persist()
        try:
            found = {(partition.topic, partition.partition, offset) for partition, offset, _ in there}
            places = _places(bad)
            check_bad(len(found.union(places)), self.frames.making.max_bad)
            if places:
                self.to.put(bad, note)
            return landed_at(found.union(places))
        finally:
            bad.unpersist()


def _places(rows: "DataFrame") -> "list[Place]":
    return [(row.topic, row.partition, row.offset) for row in rows.select(*PLACE).collect()]


def landed_at(places: "Iterable[Place]") -> Landed:
    """Dead letters by the positions of their records."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for topic, partition, offset in places:
        offsets[TopicPartition(topic, partition)].append(offset)
    found = Landed()
    for each, numbers in offsets.items():
        found.add(each, np.zeros(len(numbers), np.int64), np.array(numbers, np.int64), dead=True)
    return found
