"""Write batches to a table, each by one commit, and find out after a kill whether it landed."""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Self

from ...core.batches import Batch, Doubt, Note, Setup, Tally
from ...core.commits import Search, TableVersion, name_of, search
from ...core.documents import Destination, Ends
from ...core.order.cuts import Slice
from ...core.order.positions import Offsets
from ...errors import DataLossError, LifecycleError, RowError
from ...kafka.provenance import SOURCE
from ...kafka.replay.landed import Landed
from ...loads.loading import names_before
from ..lanes import kafka_output
from ..lanes.engine import Engine
from ..lanes.frames import RangeFrames
from ..lanes.limit import without_surplus
from ..session.failures import classify_failure
from .columns import Columns
from .table import Write, identified, in_few_files
from .table_formats import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .dead_letters import DeadLetters

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableBefore:
    """What earlier attempts left of a batch, by its commits, or by its rows where these have expired.

    `rows` is the number of its rows in the table, if known, without those that are `doubled`, or may be. `names` are
    those of the commits that the history still has. `asked` means that its rows were counted. `bytes` and `files` are
    those of its commit, if known.
    """

    names: frozenset[str | None] = frozenset()
    landed: bool = False
    rows: int | None = None
    doubled: int = 0
    asked: bool = False
    bytes: int | None = None
    files: int | None = None
    dead_letters: kafka_output.KafkaBefore = kafka_output.NOTHING_BEFORE

    @classmethod
    def of(cls, found: Search) -> Self:
        """From the commits of a batch. Where others may have expired, all of its rows may be there twice."""
        if not found.found:
            return cls()
        doubtful = found.found[:-1] if found.whole else found.found
        names = frozenset(each.name for each in found.found)
        doubled = sum(each.rows or 0 for each in doubtful)
        own = found.found[-1]
        return cls(names, landed=True, rows=own.rows, doubled=doubled, bytes=own.bytes, files=own.files)

    @property
    def tally(self) -> Tally:
        """What is known of it without its records."""
        return Tally(may_be_doubled=self.doubled, bytes_written=self.bytes, files_written=self.files)

    @property
    def doubt(self) -> Doubt | None:
        """Uncertainty about the dead letters. For the table's rows see `doubled`."""
        return self.dead_letters.doubt


