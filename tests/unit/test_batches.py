"""What the batch loop does with each batch, and what a kill between any two steps leaves to be mended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from support.plain import plain_range

from airflow_provider_orderedkafka.core.batches import Allotment, Counts, Doubt, Note, Tally
from airflow_provider_orderedkafka.core.cuts import Floor, Place
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.plan import Planned, Size, window
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError, FencedError, StateError, UnreachableError
from airflow_provider_orderedkafka.spark.batches import TRIES, Batch, BatchLoop, Run, Work
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.state import LocalState

PARTITION = TopicPartition("orders", 0)


def place(offset: int) -> Place:
    return Place(Offsets({PARTITION: offset}), Floor(offset))


def a_range(end: int = 30, rows_left: int | None = None, *, start: int = 0, revision: int = 0) -> Range:
    return plain_range(
        id=f"r{revision + 1}",
        ledger_revision=revision,
        topics={"orders": "id"},
        start=place(start),
        end=place(end),
        planned_at=1_000_000,
        cluster_id="c",
        batch_offsets=10,
        rows_left=rows_left,
    )


class Killed(BaseException):
    """A kill: nothing may catch it."""


@dataclass(frozen=True)
class Before:
    """What an earlier try has left."""

    doubt: Doubt | None = None


@dataclass
class Output:
    """An output in memory, whose rows are known by their identity."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    later: dict[str, str] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)

    def noted(self, batch: Batch, attempt: int) -> Note:
        ends = Offsets({TopicPartition("out", 0): len(self.rows)})
        return Note(batch.number, attempt, batch.start, batch.end, ends, {"out": "id"})

    def joined(self, note: Note) -> Note:
        return note.joined(Offsets(), self.later, "")

    def before(self, note: Note) -> "Before":
        return Before(self.doubts.pop(0) if self.doubts else None)


