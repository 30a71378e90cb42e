"""Write batches to a table, each by one commit, and know after a kill whether it landed."""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Self

from airflow_provider_orderedkafka.core.batches import Batch, Doubt, Note, Setup, Tally
from airflow_provider_orderedkafka.core.commits import Search, Standing, name_of, search, standing
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import DataLossError, LifecycleError, RowError
from airflow_provider_orderedkafka.kafka.provenance import VERSION
from airflow_provider_orderedkafka.kafka.replay.landed import Landed
from airflow_provider_orderedkafka.spark.lanes import kafka_output
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.limit import without_surplus
from airflow_provider_orderedkafka.spark.session.failures import classify_failure
from airflow_provider_orderedkafka.spark.session.plans import read_plan
from airflow_provider_orderedkafka.spark.tables.layout import identified, in_few_files
from airflow_provider_orderedkafka.spark.tables.table import Table, Write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider_orderedkafka.spark.tables.dead_letters import DeadLetters

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableBefore:
    """What earlier attempts left of a batch, by its commits, or by its rows where these have expired.

    `rows` is how many of its rows are there, if that is known, not counting those that are `doubled`, or may be.
    `names` are those of the commits that are still known.
    """

    names: frozenset[str | None] = frozenset()
    landed: bool = False
    rows: int | None = None
    doubled: int = 0
    asked: bool = False
    letters: kafka_output.KafkaBefore = kafka_output.NOTHING_BEFORE

    @classmethod
    def of(cls, found: Search) -> Self:
        """What commits of a batch left of it. Where others may have expired, all of its rows may be there twice."""
        if not found.found:
            return cls()
        doubtful = found.found[:-1] if found.whole else found.found
        names = frozenset(each.name for each in found.found)
        doubled = sum(each.rows or 0 for each in doubtful)
        return cls(names, landed=True, rows=found.found[-1].rows, doubled=doubled)

    @property
    def doubt(self) -> Doubt | None:
        """What nobody can know of the dead letters; of a table's rows `doubled` says it, or the load stops."""
        return self.letters.doubt


