"""The lease, with a clock and processes of the test's own."""

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.leases import ELSEWHERE, HERE, LATENCY, Ahead, Processes, Shared, Slow, Touched, Working, World, holds

from airflow_provider_orderedkafka.core.batches import Holding
from airflow_provider_orderedkafka.errors import FencedError, StateError
from airflow_provider_orderedkafka.spark.state.lease import (
    HEARTBEAT,
    LEASE,
    Heartbeat,
    Lease,
    Outside,
    Process,
    SystemClock,
    SystemProcesses,
)
from airflow_provider_orderedkafka.storage import LocalState


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(LocalState(tmp_path))


def test_nobody_is_waited_for_who_has_let_go_or_is_a_dead_process_of_this_machine(world: World) -> None:
    before = world.clock.seconds
    first = world.lease("a", ELSEWHERE)
    first.acquire()
    first.let_go()
    second = world.lease("b", HERE)
    second.acquire()
    world.dead.add(HERE)
    third = world.lease("c", Process("here", 11, 2))
    third.acquire()
    assert [each.attempt for each in (first, second, third)] == [1, 2, 3]
    assert world.clock.seconds == before


def test_a_silent_holder_on_another_machine_is_waited_for_as_long_as_the_lease(world: World) -> None:
    world.lease("a", ELSEWHERE).acquire()
    before = world.clock.seconds
    waits: list[Holding] = []
    world.lease("b").acquire(waits.append)
    assert LEASE <= world.clock.seconds - before < LEASE + 2
    assert [each.machine for each in waits] == ["elsewhere"]


@pytest.mark.parametrize("ahead", [0, 86_400, -120])
def test_whatever_the_clocks_say_a_holder_that_beats_is_waited_for(world: World, ahead: float) -> None:
    holder, start, ended = world.lease("a", ELSEWHERE), world.clock.seconds, []

    def beat() -> None:
        with pytest.raises(FencedError):
            holder.beat()
        if world.clock.seconds < start + 60:
            world.clock.at.append((world.clock.seconds + HEARTBEAT, beat))
        else:
            ended.append(world.clock.seconds)
            holder.let_go()

    holder.acquire()
    world.clock.at.append((start + HEARTBEAT, beat))
    wrong = Ahead(world.clock, ahead)
    Lease(Outside(world.state, wrong, Processes(HERE), "b")).acquire()
    assert ended
    assert world.clock.seconds - ended[0] < 1


def test_an_older_attempt_that_sees_a_newer_one_is_fenced_and_told_who_it_is(world: World) -> None:
    first = world.lease("a", ELSEWHERE)
    first.acquire()
    first.check()
    world.clock.at.append((world.clock.seconds + 1, first.let_go))
    world.lease("b").acquire()
    with pytest.raises(FencedError) as caught:
        first.check()
    assert caught.value.by == "attempt 2 (process 10 on here)"


@pytest.mark.parametrize("does", [Lease.check, Lease.beat], ids=["looks", "beats too late"])
def test_a_holder_that_could_not_write_for_the_time_of_the_lease_is_fenced_by_itself(
    world: World, does: Callable[[Lease], None]
) -> None:
    lease = world.lease("a")
    lease.acquire()
    world.clock.seconds += LEASE
    with pytest.raises(FencedError):
        does(lease)


def test_a_heartbeat_that_fails_once_is_forgiven_and_one_that_fails_for_long_is_raised(world: World) -> None:
    class Broken:
        location = "broken"
        works = True

        def __getattr__(self, name: str) -> object:
            return getattr(world.state, name)

        def put(self, name: str, text: str) -> None:
            if not self.works:
                raise StateError("the disk is full")
            world.state.put(name, text)

    state = Broken()
    lease = world.lease("a", state=state)
    lease.acquire()
    state.works = False
    world.clock.seconds += LEASE / 2
    lease.beat()
    world.clock.seconds += LEASE / 2
    with pytest.raises(StateError):
        lease.beat()


def test_who_looked_before_another_wrote_waits_for_that_one_all_the_same(world: World) -> None:
    first, second = world.lease("a"), world.lease("b", ELSEWHERE)
    original = world.state.names
    entered = []

    def both_look_before_either_writes(folder: str = "") -> list[str]:
        found = original(folder)
        if not entered:
            entered.append(1)
            first.acquire()
        return found

    world.state.names = both_look_before_either_writes
    start = world.clock.seconds
    world.clock.at.append((start + 3, first.let_go))
    second.acquire()
    assert world.clock.seconds - start >= 3
    with pytest.raises(FencedError):
        first.check()
    second.check()


