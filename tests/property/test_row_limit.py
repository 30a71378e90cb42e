"""The row limit over runs: dead letters, records of several rows, cut batches, rows that vanish, and kills."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.loop import PARTITION, SETUP, Before, Killed, Lease, Plan, World, a_range, in_turn, place

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.batches import Allotment, Batch, Note, Setup, Surplus, Tally
from airflow_provider_orderedkafka.core.documents import Ledger
from airflow_provider_orderedkafka.core.next_range import allot, limit_spent, passes, rows_left
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.spark.application.batch_loop import BatchLoop, Work
from airflow_provider_orderedkafka.spark.application.report import Ending, report
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState

GOOD, DEAD, VANISHING = "good", "dead", "vanishing"
Row = tuple[int, int]


@dataclass
class Log:
    """What the rows of each record become; a vanishing one is counted ahead, and not there to be written."""

    records: list[list[str]]
    there: list[Row] = field(default_factory=list)
    trimmed: set[Row] = field(default_factory=set)
    kills: list[int] = field(default_factory=list)
    unprotected: None = None

    def noted(self, batch: Batch, attempt: int, _keep: object) -> Note:
        return Note(batch.number, attempt, batch.start, batch.end, Offsets(), {})

    def joined(self, note: Note) -> Note:
        return note

    def before(self, note: Note) -> Before:
        return Before()

    def of(self, batch: Batch) -> list[Row]:
        return [(at, row) for at in span(batch) for row in range(len(self.records[at]))]

    def kind(self, row: Row) -> str:
        return self.records[row[0]][row[1]]


def span(batch: Batch) -> range:
    return range(batch.start.offsets[PARTITION], batch.end.offsets[PARTITION])


@dataclass
class Writer:
    """Writes what is missing; a kill comes after the first few of that."""

    output: Log
    setup: Setup = SETUP

    def write(self, batch: Batch, note: Note, before: Before | None) -> Tally:
        assert before or self.missing(batch) == self.rows(batch)
        assert note.end == batch.end
        if self.output.kills:
            self.output.there += self.missing(batch)[: self.output.kills.pop(0)]
            raise Killed
        rows = self.rows(batch)
        self.output.there += self.missing(batch)
        dead = sum(self.output.kind(row) == DEAD for row in rows)
        return Tally(rows_emitted=len(rows) - dead, dead_letters=dead)

    def rows(self, batch: Batch) -> list[Row]:
        found, last = self.output.of(batch), batch.surplus
        if last is not None:
            self.output.trimmed |= {(at, row) for at, row in found if at == last.offset and row >= last.rows}
        return [row for row in found if row not in self.output.trimmed and self.output.kind(row) != VANISHING]

    def missing(self, batch: Batch) -> list[Row]:
        return [row for row in self.rows(batch) if row not in self.output.there]


@dataclass
class Limit:
    """Each record is a slice."""

    log: Log

    def allot(self, batch: Batch, left: int) -> Allotment | None:
        counts = [len(self.log.records[at]) for at in span(batch)]
        if passes(counts, left):
            return None
        slices = allot(counts, left)
        last = max(index for index, rows in enumerate(slices) if rows)
        at = span(batch)[last]
        return Allotment(batch.number, slices[: last + 1], place(at + 1), Surplus(*PARTITION, at, slices[last]))

    def cut(self, batch: Batch, allotment: Allotment) -> Batch:
        return Batch(batch.number, batch.start, allotment.end, allotment.surplus)


@dataclass
class Load:
    """A load whose runs follow each other."""

    log: Log
    folder: Path
    batch: int
    ledger: Ledger = field(
        default_factory=lambda: lifecycle.first_look("l", instance="i", home_dag="d", place=place(0), topics={}, now=0)
    )

    def run(self, limit: int | None, offsets: int) -> None:
        """One run, from where the ledger stands: at most so many offsets."""
        start = self.ledger.place.offsets[PARTITION]
        end = min(start + offsets, len(self.log.records))
        if limit_spent(self.ledger, limit) or end == start:
            return
        revision = self.ledger.revision
        loaded = a_range(end, rows_left(limit, self.ledger.rows), start=start, revision=revision)
        checkpoint = Checkpoint(LocalState(self.folder / str(revision)))
        checkpoint.take_up(loaded)
        while self.killed(loaded, checkpoint):
            pass
        found = report(loaded, checkpoint.counts(), Ending(1, 0, 1))
        opened = lifecycle.submitted(lifecycle.opened(self.ledger, loaded.id, "d/a"), "c", "here")
        self.ledger = lifecycle.committed(opened, loaded, found, "d/a", 2)

    def killed(self, loaded: Any, checkpoint: Checkpoint) -> bool:
        host = World(checkpoint, loaded, Plan(loaded, checkpoint, self.batch))
        work: Any = Work(loaded, checkpoint, Lease(), host.plan, Writer(self.log), Limit(self.log))
        loop = BatchLoop(work, host)
        try:
            loop.run(in_turn)
        except Killed:
            return True
        assert loop.error is None
        return False


def records(*kinds: str, most: int = 3) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.lists(st.sampled_from(kinds), max_size=most), min_size=1, max_size=25)


kills = st.lists(st.integers(0, 4), max_size=3)
runs = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 15)), min_size=1, max_size=6)
"""By how many rows the limit is raised before each run, and how many offsets the run may plan."""


def loaded(found: list[list[str]], batch: int, raised: list[tuple[int, int]], killed: list[int]) -> tuple[Load, int]:
    limit = 0
    with TemporaryDirectory() as folder:
        load = Load(Log(found, kills=[*killed]), Path(folder), batch)
        for more, offsets in raised:
            limit += more
            load.run(limit, offsets)
            assert len(load.log.there) <= limit
    return load, limit


@given(records(GOOD, DEAD, most=1), st.integers(1, 9), runs, kills)
def test_the_first_rows_in_order_are_there_dead_letters_among_them(found, batch, raised, killed):
    load, limit = loaded(found, batch, raised, killed)
    rows = [(at, row) for at, rows in enumerate(found) for row in range(len(rows))]
    assert load.log.there == rows[: len(load.log.there)]
    assert load.ledger.rows == len(load.log.there)
    assert load.ledger.dead_letters == sum(load.log.kind(row) == DEAD for row in load.log.there)
    assert limit_spent(load.ledger, limit) is None or load.ledger.rows == limit


@given(records(GOOD, DEAD, VANISHING), st.integers(1, 9), runs, kills)
def test_every_row_before_the_place_is_there_but_those_that_vanished_or_that_the_limit_cut_off_their_record(
    found, batch, raised, killed
):
    load, _ = loaded(found, batch, raised, killed)
    at = load.ledger.place.offsets[PARTITION]
    rows = [(offset, row) for offset in range(at) for row in range(len(found[offset]))]
    kept = [row for row in rows if load.log.kind(row) != VANISHING and row not in load.log.trimmed]
    assert load.log.there == kept
    assert load.ledger.rows == len(kept)
