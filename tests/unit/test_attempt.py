"""What an attempt finds where another one has just finished, or was killed while it cleaned up."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.interleaving import Actor, Killed, at
from support.leases import Touched
from support.loop import a_range, place

from airflow_provider_orderedkafka.core.batches import Batch, Counts, Holding, Note, Tally
from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import FencedError, StateError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.locations import read_report, reports_at
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.spark.application.attempt import Attempt, already_loaded
from airflow_provider_orderedkafka.spark.application.batch_loop import BatchLoop, Writer
from airflow_provider_orderedkafka.spark.application.report import report
from airflow_provider_orderedkafka.spark.session.starting import LazySession
from airflow_provider_orderedkafka.spark.state import lease
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.state.lease import Lease, Outside, SystemClock, SystemProcesses
from airflow_provider_orderedkafka.storage import LocalState

LOADED = a_range()
COUNTS = Counts(1, Tally(30, 30), Tally(30, 30), 1, place(30), limit_reached=False)
JOB = Job(KafkaOutput("out"))
DONE = report(LOADED, COUNTS, 1, 0, 1)


class Holder:
    """An attempt that holds the lease and has loaded all batches."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = Checkpoint(Touched(LocalState(folder)))
        self.checkpoint.take_up(LOADED)
        self.lease = Lease(Outside(self.checkpoint.state, SystemClock(), SystemProcesses(), "a"))
        self.lease.acquire()
        self.checkpoint.put_note(Note(1, 1, place(0), place(30), Offsets(), {}))
        self.checkpoint.put_counts(COUNTS)

    def end(self) -> None:
        self.checkpoint.put_report(DONE)
        self.checkpoint.clean()


def never() -> Writer:
    raise AssertionError("it is loaded again")


def next_attempt(folder: Path) -> Report:
    """What the next attempt does, as an application does it; there must be nothing left to load."""

    checkpoint = Checkpoint(Touched(LocalState(folder)))
    found = already_loaded(checkpoint, LOADED)
    if found is None:
        checkpoint.take_up(LOADED)
        found = Attempt(LazySession(), checkpoint, None, JOB).run(LOADED, never)
    return found