@dataclass(frozen=True, slots=True)
class OutputTable:
    """A table as the output of a range's batches. `called` is the range's id, or another one if it is loaded again.

    `letters` are the dead letters beside it: where they go to a topic, the notes have its ends, too.
    """

    table: Table
    range_id: str
    called: str
    letters: "DeadLetters | None" = None
    unprotected: None = None

    def noted(self, batch: Batch, attempt: int, keep: Callable[[Note], None]) -> Note:
        """The note of a new batch, with the table as it is now; a range that is loaded again loses its old rows.

        That they may be deleted is noted first: once some are gone, the table does not say it any more.
        """
        note = Note(batch.number, attempt, batch.start, batch.end, Offsets(), {}, provenance=VERSION)
        if self._is_anew(note):
            self._check_owned()
            keep(note)
        else:
            note = replace(note, table=self.table.seen())
        return self.joined(note)

    def joined(self, note: Note) -> Note:
        """The note of a batch in which this attempt takes part; while it has no table, old rows may be there."""
        if note.table is None and self._is_anew(note):
            self.table.forget(self.range_id)
            if self.letters is not None:
                self.letters.to.forget()
            note = replace(note, table=self.table.seen())
        return note if self.letters is None else self.letters.to.joined(note)

    def before(self, note: Note) -> TableBefore:
        """Whether a noted batch landed; `LifecycleError` if nobody can know."""
        found = self.there(note)
        return found if self.letters is None else replace(found, letters=self.letters.to.before(note))

    def there(self, note: Note) -> TableBefore:
        """What the table has of a noted batch; `LifecycleError` if nobody can know."""
        found = search(self.table.history(note.batch, note.table), note.table, self.called, note.batch)
        known = TableBefore.of(found)
        does = standing(found, identity=self.table.identity)
        if self.table.replaces or does in {Standing.LANDED, Standing.MISSING}:
            return known
        if does is Standing.LOST:
            raise LifecycleError(self._lost(note))
        rows, different = self.table.rows_of(self.range_id, note.batch)
        if not known.landed:
            known = TableBefore(landed=rows > 0, rows=different or None)
        return replace(known, doubled=rows - different, asked=True)

    def _is_anew(self, note: Note) -> bool:
        return note.batch == 1 and self.called != self.range_id

    def _check_owned(self) -> None:
        """`LifecycleError` if rows that may be the range's own do not say so."""
        if self.table.replaces:
            return
        again, way_out = (
            f"range {self.range_id!r} is to be loaded again",
            "delete its rows there, and replay its offsets",
        )
        if not self.table.identity:
            raise LifecycleError(
                f"{again}, and the table's rows do not say which are its own (identity=False): {way_out}"
            )
        own, silent = self.table.owned(self.range_id)
        if silent and not own:
            raise LifecycleError(
                f"{again}, and of the table's rows none says that it is of this range, and {silent} do not say which "
                f"range they are of: they may be its own, if it was loaded with identity=False. If so, {way_out}"
            )

    def _lost(self, note: Note) -> str:
        seen = None if note.table is None else note.table.version
        version = "its first version" if seen is None else f"version {seen}"
        since = "an earlier release began it" if note.table is None else f"{version} is gone"
        return (
            f"batch {note.batch} of range {self.range_id!r} was begun by attempt {note.attempt}, and whether it is in "
            f"the table cannot be known any more: {since}, and the rows do not say where they came from "
            f"(identity=False). Look there for rows with order times up to {note.end.floor.time} ms: delete what is of "
            f"the range, abandon the range, and load it again"
        )


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Appends each batch by one commit. `average` gives the bytes of a record, where they are known."""

    frames: RangeFrames
    output: OutputTable
    setup: Setup
    average: Callable[[], float | None]

    def write(self, batch: Batch, note: Note, before: TableBefore | None) -> Tally:
        """Append the batch, unless it has landed; prove that it is there once.

        A bad record that is no dead letter yet fails the commit, becomes one, and the rest is written then. So each
        record is in the table or among the dead letters, wherever an attempt ends, and however the next one decodes.
        """
        before = before or TableBefore()
        letters = before.letters.landed
        if before.landed:
            tally = self._landed(batch, before, letters)
        else:
            try:
                tally = self._written(batch, note, letters)
            except Exception as error:
                if self.output.letters is None or not isinstance(classify_failure(error), RowError):
                    raise
                letters = self.output.letters.write(batch, note, letters)
                tally = self._written(batch, note, letters)
        return tally.plus(Tally(dead_letters=letters.rows)).plus(note.in_doubt(letters.rows))

    def _written(self, batch: Batch, note: Note, letters: Landed) -> Tally:
        rows, tally = self._rows(batch, letters)
        name = name_of(self.output.called, batch.number, secrets.token_hex(4))
        write = Write(self.output.called, batch.number, name, lambda: tally().rows_emitted)
        self.output.table.append(in_few_files(rows, self._bytes(batch)), write)
        there = self.output.there(note)
        if name not in there.names:  # another attempt was faster, or it has expired since
            self._check_by_another(batch, there)
            return self._landed(batch, there, letters)
        return replace(tally(), may_be_doubled=there.doubled)

    def _rows(self, batch: Batch, letters: Landed, most: int | None = 0) -> "tuple[DataFrame, Callable[[], Tally]]":
        """A batch's rows, without those of dead letters, and what was counted once they are read.

        So many other records may be bad.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        written, counters = Observation(), self.frames.counters()
        making = self.frames.making.at_most(most)
        rows = self.frames.of_batch(batch, counters=counters, making=making, without=letters)
        rows = without_surplus(rows, batch.surplus)
        rows = identified(rows, self.output.range_id, batch.number, identity=self.output.table.identity)

        def tally() -> Tally:
            return counters.tally().plus(Tally(rows_emitted=int(written.get["rows"])))

        return rows.observe(written, f.count(f.lit(1)).alias("rows")), tally

    def _bytes(self, batch: Batch) -> float | None:
        average = self.average()
        return None if average is None else average * batch.end.offsets.since(batch.start.offsets)

    def _check_by_another(self, batch: Batch, there: TableBefore) -> None:
        """Raise LifecycleError if nothing is there of a batch that was left out.

        If its commit has expired, that may have been one without rows.
        """
        if not (there.landed or there.asked):
            raise LifecycleError(
                f"the table left out batch {batch.number} of range {self.output.range_id!r}: it has had one of this "
                f"name before, and not since this batch was noted. Was the range loaded with another checkpoint? Load "
                f"it with the one that it was begun with, or abandon it"
            )

    def _landed(self, batch: Batch, before: TableBefore, letters: Landed) -> Tally:
        """The counts of a batch that landed, by reading it once more without writing."""
        rows = before.rows
        _log.warning("batch %d is in the table already: %s rows are left out", batch.number, rows)
        try:
            found = self._counted(batch, letters)
        except Exception as error:
            if rows is None or not isinstance(classify_failure(error), DataLossError):
                raise
            found = Tally(rows_read=rows, rows_emitted=rows)  # its records have expired since
        there = found.rows_emitted if rows is None else rows
        lost = self._unread(found.lost, there - found.rows_emitted)
        return replace(found, rows_emitted=there, replayed=there, lost=lost, may_be_doubled=before.doubled)

    def _unread(self, gone: int, missing: int) -> int:
        """How many of the records that retention has taken were lost.

        Each row that is in the table and is not made any more was read before. But where a record may give several
        rows, or compaction may have taken it, that says too little, and all that are gone count: at most so many.
        """
        frames = self.frames
        if gone and read_plan(frames.rows).at_most_one and not frames.cluster.compacted(frames.loaded.topics):
            return max(gone - max(missing, 0), 0)
        return gone

    def _counted(self, batch: Batch, letters: Landed) -> Tally:
        rows, tally = self._rows(batch, letters, most=None)
        rows.write.format("noop").mode("overwrite").save()
        return tally()


def writer_of(
    frames: RangeFrames, table: Table, called: str, setup: Setup, letters: "DeadLetters | None" = None
) -> TableWriter:
    """The writer for a table, which is made if it is missing, and checked."""
    table.prepare(identified(frames.rows, frames.loaded.id, 1, identity=table.identity))

    @cache
    def average() -> float | None:
        from airflow_provider_orderedkafka.kafka.read.samples import average_bytes

        return average_bytes(frames.loaded.span, frames.read)

    return TableWriter(frames, OutputTable(table, frames.loaded.id, called, letters), setup, average)