@dataclass(frozen=True, slots=True)
class OutputTable:
    """A table as the output of a range's batches. `range_name` is its id, or another name if it is loaded again.

    Where its `dead_letters` go to a topic, the notes have the topic's ends, too.
    """

    table: Table
    range_id: str
    range_name: str
    dead_letters: "DeadLetters | None" = None
    unprotected: None = None

    def ends(self) -> Ends:
        return replace(
            Ends() if self.dead_letters is None else self.dead_letters.to.ends(), table=self.table.version(0)
        )

    def seen(self, batch: int) -> TableVersion | None:
        """From which version on the commits of a new batch are looked for."""
        return self.table.version(batch)

    def may_double(self, _batch: Batch) -> int | None:
        return 0 if self.table.commits_once and self.dead_letters is None else None

    def noted(self, batch: Batch, attempt: int, keep: Callable[[Note], None]) -> Note:
        """The note of a new batch, with the table's version. Of a range that is loaded again, old rows are deleted.

        That they may be deleted is noted first, because afterwards the table does not show whose they were.
        """
        note = Note(batch.number, attempt, batch.start, batch.end, Offsets(), {})
        if self._is_reload(note):
            self._check_owned()
            keep(note)
        else:
            note = replace(note, table=self.seen(note.batch))
        return self.joined(note)

    def joined(self, note: Note) -> Note:
        """The note of a batch that this attempt continues; while it has no table version, old rows may be there."""
        if note.table is None and self._is_reload(note):
            before = names_before(self.range_id, self.range_name)
            self.table.forget(before)
            if self.dead_letters is not None:
                self.dead_letters.to.forget(before)
            note = replace(note, table=self.seen(note.batch))
        return note if self.dead_letters is None else self.dead_letters.to.joined(note)

    def before(self, note: Note) -> TableBefore:
        """Whether a noted batch landed; `LifecycleError` if that cannot be known."""
        found = self.there(note)
        return found if self.dead_letters is None else replace(found, dead_letters=self.dead_letters.to.before(note))

    def there(self, note: Note) -> TableBefore:
        """What the table has of a noted batch; `LifecycleError` if that cannot be known."""
        found = search(self.table.history(note.batch, note.table), note.table, self.range_name, note.batch)
        known = TableBefore.of(found)
        if self.table.by_place or found.whole:
            return known
        rows, different = self.table.rows_of(self.range_name, note.batch)
        if not rows and (silent := self.table.owned([self.range_name])[1]):  # they may be the batch's
            if known.landed:
                return known
            raise LifecycleError(self._lost(note, silent))
        if not known.landed:
            known = TableBefore(landed=rows > 0, rows=different or None)
        return replace(known, doubled=rows - different, asked=True)

    def named(self, rows: "DataFrame", engine: Engine, batch: int) -> "DataFrame":
        """The rows as the table has them: with their identities, unless their folder names them."""
        return rows.drop(SOURCE) if self.table.by_place else identified(rows, engine, self.range_name, batch)

    def _is_reload(self, note: Note) -> bool:
        return note.batch == 1 and self.range_name != self.range_id

    def _check_owned(self) -> None:
        """`LifecycleError` if rows that may be the range's own do not say so."""
        if self.table.by_place:
            return
        own, silent = self.table.owned(names_before(self.range_id, self.range_name))
        if silent and not own:
            raise LifecycleError(
                f"range {self.range_id!r} cannot be loaded again: no row of the table says that it is of this range, "
                f"and {silent} do not name their range. These may be its own, written before the table had the column "
                "for their identity: if so, delete them, and replay the range's offsets"
            )

    def _lost(self, note: Note, silent: int) -> str:
        seen = None if note.table is None else note.table.version
        version = "its beginning" if seen is None else f"version {seen}"
        return (
            f"batch {note.batch} of range {self.range_id!r} was begun by attempt {note.attempt}, and may be in the "
            f"table or not: {version} is not in the table's history, and {silent} rows do not say where they came "
            f"from. Look there for rows with order times up to {note.end.floor.lowest} ms: delete those of the range, "
            "abandon the range, and load it again"
        )


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Appends each batch by one commit. `average` gives the bytes of a record, where they are known."""

    frames: RangeFrames
    output: OutputTable
    setup: Setup
    average: Callable[[], float | None]
    columns: Columns

    @property
    def destination(self) -> Destination:
        output = self.output
        return Destination(
            output=output.table.output.short,
            dead_letters="" if output.dead_letters is None else output.dead_letters.to.named,
            copied=self.frames.copied and getattr(output, "deletes", None) is None,
            identity=not output.table.by_place,
            called=output.range_name,
            location=output.table.location,
            dead_letters_location="" if output.dead_letters is None else output.dead_letters.to.location,
            upsert=getattr(output.table.output, "upsert", ()),
        )

    def write(self, batch: Batch, note: Note, before: TableBefore | None) -> Tally:
        """Append the batch, unless it has landed, and check that it is there once.

        A bad record that is not yet a dead letter fails the commit and becomes one; then the rest is written. So each
        record is in the table or among the dead letters, wherever an attempt ends, and however the next one decodes.
        """
        before = before or TableBefore()
        dead_letters = before.dead_letters.landed
        if before.landed:
            tally = self._landed(batch, before, dead_letters)
        else:
            try:
                tally = self.written(batch, note, dead_letters)
            except Exception as error:
                if self.output.dead_letters is None or not isinstance(classify_failure(error), RowError):
                    raise
                dead_letters = self.output.dead_letters.write(batch, note, dead_letters)
                tally = self.written(batch, note, dead_letters)
        also = Tally(dead_letters=dead_letters.rows).plus(column_tally(self.columns))
        return tally.plus(also).plus(note.in_doubt(dead_letters.rows))

    def written(self, batch: Batch, note: Note, dead_letters: Landed) -> Tally:
        slices = self.frames.for_tasks(batch)
        rows, counted = self.rows(batch, dead_letters, slices)
        rows, written = self.frames.engine.counted(rows)

        def tally() -> Tally:
            return replace(counted(), rows_emitted=written())

        columns = self.output.table.settle(rows.schema)
        rows = columns.fit(rows)
        name = name_of(self.output.range_name, batch.number, secrets.token_hex(4))
        write = Write(self.output.range_name, batch.number, name, lambda: tally().rows_emitted)
        with self.frames.located(batch, rows, slices):
            self.output.table.append(in_few_files(rows, self.frames.engine.cores, self.size(batch)), write)
        there = self.output.there(note)
        if name not in there.names:  # another attempt committed it, or the commit has expired
            self._check_by_another(batch, there)
            return self._landed(batch, there, dead_letters)
        return tally().plus(there.tally).plus(column_tally(columns))

    def rows(
        self, batch: Batch, dead_letters: Landed, slices: Sequence[Slice] | None = None, *, most: int | None = 0
    ) -> "tuple[DataFrame, Callable[[], Tally]]":
        """A batch's rows without its dead letters, and a function for the counts of records, once they are read.

        At most `most` other records may be bad.
        """
        counters = self.frames.counters()
        making = self.frames.making.at_most(most)
        slices = self.frames.for_tasks(batch) if slices is None else slices
        rows = self.frames.of_batch(batch, slices, counters=counters, making=making, without=dead_letters)
        rows = without_surplus(rows, batch.surplus)
        return self.output.named(rows, self.frames.engine, batch.number), counters.tally

    def size(self, batch: Batch) -> float | None:
        """How many bytes its records have; None where their average is not known."""
        average = self.average()
        return None if average is None else average * batch.offsets

    def _check_by_another(self, batch: Batch, there: TableBefore) -> None:
        """Raise LifecycleError if the table skipped a batch of which it has nothing.

        A commit without rows may have expired.
        """
        if not (there.landed or there.asked):
            raise LifecycleError(
                f"the table left out batch {batch.number} of range {self.output.range_id!r}: the table had one of this "
                f"name before this batch began. Was the range loaded with another checkpoint? Load it with its first "
                f"checkpoint, or abandon it"
            )

    def _landed(self, batch: Batch, before: TableBefore, dead_letters: Landed) -> Tally:
        """The counts of a batch that landed, by reading it once more without writing."""
        rows = before.rows
        _log.warning("batch %d is in the table already: %s rows are left out", batch.number, rows)
        try:
            found = self._counted(batch, dead_letters)
        except Exception as error:
            if rows is None or not isinstance(classify_failure(error), DataLossError):
                raise
            found = Tally(rows_read=rows, rows_emitted=rows)  # its records have expired since
        there = found.rows_emitted if rows is None else rows
        lost = self._unread(found.lost, there - found.rows_emitted)
        return replace(found, rows_emitted=there, replayed=there, lost=lost).plus(before.tally)

    def _unread(self, gone: int, missing: int) -> int:
        """How many of the records that retention has taken were lost.

        A row that is in the table, and that no record gives now, was read before retention took its record. Where a
        record may give several rows, or compaction may have removed it, this is no proof, and all are counted as lost.
        """
        frames = self.frames
        if gone and frames.engine.facts(frames.rows).at_most_one and not frames.cluster.compacted(frames.loaded.topics):
            return max(gone - max(missing, 0), 0)
        return gone

    def _counted(self, batch: Batch, dead_letters: Landed) -> Tally:
        rows, counted = self.rows(batch, dead_letters, most=None)
        rows, written = self.frames.engine.counted(rows)
        with self.frames.located(batch, rows):
            rows.write.format("noop").mode("overwrite").save()
        return replace(counted(), rows_emitted=written())


def column_tally(columns: Columns) -> Tally:
    return Tally(columns_added=columns.added, columns_left_out=columns.left_out)


def writer_of(
    frames: RangeFrames, output: OutputTable, setup: Setup, kind: type[TableWriter] = TableWriter
) -> TableWriter:
    """The writer for a table, which is created if it is missing, and checked."""
    columns = output.table.prepare(output.named(frames.rows, frames.engine, 1))
    if columns.left_out:
        _log.warning(
            "%s: the table has no column %s, which the rows have: it is left out, by new_columns='ignore'",
            output.table.output.of,
            ", ".join(map(repr, columns.left_out)),
        )

    @cache
    def average() -> float | None:
        from ...kafka.read.slices import average_bytes

        return average_bytes(frames.loaded.span, frames.read)

    return kind(frames, output, setup, average, columns)
