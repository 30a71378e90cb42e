"""The dead letters of a table's batches, in a topic or in a table of their own.

They are written before the batch, and recognised by their positions: a batch that is tried again, by any attempt and
with any format, writes none of them twice, and leaves their records out of its rows.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...core.batches import Batch, Note
from ...core.commits import name_of
from ...core.documents import Ends
from ...core.next_range import check_bad
from ...core.order.positions import TopicPartition
from ...kafka.provenance import ORDINAL, SOURCE_FIELDS
from ...kafka.replay.landed import Landed
from ..lanes.engine import Engine
from ..lanes.frames import RangeFrames
from ..lanes.kafka_output import KafkaBefore, OutputTopics, missing, total, written_by_tasks
from ..lanes.making import Place
from .table import Write, identified
from .table_formats import DeltaTable, IcebergTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class DeadLetterTopic(OutputTopics):
    """A topic, whose records have their identities in headers."""

    location: str = ""

    @property
    def named(self) -> str:
        return f"topic:{self.settings.dead_letter_topic}"

    def put(self, dead_letters: "DataFrame", note: Note) -> None:
        """Write them, acknowledged."""
        total(written_by_tasks(dead_letters, self.of_batch(note)))

    def forget(self, _names: Sequence[str]) -> None:
        """Nothing: a topic keeps its records, and a range that is loaded again writes new dead letters."""


@dataclass(frozen=True, slots=True)
class DeadLetterTable:
    """A table, whose rows have their identities in a column, with `range_name` for the range."""

    table: IcebergTable | DeltaTable
    range_name: str
    engine: Engine

    @property
    def named(self) -> str:
        return self.table.output.short

    @property
    def location(self) -> str:
        """Where the table lies, if it has a name only."""
        return self.table.location

    def ends(self) -> Ends:
        """None: the rows have identities."""
        return Ends()

    def joined(self, note: Note) -> Note:
        """The note as it is: the rows have identities."""
        return note

    def before(self, note: Note) -> KafkaBefore:
        return KafkaBefore(landed_at(_places(self.table.of_batch(self.range_name, note.batch))))

    def put(self, dead_letters: "DataFrame", note: Note) -> None:
        """Append them by one commit of a separate transaction, because a batch may have two."""
        name = name_of(self.range_name, note.batch, secrets.token_hex(4))
        rows = self.rows(dead_letters, note.batch)
        columns = self.table.settle(rows.schema)
        self.table.append(columns.fit(rows), Write(name, note.batch, name, dead_letters.count))

    def rows(self, dead_letters: "DataFrame", batch: int) -> "DataFrame":
        return identified(dead_letters.drop(ORDINAL), self.engine, self.range_name, batch)

    def forget(self, names: Sequence[str]) -> None:
        self.table.forget(names)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Writes the bad records of batches as dead letters."""

    frames: RangeFrames
    to: DeadLetterTopic | DeadLetterTable

    def write(self, batch: Batch, note: Note, there: Landed) -> Landed:
        """Write those of a batch that are not `there` yet, unless they are too many; return all that are there now."""
        bad = missing(self.frames.bad(batch), there, "one", self.frames.engine.counter()).persist()
        try:
            found = {(partition.topic, partition.partition, offset) for partition, offset, _ in there}
            places = _places(bad)
            check_bad(len(found.union(places)), self.frames.making.max_bad)
            if places:
                self.to.put(bad, note)
            return landed_at(found.union(places))
        finally:
            bad.unpersist()


def _places(rows: "DataFrame") -> list[Place]:
    return [(row.topic, row.partition, row.offset) for row in rows.select(*SOURCE_FIELDS[:3]).collect()]


def landed_at(places: Iterable[Place]) -> Landed:
    """Dead letters by the positions of their records."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for topic, partition, offset in places:
        offsets[TopicPartition(topic, partition)].append(offset)
    found = Landed()
    for each, numbers in offsets.items():
        found.add(each, np.zeros(len(numbers), np.int64), np.array(numbers, np.int64), dead=True)
    return found
