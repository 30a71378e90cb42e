"""What the batch loop does with each batch, and what a kill between any two steps leaves to be mended."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from support.interleaving import Killed
from support.loop import PARTITION, Before, World, in_turn, place
from support.messages import says

from airflow_provider_orderedkafka.core.batches import Batch, Counts, Note, Planned, Tally
from airflow_provider_orderedkafka.core.next_range import check_logs
from airflow_provider_orderedkafka.core.order.marks import Compared
from airflow_provider_orderedkafka.errors import (
    CredentialsError,
    DataLossError,
    FencedError,
    SchemaChangedError,
    SettingError,
    StateError,
    TaskFailedError,
    UnreachableError,
)
from airflow_provider_orderedkafka.spark.application.batch_loop import TRIES, BatchLoop
from airflow_provider_orderedkafka.spark.connector.stream import end_of_range


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    return partial(World.at, tmp_path)


EVERYTHING = [(number, row) for number in (1, 2, 3) for row in range(10)]


def test_batches_are_noted_written_counted_and_told_in_turn(world) -> None:
    w = world()
    loop = w.run()
    assert w.writer.output.rows == EVERYTHING
    assert not w.writer.replays
    assert loop.counts is not None
    assert loop.counts.total == Tally(rows_read=30, rows_emitted=30)
    assert (loop.counts.batches, loop.counts.end) == (3, place(30))
    assert [counts.batch for counts in w.counted] == [1, 2, 3]


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


def test_what_an_attempt_counts_late_does_not_stand_for_what_a_newer_one_has_written_of_the_batch(world) -> None:
    w = world()
    for term in ("000001-c", "000002-b", "000003-a"):
        w.checkpoint.hold(term)
        w.writer.failures = [Killed()]
        with pytest.raises(Killed):
            w.run()
    w.checkpoint.hold("000002-b")
    w.checkpoint.put_counts(Counts(1, Tally(), Tally(), 1, place(10), limit_reached=False))
    w.checkpoint.hold("000004-d")
    assert w.run().counts.total.rows_emitted == 30
    assert w.writer.replays == [1, 1, 1]


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_batches_that_come_too_early_wait_for_those_before_them(world, order: tuple[int, ...]) -> None:
    w = world()
    w.run(lambda planned, loop: in_turn([planned[place] for place in order], loop))
    assert w.writer.output.rows == EVERYTHING
    assert [counts.batch for counts in w.counted] == [1, 2, 3]


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
    with pytest.raises(StateError, match="batch 2"):
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
    assert [counts.end for counts in w.counted] == [place(7), place(17), place(27), place(30)]


def test_an_attempt_that_is_told_to_end_begins_no_other_batch_and_tries_none_again(world) -> None:
    w = world()
    loop = w.loop()

    def fails(*_: Any) -> Tally:
        loop.stop()
        raise UnreachableError("cancelled")

    w.writer.write = fails
    loop.run(in_turn)
    assert isinstance(loop.error, TaskFailedError)
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
    assert not w.counted
    assert w.waits == TRIES - 1


@pytest.mark.parametrize(
    "error",
    [
        DataLossError("gone"),
        SchemaChangedError("columns are settled for an attempt"),
        CredentialsError("so is the password"),
    ],
)
def test_what_this_attempt_cannot_mend_is_not_tried_again(world, error) -> None:
    w = world()
    w.writer.failures = [error]
    loop = w.run()
    assert w.waits == 0
    assert loop.error is error


def test_a_fenced_attempt_writes_no_further_batch(world) -> None:
    w = world()

    def fenced(planned: Sequence[Planned], loop: BatchLoop) -> None:
        loop.take(planned[0])
        w.lease.error = FencedError("a newer attempt is there")
        loop.take(planned[1])

    loop = w.run(fenced)
    assert isinstance(loop.error, FencedError)
    assert loop.unsure is None
    assert w.writer.output.rows == EVERYTHING[:10]
    assert w.checkpoint.note(2) is None


def test_a_batch_that_was_read_from_a_log_that_was_truncated_meanwhile_is_not_counted(world) -> None:
    w = world()

    def truncated(planned: Sequence[Planned], loop: BatchLoop) -> None:
        loop.take(planned[0])
        w.plan.truncated = DataLossError("it is another log now", topic="orders", partition=0, offset=5)
        loop.take(planned[1])

    assert w.run(truncated).error is w.plan.truncated
    assert w.checkpoint.counts().batch == 1


def test_a_fenced_attempt_does_not_run_its_failed_batch_again(world) -> None:
    w = world()

    def cancelled(*_: Any, **__: Any) -> Tally:
        w.lease.error = FencedError("a newer attempt is there")
        raise RuntimeError("Job cancelled")

    w.writer.write = cancelled
    loop = w.run()
    assert isinstance(loop.error, FencedError)
    assert loop.unsure is not None
    assert w.waits == 0


def test_a_checkpoint_that_vanishes_is_an_error_that_says_what_is_safe(world) -> None:
    w = world()
    w.checkpoint.state.delete("range.json")
    error = w.run().error
    assert isinstance(error, StateError)
    assert repr(w.checkpoint.location) in str(error)
    assert not w.writer.output.rows


def test_an_allotment_is_decided_once_and_kept_by_a_replay(world) -> None:
    w = world(rows_left=5)
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    w.run()
    assert w.limit.asked == [1]


def test_a_batch_in_which_the_limit_ends_is_not_completed_with_other_code(world) -> None:
    w = world(rows_left=5)
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    begun = w.writer.setup
    w.writer.setup = replace(begun, code="edited since")
    before = list(w.writer.output.rows)
    assert isinstance(w.run().error, SettingError)
    assert w.writer.output.rows == before
    w.writer.setup = begun
    assert w.run().counts.total.rows_emitted == 5


def its_code_has_changed(w: World) -> None:
    w.writer.failures = [Killed()]
    with pytest.raises(Killed):
        w.run()
    w.writer.setup = replace(w.writer.setup, code="edited since")
    error = w.run().error
    assert error is not None
    raise error


def its_log_was_truncated(w: World) -> None:
    check_logs(w.loaded.end, Compared({PARTITION: 5}), end_of_range(w.loaded))


@pytest.mark.parametrize("fails", [its_code_has_changed, its_log_was_truncated])
@pytest.mark.parametrize(("kind", "of_ledger"), [("incremental", True), ("interval", False), ("replay", False)])
def test_the_ledger_is_to_be_changed_only_for_a_range_of_its_own(world, fails, kind, of_ledger) -> None:
    w = world(rows_left=5)
    w.loaded = replace(w.loaded, kind=kind)
    with pytest.raises((SettingError, DataLossError)) as raised:
        fails(w)
    assert ("orderedkafka ledger abandon" in str(raised.value)) is of_ledger


def test_nothing_is_read_once_the_limit_is_spent(world) -> None:
    w = world(rows_left=10)
    w.run()
    assert w.limit.asked == [1]
    assert w.checkpoint.note(2) is None


def test_a_run_with_too_many_dead_letters_ends_before_that_batch_counts_and_goes_on_once_more_may_be(world) -> None:
    w = world()
    write = w.writer.write

    def some_dead(*batch: Any) -> Tally:
        return replace(write(*batch), rows_emitted=6, dead_letters=4)

    w.writer.write, w.max_bad = some_dead, 7
    loop = w.run()
    assert says(str(loop.error), "8 records ... 7")
    assert loop.counts.batch == 1
    w.max_bad = 12
    assert w.run().counts.total.dead_letters == 12
    assert w.writer.output.rows == EVERYTHING


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
    assert (loop.counts.total.rows_emitted, loop.counts.end, loop.counts.limit_reached) == (15, place(16), True)
