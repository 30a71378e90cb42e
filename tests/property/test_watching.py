"""A watcher starts runs once for each revision, and does not storm, whatever becomes of them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.runs import FIRST

from airflow_provider_orderedkafka.core.documents import Open
from airflow_provider_orderedkafka.core.pacing import LONGEST, Seen, fired, noticed, silent

MINUTE = 60_000


class Watcher:
    """Looks every five seconds at what it is shown, while Kafka always has enough."""

    def __init__(self):
        self.now, self.watch, self.started = 0, None, []

    def look(self, ledger, *, active=False, limit_reached=False, seconds=5):
        for _ in range(0, seconds, 5):
            self.now += 5_000
            seen = Seen(ledger, active, limit_reached, self.now)
            self.watch = noticed(self.watch, seen)
            if silent(self.watch, seen, MINUTE) is None:
                self.watch = fired(self.watch, seen)
                self.started.append(self.now)


def opened(ledger, owner="d/run"):
    return replace(ledger, open=Open("range", owner))


def test_one_run_for_each_revision_that_is_committed_in_time():
    watcher = Watcher()
    watcher.look(None, seconds=20)
    for revision in range(5):
        at = replace(FIRST, revision=revision)
        watcher.look(at, seconds=20)
        watcher.look(opened(at), active=True, seconds=3600)
    assert len(watcher.started) == 5


def test_the_run_that_looks_first_has_time_to_open_its_range():
    watcher = Watcher()
    watcher.look(None)
    watcher.look(FIRST, seconds=30)
    watcher.look(opened(FIRST), active=True, seconds=3600)
    assert len(watcher.started) == 1


def test_a_clock_that_was_set_back_holds_no_run_back_and_starts_one_alone():
    watcher = Watcher()
    watcher.now = 24 * 60 * MINUTE
    watcher.look(FIRST)
    watcher.now = 0
    watcher.look(FIRST, seconds=60)
    assert len(watcher.started) == 2


def test_a_first_run_that_found_nothing_is_followed_by_another_as_soon_as_the_backoff_is_over():
    watcher = Watcher()
    watcher.look(None)
    watcher.look(FIRST, seconds=120)
    assert len(watcher.started) == 2


def test_silence_while_a_range_is_owned_or_the_limit_is_reached():
    watcher = Watcher()
    watcher.look(opened(FIRST), active=True, seconds=3600)
    watcher.look(FIRST, limit_reached=True, seconds=3600)
    assert watcher.started == []


def test_a_run_that_ended_without_a_commit_is_followed_by_others_ever_later():
    watcher = Watcher()
    watcher.look(FIRST)
    watcher.look(opened(FIRST), active=True, seconds=60)
    watcher.look(opened(FIRST), seconds=3600)
    waits = [b - a for a, b in zip(watcher.started, watcher.started[1:], strict=False)]
    assert waits == sorted(waits)
    assert 3 <= len(waits) <= 7


def test_a_run_that_nobody_saw_is_not_waited_for_for_ever():
    watcher = Watcher()
    watcher.look(FIRST, seconds=3600)
    assert 2 <= len(watcher.started) <= 5


happenings = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, "d/a", "d/b"]), st.booleans(), st.integers(1, 20)), max_size=30
)


@given(happenings)
def test_whatever_happens_starts_for_one_revision_are_few_and_never_cease(happenings):
    watcher, at = Watcher(), FIRST
    for moved, owner, active, minutes in happenings:
        at = replace(at, revision=at.revision + (moved == 0))
        watcher.look(at if owner is None else opened(at, owner), active=active, seconds=60 * minutes)
    before = len(watcher.started)
    assert before <= (1 + at.revision) * (8 + watcher.now // LONGEST)
    watcher.look(at, seconds=2 * LONGEST // 1000)
    assert len(watcher.started) > before