@dataclass
class Writer:
    """Writes there; a failure comes after half of the rows."""

    output: Output = field(default_factory=Output)
    failures: list[BaseException] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)

    def write(self, batch: Batch, note: Note, before: Before | None) -> Tally:
        assert note.batch == batch.number
        there = set(self.output.rows[note.outputs[TopicPartition("out", 0)] :]) if before else set()
        if before:
            self.replays.append(batch.number)
        rows = [(batch.number, row) for row in range(batch.end.offsets.since(batch.start.offsets))]
        missing = [row for row in rows if row not in there]
        if self.failures:
            self.output.rows += missing[: len(missing) // 2]
            raise self.failures.pop(0)
        self.output.rows += missing
        return Tally(rows_read=len(rows), rows_emitted=len(rows), replayed=len(rows) - len(missing))


class Limit:
    """One row for each offset."""

    asked: list[int]

    def __init__(self) -> None:
        self.asked = []

    def allot(self, batch: Batch, left: int) -> Allotment | None:
        self.asked.append(batch.number)
        offsets = batch.end.offsets.since(batch.start.offsets)
        if offsets <= left:
            return None
        return Allotment(batch.number, (left,), place(batch.start.offsets[PARTITION] + left), None)

    def cut(self, batch: Batch, allotment: Allotment) -> Batch:
        return replace(batch, end=allotment.end)


@dataclass
class Lease:
    attempt: int = 1
    error: Exception | None = None

    def check(self) -> None:
        if self.error:
            raise self.error


def in_turn(planned: Sequence[Planned], loop: BatchLoop) -> None:
    """Hand over the batches of a window as they come; what Spark's query does."""
    for each in planned:
        loop.take(each)


@dataclass
class Plan:
    """Batches of so many offsets, so many at a time; what was begun ends where that was written down."""

    loaded: Range
    checkpoint: Checkpoint
    offsets: int = 10
    at_once: int = 20
    windows: list[list[int]] = field(default_factory=list)

    def window(self, number: int, start: Place) -> list[Planned]:
        ends, last = [], self.loaded.end.offsets[PARTITION]
        begun = self.checkpoint.note(number) or self.checkpoint.allotment(number)
        at = start.offsets[PARTITION]
        while at < last and len(ends) < self.at_once:
            at = begun.end.offsets[PARTITION] if begun and not ends else min(at + self.offsets, last)
            ends.append(place(at))
        found = window(self.loaded, number, start, ends, Size(self.offsets))
        self.windows += [[each.batch for each in found]] if found else []
        return found


@dataclass
class World:
    """A range of three batches; each `loop` is another attempt on the same checkpoint. It is its loops' host, too."""

    checkpoint: Checkpoint
    loaded: Range
    plan: Plan
    writer: Writer = field(default_factory=Writer)
    limit: Limit = field(default_factory=Limit)
    lease: Lease = field(default_factory=Lease)
    told: list[Counts] = field(default_factory=list)
    waits: int = 0

    def ready(self) -> None:
        pass

    def before_a_retry(self) -> None:
        self.waits += 1

    def tell(self, counts: Counts, planned: Planned) -> None:
        assert counts.batch == planned.batch
        self.told.append(counts)

    def loop(self) -> BatchLoop:
        work: Any = Work(self.loaded, self.checkpoint, self.lease, self.plan, self.writer, self.limit)
        return BatchLoop(work, self)

    def run(self, run: Run = in_turn) -> BatchLoop:
        """An attempt, to its end."""
        loop = self.loop()
        loop.run(run)
        return loop


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    def make(**settings: Any) -> World:
        checkpoint = Checkpoint(LocalState(tmp_path))
        loaded = a_range(**settings)
        checkpoint.take_up(loaded)
        return World(checkpoint, loaded, Plan(loaded, checkpoint))

    return make


EVERYTHING = [(number, row) for number in (1, 2, 3) for row in range(10)]


def test_batches_are_noted_written_counted_and_told_in_turn(world) -> None:
    w = world()
    loop = w.run()
    assert w.writer.output.rows == EVERYTHING
    assert not w.writer.replays
    assert loop.counts is not None
    assert loop.counts.total == Tally(rows_read=30, rows_emitted=30)
    assert (loop.counts.batches, loop.counts.end) == (3, place(30))
    assert [counts.batch for counts in w.told] == [1, 2, 3]


def test_a_kill_in_the_middle_of_a_write_is_mended_by_a_replay_of_that_batch_alone(world) -> None:
    w = world()
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    assert w.writer.output.rows == [(1, row) for row in range(5)]
    loop = w.run()
    assert w.writer.output.rows == EVERYTHING
    assert w.writer.replays == [1]
    assert loop.counts.total.replayed == 5
    assert loop.counts.total.rows_emitted == 30


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_batches_that_come_too_early_wait_for_those_before_them(world, order: tuple[int, ...]) -> None:
    w = world()
    w.run(lambda planned, loop: in_turn([planned[place] for place in order], loop))
    assert w.writer.output.rows == EVERYTHING
    assert [counts.batch for counts in w.told] == [1, 2, 3]


def test_a_batch_that_is_handed_over_again_after_its_counts_is_not_written_again(world) -> None:
    w = world()
    w.run(lambda planned, loop: in_turn([planned[0], *planned, planned[0]], loop))
    assert w.writer.output.rows == EVERYTHING
    assert not w.writer.replays


def test_a_long_range_is_planned_a_few_batches_at_a_time(world) -> None:
    w = world()
    w.plan.at_once = 2
    w.run()
    assert w.plan.windows == [[1, 2], [3]]
    assert w.writer.output.rows == EVERYTHING


def test_a_batch_that_never_comes_is_an_error_that_names_it(world) -> None:
    w = world()
    with pytest.raises(StateError, match="has not found batch 2 of the plan"):
        w.run(lambda planned, loop: in_turn([planned[0], planned[2]], loop))
    assert w.writer.output.rows == EVERYTHING[:10]


def test_a_batch_that_was_begun_ends_where_that_was_noted_and_the_next_one_begins_there(world) -> None:
    w = world()
    w.plan.offsets = 7
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    w.plan.offsets = 10
    assert w.run().counts.batches == 4
    assert [counts.end for counts in w.told] == [place(7), place(17), place(27), place(30)]


def test_an_attempt_that_is_told_to_end_begins_no_other_batch_and_tries_none_again(world) -> None:
    w = world()
    loop = w.loop()

    def fails(*_: Any) -> Tally:
        loop.stop()
        raise UnreachableError("cancelled")

    w.writer.write = fails
    loop.run(in_turn)
    assert "told to end" in str(loop.error)
    assert w.waits == 1
    assert w.checkpoint.note(2) is None


def test_a_failed_batch_is_run_again_as_a_replay_in_the_same_attempt(world) -> None:
    w = world()
    w.writer.failures = [RuntimeError("Python worker exited unexpectedly"), UnreachableError("away")]
    loop = w.run()
    assert w.writer.output.rows == EVERYTHING
    assert w.writer.replays == [1, 1]
    assert w.waits == 2
    assert loop.error is None


def test_a_batch_that_keeps_failing_ends_the_attempt_with_the_reason(world) -> None:
    w = world()
    w.writer.failures = [UnreachableError("away")] * TRIES
    loop = w.run()
    assert isinstance(loop.error, UnreachableError)
    assert not w.told
    assert w.waits == TRIES - 1


def test_what_a_retry_cannot_mend_is_not_tried_again(world) -> None:
    w = world()
    w.writer.failures = [DataLossError("gone")]
    loop = w.run()
    assert w.waits == 0
    assert isinstance(loop.error, DataLossError)


def test_a_fenced_attempt_writes_no_further_batch(world) -> None:
    w = world()

    def fenced(planned: Sequence[Planned], loop: BatchLoop) -> None:
        loop.take(planned[0])
        w.lease.error = FencedError("a newer attempt is there")
        loop.take(planned[1])

    assert isinstance(w.run(fenced).error, FencedError)
    assert w.writer.output.rows == EVERYTHING[:10]
    assert w.checkpoint.note(2) is None


def test_a_fenced_attempt_does_not_run_its_failed_batch_again(world) -> None:
    w = world()

    def cancelled(*_: Any, **__: Any) -> Tally:
        w.lease.error = FencedError("a newer attempt is there")
        raise RuntimeError("Job cancelled")

    w.writer.write = cancelled
    assert isinstance(w.run().error, FencedError)
    assert w.waits == 0


def test_a_checkpoint_that_vanishes_is_an_error_that_says_what_is_safe(world) -> None:
    w = world()
    w.checkpoint.state.delete("range.json")
    assert "gone while it is in use" in str(w.run().error)
    assert not w.writer.output.rows


@pytest.mark.parametrize("limit", [1, 9, 10, 11, 20, 25, 29, 30])
def test_the_row_limit_lets_the_first_rows_pass_over_batches_and_kills(world, limit: int) -> None:
    w = world(rows_left=limit)
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    loop = w.run()
    assert sorted(w.writer.output.rows) == EVERYTHING[:limit]
    assert loop.over
    assert loop.counts.limit_spent
    assert loop.counts.end == place(limit)


def test_an_allotment_is_decided_once_and_kept_by_a_replay(world) -> None:
    w = world(rows_left=5)
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    w.run()
    assert w.limit.asked == [1]


def test_nothing_is_read_once_the_limit_is_spent(world) -> None:
    w = world(rows_left=10)
    w.run()
    assert w.limit.asked == [1]
    assert w.checkpoint.note(2) is None


def test_dead_letters_count_for_the_row_limit(world) -> None:
    w = world(rows_left=15)
    write = w.writer.write

    def half_dead(*batch: Any) -> Tally:
        tally = write(*batch)
        return replace(tally, rows_emitted=tally.rows_emitted - 5, dead_letters=5)

    w.writer.write = half_dead
    loop = w.run()
    assert w.writer.output.rows == EVERYTHING[:15]
    assert (loop.counts.total.rows_emitted, loop.counts.total.dead_letters, loop.counts.limit_spent) == (5, 10, True)


def test_what_lies_behind_the_cut_is_next_where_a_cut_batch_came_out_smaller_than_it_was_counted(world) -> None:
    w = world(rows_left=15)
    write, spans = w.writer.write, []

    def one_less(batch: Batch, note: Note, before: Before | None) -> Tally:
        spans.append((batch.start.offsets[PARTITION], batch.end.offsets[PARTITION]))
        tally = write(batch, note, before)
        return replace(tally, rows_emitted=tally.rows_emitted - (batch.number == 2))

    w.writer.write = one_less
    loop = w.run()
    assert spans == [(0, 10), (10, 15), (15, 16)]
    assert w.plan.windows == [[1, 2, 3], [3, 4]]
    assert (loop.counts.total.rows_emitted, loop.counts.end, loop.counts.limit_spent) == (15, place(16), True)


def test_what_a_try_could_not_know_is_noted_before_it_writes_and_kept_over_kills(world) -> None:
    w = world()
    doubt = Doubt(landed=2, doubtful=3, settled=False, known=False)
    w.writer.output.doubts = [doubt]
    w.writer.failures = [Killed(), Killed()]
    for _ in range(2):
        with pytest.raises(Killed):
            w.run()
    assert w.checkpoint.note(1).doubts == (doubt,)
    w.run()
    assert w.checkpoint.note(1).in_doubt(10) == Tally(may_be_doubled=3 + 8, may_be_out_of_order=8)


def test_an_output_that_is_named_later_is_noted_with_its_ends_before_it_is_written(world) -> None:
    w = world()
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    w.writer.output.later = {"dead": "another"}
    w.run()
    assert w.checkpoint.note(1).output_ids == {"out": "id", "dead": "another"}


def test_a_topic_that_grew_since_keeps_the_partitions_and_ends_that_were_noted() -> None:
    first, later, dead = TopicPartition("out", 0), TopicPartition("out", 1), TopicPartition("dead", 0)
    note = Note(1, 1, place(0), place(10), Offsets({first: 5}), {"out": "id"})
    found = note.joined(Offsets({first: 9, later: 7, dead: 4}), {"out": "id", "dead": "another"}, "abc")
    assert found.outputs == Offsets({first: 5, dead: 4})
    assert found.partitions == {"out": 1, "dead": 1}
    assert found.code == ("abc",)


def sure(landed: int, gone: int = 0) -> Doubt:
    return Doubt(landed, gone, settled=True, known=not gone)


def unsettled(landed: int, gone: int = 0) -> Doubt:
    return Doubt(landed, gone, settled=False, known=not gone)


@pytest.mark.parametrize(
    ("tries", "doubled", "disordered"),
    [
        ([], 0, 0),
        ([sure(40, gone=3)], 3, 60),
        ([unsettled(40)], 60, 60),
        ([unsettled(40), unsettled(70)], 60, 60),
        ([sure(40, gone=3), sure(70, gone=5)], 5, 60),
        ([unsettled(40), sure(70, gone=5)], 65, 60),
    ],
)
def test_what_one_try_could_not_know_is_in_doubt_once_though_the_next_one_could(
    tries: list[Doubt], doubled: int, disordered: int
) -> None:
    note = Note(1, 1, place(0), place(10), Offsets(), {})
    for doubt in tries:
        note = note.doubted(doubt)
    found = note.in_doubt(100)
    assert (found.may_be_doubled, found.may_be_out_of_order) == (doubled, disordered)