def left(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_cleaning_that_was_killed_at_any_moment_leaves_the_report_to_the_next_attempt(tmp_path: Path) -> None:
    for moment in range(40):
        folder = tmp_path / str(moment)
        holder, seen = Holder(folder), iter(range(40))
        holder.checkpoint.put_report(DONE)

        def die(_: str, moment: int = moment, seen: object = seen) -> None:
            if next(seen) == moment:  # type: ignore[call-overload]
                raise Killed

        try:
            with at(die):
                holder.checkpoint.clean()
        except Killed:
            assert next_attempt(folder) == DONE
            assert left(folder) == ["report.json"]
        else:
            return
    raise AssertionError("it never ended")


@pytest.mark.parametrize("seed", range(25))
def test_an_attempt_that_waited_for_one_that_finished_gives_its_report(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT", 0.04)
    chance, found = random.Random(seed), []
    holder = Holder(tmp_path)
    ending = Actor(holder.end)
    waiting = Actor(lambda: found.append(next_attempt(tmp_path)))
    for _ in range(chance.randrange(30)):
        waiting.move()
    while moving := [actor for actor in (ending, waiting) if not actor.done]:
        chance.choice(moving).move()
    assert (ending.error, waiting.error) == (None, None)
    assert found == [DONE]
    assert left(tmp_path) == ["report.json"]


def test_an_attempt_that_stood_still_after_its_last_batch_does_not_say_that_it_is_done(tmp_path: Path) -> None:
    holder = Attempt(LazySession(), Checkpoint(LocalState(tmp_path)), None, JOB)
    holder._lease.acquire()
    holder._lease._beaten -= lease.LEASE
    assert isinstance(holder._lost(), FencedError)


class Noting(Attempt):
    """One that notes a batch, and ends."""

    def _loaded(self, *_: object) -> StateError:
        self._checkpoint.put_note(Note(1, 1, place(0), place(30), Offsets(), {}))
        return StateError("enough")


def test_an_attempt_writes_its_notes_under_the_name_of_its_lease(tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalState(tmp_path))
    checkpoint.take_up(LOADED)
    with pytest.raises(StateError, match="enough"):
        Noting(LazySession(), checkpoint, None, JOB).run(LOADED, never)
    assert checkpoint.state.names("notes/1") == checkpoint.state.names("lease") != []


class LoadedAll(Attempt):
    """One that has loaded all batches, without a session."""

    def _loaded(self, *_: object) -> None:
        self._loop = SimpleNamespace(counts=COUNTS, counting=0.0, leave_word=lambda: None)  # type: ignore[assignment]


def test_an_attempt_that_stood_still_as_it_ended_leaves_the_proof_of_one_that_ended_meanwhile(tmp_path: Path) -> None:
    for moment in range(1, 60):
        state = LocalState(tmp_path / str(moment))
        checkpoint, other = Checkpoint(Touched(state)), Checkpoint(state)
        other.take_up(LOADED)
        other.put_counts(COUNTS)
        ending = Actor(lambda of=checkpoint: LoadedAll(LazySession(), of, None, JOB).run(LOADED, never))
        for _ in range(moment):
            ending.move()
        if ending.done:
            return
        first = other.put_report(DONE)
        other.clean()
        ending.finish()
        assert other.proof(LOADED) == first
        assert (first.stop, first.rows_emitted) == (DONE.stop, DONE.rows_emitted)
    raise AssertionError("it never ended")


class FailsLate(Attempt):
    """One that fails when another one has succeeded, and has not tidied up yet."""

    def _loaded(self, *_: object) -> StateError:
        Checkpoint(self._checkpoint.state).put_report(DONE)
        return StateError("the disk is full")


def test_a_failure_that_comes_late_leaves_the_report_of_who_has_succeeded_to_airflow_too(tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalState(tmp_path))
    checkpoint.take_up(LOADED)
    with pytest.raises(StateError, match="full"):
        FailsLate(LazySession(), checkpoint, None, JOB).run(LOADED, never)
    assert checkpoint.proof(LOADED) == read_report(str(tmp_path)) == DONE


def test_the_newest_failure_is_what_airflow_reads_where_nobody_has_succeeded(tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalState(tmp_path))
    for number in (1, 2):
        checkpoint.put_report(replace(DONE, attempt=number, complete=False))
    assert read_report(str(tmp_path)) == replace(DONE, attempt=2, complete=False)


def test_the_reports_at_a_location_are_those_of_ranges_whatever_else_lies_there(tmp_path: Path) -> None:
    Checkpoint(LocalState(tmp_path / "done")).put_report(DONE)
    Checkpoint(LocalState(tmp_path / "begun")).take_up(LOADED)
    (tmp_path / "logs").mkdir()
    (tmp_path / "README").touch()
    assert reports_at(str(tmp_path)) == {"done": DONE, "begun": None}


class Overtaken(Attempt):
    """One from which a newer attempt takes over while it writes its second batch."""

    def __init__(self, checkpoint: Checkpoint, rows: int | None, then: Callable[[Checkpoint], object]) -> None:
        super().__init__(LazySession(), checkpoint, None, JOB)
        self._then = then
        writer = SimpleNamespace(output=SimpleNamespace(may_double=lambda _: rows))
        self._work: Any = SimpleNamespace(checkpoint=checkpoint, lease=self._lease, writer=writer)

    def _loaded(self, *_: object) -> StateError:
        self._loop = BatchLoop(self._work, self)
        self._loop.unsure = Batch(2, place(10), place(20))
        self._then(self._checkpoint)
        return StateError("cancelled")


def begins(checkpoint: Checkpoint) -> None:
    checkpoint.state.put(f"lease/{'9' * 6}-b.json", Holding(2, "elsewhere", 1, 1, 1, 1, let_go=False).to_text())


def succeeds(checkpoint: Checkpoint) -> None:
    checkpoint.put_report(DONE)
    checkpoint.clean()


def does_both(checkpoint: Checkpoint) -> None:
    begins(checkpoint)
    checkpoint.put_report(DONE)


@pytest.mark.parametrize("then", [begins, succeeds, does_both])
@pytest.mark.parametrize(("rows", "reported"), [(9, 9), (None, 30), (100, 30), (0, 0)])
def test_what_an_attempt_may_have_doubled_once_a_newer_one_had_come_is_beside_the_report_whoever_ends_first(
    tmp_path: Path, then: Callable[[Checkpoint], object], rows: int | None, reported: int
) -> None:
    checkpoint = Checkpoint(LocalState(tmp_path))
    checkpoint.take_up(LOADED)
    for _ in range(2):
        checkpoint.bind(LOADED)
        with pytest.raises((StateError, FencedError)):
            Overtaken(checkpoint, rows, then).run(LOADED, never)
        for name in ("report.json", "lease"):
            checkpoint.state.delete(name)
    checkpoint.put_report(DONE)
    checkpoint.clean()
    expected = replace(DONE, may_be_doubled=2 * reported)
    assert checkpoint.proof(LOADED) == read_report(str(tmp_path)) == expected
    assert Report.from_text(checkpoint.state.get("report.json") or "") == DONE


def test_an_attempt_that_nobody_took_over_from_has_doubled_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalState(tmp_path))
    checkpoint.take_up(LOADED)
    for _ in range(2):  # the second one finds why the first one failed
        with pytest.raises(StateError):
            Overtaken(checkpoint, 9, lambda _: None).run(LOADED, never)
    assert "failure.json" in checkpoint.state.names()
    assert "overtaken" not in checkpoint.state.names()
