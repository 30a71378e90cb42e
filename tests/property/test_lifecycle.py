"""The life of ranges under retries, clears, kills between any two writes, overlapping runs and persons."""

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.runs import PARTITION, Killed, Run, Skipped, World, abandon

from airflow_provider_orderedkafka.core.lifecycle import TABLE, Action, Asker, State, Step
from airflow_provider_orderedkafka.errors import LedgerChangedError, LifecycleError

EXAMPLES = settings(max_examples=int(os.environ.get("ORDEREDKAFKA_EXAMPLES", "300")), deadline=None)

RUNS = ("d/a", "d/b", "d/c")

what_happens = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(1, 5), st.none()),
        st.tuples(st.sampled_from(["resolve", "load", "commit"]), st.sampled_from(RUNS), st.none() | st.integers(0, 9)),
        st.tuples(st.just("die in the application"), st.sampled_from(RUNS), st.none()),
        st.tuples(st.just("end"), st.sampled_from(RUNS), st.none()),
        st.tuples(st.just("clear"), st.sampled_from(RUNS), st.none()),
    ),
    max_size=40,
)


class Story:
    """Plays what happens, and keeps every place that the ledger ever had."""

    def __init__(self) -> None:
        self.world = World()
        self.runs = {name: Run(self.world, name) for name in RUNS}
        self.range_ids: dict[str, str | None] = dict.fromkeys(RUNS)
        self.places: dict[int, int] = {0: 0}

    def play(self, action, subject, kill_after):
        if action == "grow":
            self.world.high += subject
            return
        if action == "end":
            self.world.active.discard(subject)
            return
        self.world.active.add(subject)  # a task that runs, or is cleared, makes its run active
        if action != "clear":
            self.step(action, self.runs[subject], kill_after)
        self.note()

    def step(self, action, run, kill_after):
        left = [kill_after]

        def before(operation):
            if not operation.startswith("get"):
                if left[0] == 0:
                    raise Killed
                left[0] = None if left[0] is None else left[0] - 1

        self.world.store.before = before
        try:
            if action == "resolve":
                self.range_ids[run.name] = None
                self.range_ids[run.name] = run.resolve()
            elif action == "commit":
                run.commit(self.range_ids[run.name])
            else:
                run.load(self.range_ids[run.name], die=action != "load")
        except (Killed, Skipped, LifecycleError):
            pass
        finally:
            self.world.store.before = lambda _: None

    def note(self):
        ledger = self.world.ledger
        if ledger is not None:
            self.places.setdefault(ledger.revision, ledger.place.offsets[PARTITION])
            assert self.places[ledger.revision] == ledger.place.offsets[PARTITION], "a revision has one place"

    def finish(self):
        """Everybody ends; then healthy runs load what is left."""
        self.world.active.clear()
        for number in range(3):
            self.world.run(f"d/last-{number}").whole()
            self.note()


def moved_ranges(story):
    """What each commit moved over, from and to, in the order of revisions."""
    revisions = sorted(story.places)
    return [(story.places[a], story.places[b]) for a, b in itertools.pairwise(revisions)]


@EXAMPLES
@given(what_happens)
def test_nothing_is_left_out_and_nothing_is_committed_twice(happenings):
    story = Story()
    for happening in happenings:
        story.play(*happening)
    story.finish()
    at = 0
    for start, end in moved_ranges(story):
        assert start == at
        assert end > start
        at = end
    assert at == story.world.high


@EXAMPLES
@given(what_happens)
def test_every_offset_is_written_by_one_checkpoint_alone(happenings):
    story = Story()
    for happening in happenings:
        story.play(*happening)
    story.finish()
    offsets = [offset for start, end in story.world.written.values() for offset in range(start, end)]
    assert sorted(offsets) == list(range(story.world.high))


@EXAMPLES
@given(what_happens)
def test_every_revision_is_told_once_its_commit_is_tried_until_it_succeeds(happenings):
    story, ids = Story(), set()
    for happening in happenings:
        story.play(*happening)
        ids |= {(name, range_id) for name, range_id in story.range_ids.items() if range_id is not None}
    for name, range_id in sorted(ids):
        story.range_ids[name] = range_id
        story.play("commit", name, None)
    story.finish()
    assert set(story.world.events) == set(story.places) - {0}


@EXAMPLES
@given(what_happens, st.integers(0, 30))
def test_a_person_can_always_abandon_what_an_ended_run_left_and_only_that_is_loaded_again(happenings, when):
    story = Story()
    given_up = set()
    for number, happening in enumerate(happenings):
        story.play(*happening)
        if number == when and story.world.ledger is not None and story.world.ledger.open is not None:
            given_up.add(story.world.ledger.open.range_id)
            story.world.active.clear()
            abandon(story.world)
    story.finish()
    kept = [span for checkpoint, span in story.world.written.items() if checkpoint.split("/")[0] not in given_up]
    offsets = [offset for start, end in kept for offset in range(start, end)]
    assert sorted(offsets) == list(range(story.world.high))


def test_the_table_answers_every_question():
    questions = {(step, asker) for step in Step for asker in Asker}
    assert {state: set(answers) for state, answers in TABLE.items()} == dict.fromkeys(State, questions)


def test_only_an_owner_starts_resumes_or_moves():
    does = {Action.START, Action.RESUME, Action.GIVE_REPORT, Action.MOVE, Action.EMIT_AGAIN}
    assert {asker for answers in TABLE.values() for (_, asker), answer in answers.items() if answer in does} == {
        Asker.OWNER
    }


def test_of_two_heirs_that_take_over_at_the_same_moment_one_goes_on():
    world = World(high=5)
    first, second, third = (world.run(name) for name in RUNS)
    first.resolve()
    first.end()
    looks = []

    def race(operation):
        looks.append(operation)
        if operation == "get ledger" and looks.count(operation) == 2:
            second.resolve()

    world.store.before = race
    with pytest.raises(LedgerChangedError):
        third.resolve()
    assert world.ledger.open.owner == second.name