def test_who_is_fenced_while_it_starts_keeps_nobody_waiting(world: World) -> None:
    holder = world.lease("a", ELSEWHERE)
    holder.acquire()
    newest = world.lease("c", ELSEWHERE)
    start = world.clock.seconds
    world.clock.at.append((start + 1, lambda: world.clock.at.append((start + 2, holder.let_go))))
    world.clock.at.append((start + 1, newest.acquire))
    with pytest.raises(FencedError):
        world.lease("b").acquire()
    newest.check()
    before = world.clock.seconds
    newest.let_go()
    world.lease("d").acquire()
    assert world.clock.seconds == before


@pytest.mark.parametrize("seed", range(30))
def test_in_whatever_order_attempts_move_one_at_most_holds_and_one_gets_through(tmp_path: Path, seed: int) -> None:
    chance, clock = random.Random(seed), Shared()
    attempts = [Working(token, Touched(LocalState(tmp_path)), clock) for token in "abc"]
    while moving := [each for each in attempts if not each.actor.done]:
        chance.choice(moving).actor.move()
        assert sum(each.inside and holds(each.lease) for each in attempts) <= 1
    assert any(each.through for each in attempts)
    assert [each.actor.error for each in attempts] == [None] * 3


@pytest.mark.parametrize("seed", range(30))
def test_in_a_slow_store_one_at_most_holds_and_one_gets_through(tmp_path: Path, seed: int) -> None:
    chance, clock = random.Random(seed), Shared()
    state = Slow(LocalState(tmp_path), clock, lambda: LATENCY / 2 * chance.expovariate(1))
    attempts = [Working(token, state, clock, LATENCY * chance.random()) for token in "abc"]
    while moving := [each for each in attempts if not each.actor.done]:
        first = min(moving, key=lambda each: each.until)
        clock.seconds = max(clock.seconds, first.until)
        first.actor.move()
        assert sum(each.inside and holds(each.lease) for each in attempts) <= 1
    assert sum(each.through for each in attempts) == 1
    assert [each.actor.error for each in attempts] == [None] * 3


def test_a_holder_whose_store_answers_late_loses_the_lease_no_later_than_another_takes_it(world: World) -> None:
    first, second = world.lease("a", ELSEWHERE, state=Slow(world.state, world.clock)), world.lease("b")

    def take_over() -> None:
        second.acquire()
        world.state.delete("lease/000002-b.json")  # as a finished attempt does

    first.acquire()
    world.clock.at.append((world.clock.seconds + 0.75 * LATENCY, take_over))  # written, and not yet answered
    with pytest.raises(FencedError):
        first.beat()


def test_a_given_attempt_number_is_kept_and_one_older_than_what_is_there_is_refused(world: World) -> None:
    newer = world.lease("a", attempt=7)
    newer.acquire()
    newer.let_go()
    assert newer.attempt == 7
    with pytest.raises(FencedError) as error:
        world.lease("b", attempt=6).acquire()
    assert error.value.by == "attempt 7"
    again = world.lease("c", attempt=7)
    again.acquire()
    assert again.attempt == 7
    with pytest.raises(FencedError):
        newer.check()


def test_the_documents_of_older_holders_do_not_pile_up(world: World) -> None:
    for token in "abcde":
        lease = world.lease(token)
        lease.acquire()
        lease.let_go()
    assert len(world.state.names("lease")) == 1


def test_the_heart_beats_in_the_background_and_tells_once_when_the_lease_is_lost(tmp_path: Path) -> None:
    state = LocalState(tmp_path)
    lost = threading.Event()
    first = Lease(Outside(state, SystemClock(), SystemProcesses(), "a"))
    first.acquire()
    heartbeat = Heartbeat(first, lost.set, interval=0)
    other = replace(Holding.from_text(state.get("lease/000001-a.json") or ""), attempt=2)
    state.put("lease/000002-b.json", other.to_text())
    heartbeat.start()
    assert lost.wait(30)
    heartbeat.stop()
    assert isinstance(heartbeat.lost, FencedError)


def test_this_process_lives_and_a_number_with_another_start_does_not() -> None:
    processes = SystemProcesses()
    me = processes.this()
    assert not processes.is_dead(me)
    assert processes.is_dead(me._replace(started=me.started + 1))
    assert not processes.is_dead(me._replace(machine="elsewhere", started=me.started + 1))
