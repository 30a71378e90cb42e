"""The life of ranges under retries, clears, kills between any two touches, overlapping runs and persons.

Runs and a person are actors that move one at a time, from one touch of the store, the mirror, the outputs to the next,
in any order that hypothesis finds. One thing is held to be true of time: what compared with the ledger and is about to
replace it does so before anybody who waits for that has waited long enough, and before another step begins. Where a
store compares by itself, nothing has to be held to be true.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.interleaving import Actor, Killed, at
from support.keeping import DictStore, FolderStore
from support.runs import PARTITION, Run, Skipped, World, abandon, restore, rewind

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.lifecycle import TABLE, Action, Asker, RangeState, Step
from airflow_provider_orderedkafka.errors import LedgerChangedError, LifecycleError

KEPT = pytest.mark.parametrize("kept", [DictStore, FolderStore], ids=["in Airflow", "in a folder"])
"""Where the ledger is kept."""

RUNS = ("d/a", "d/b", "d/c")
PERSON = "a person"
STEPS = ("resolve", "load", "commit")
EXPECTED = (Killed, Skipped, LifecycleError, LedgerChangedError)


def happenings(*more, runs=RUNS):
    """What may happen: verb, subject, number."""
    anybody = st.sampled_from([*runs, *([PERSON] if more else [])])
    return st.lists(
        st.one_of(
            *(st.tuples(st.just(step), st.sampled_from(runs), st.integers(0, 12)) for step in STEPS),
            *(st.tuples(st.just("move"), anybody, st.integers(1, 12)) for _ in range(3)),
            st.tuples(st.just("kill"), anybody, st.just(0)),
            st.tuples(st.sampled_from(["end", "clear"]), st.sampled_from(runs), st.just(0)),
            st.tuples(st.just("grow"), st.just(""), st.integers(1, 5)),
            *(st.tuples(st.just(verb), st.just(PERSON), st.integers(0, 12)) for verb in more),
        ),
        max_size=60,
    )


class Story:
    """Plays what happens, and keeps what nobody may contradict later."""

    def __init__(self, kept=DictStore, runs=RUNS):
        self.world = World(kept(), settle=self.settle)
        self.runs = {name: Run(self.world, name) for name in runs}
        self.range_ids = dict.fromkeys(runs)
        self.actors: dict[str, Actor] = {}
        self.unexpected = []

    def play(self, verb, subject, number):
        if verb == "grow":
            self.world.high += number
        elif verb == "end":
            self.world.active.discard(subject)
        elif verb == "clear":
            self.world.active.add(subject)
        elif verb == "kill":
            self.stop(subject)
        elif subject not in self.actors:
            if verb != "move":
                self.begin(verb, subject, number)
        elif verb == "move":
            self.move(subject, number)

    def begin(self, verb, subject, moves):
        self.settle()
        self.world.active.update({subject} & self.runs.keys())  # a task that runs makes its run active
        self.actors[subject] = Actor(self.work(verb, subject, moves))
        self.move(subject, moves)

    def work(self, verb, subject, number):
        if subject == PERSON:
            does = {"abandon": abandon, "rewind": lambda world: rewind(world, self.back(number)), "restore": restore}
            return lambda: does[verb](self.world)
        run = self.runs[subject]
        if verb == "resolve":
            return lambda: self.resolve(run)
        return lambda: getattr(run, verb)(self.range_ids[subject])

    def resolve(self, run):
        self.range_ids[run.name] = None
        self.range_ids[run.name] = run.resolve()

    def back(self, number):
        """A place on or before where the ledger stands."""
        ledger = self.world.ledger
        return 0 if ledger is None else max(ledger.place.offsets[PARTITION] - number, 0)

    def move(self, subject, times):
        actor = self.actors[subject]
        for _ in range(times):
            actor.move()
        if actor.done:
            self.gone(subject)

    def move_if_there(self, subject):
        if subject in self.actors:
            self.move(subject, 1)

    def stop(self, subject):
        if subject in self.actors:
            self.actors[subject].kill()
            self.gone(subject)

    def gone(self, subject):
        error = self.actors.pop(subject).error
        if error is not None and not isinstance(error, EXPECTED):
            self.unexpected.append(error)

    def settle(self):
        """Whoever has compared and is about to write the ledger does."""
        for actor in [*self.actors.values()]:
            if actor.before == "set ledger":
                actor.move()

    def finish(self):
        """Everybody ends; then healthy runs load what is left, and none of them finds anything in its way."""
        for subject in [*self.actors]:
            self.actors[subject].finish()
            self.gone(subject)
        self.world.active.clear()
        for number in range(3):
            self.world.run(f"d/last-{number}").whole()
        assert self.unexpected == []
        assert self.world.ledger.open is None
        assert self.world.mirror.shown.revision == self.world.ledger.revision
        assert self.world.ledger.place.offsets[PARTITION] == self.world.high

    def commits(self):
        """Revision, range, from and to of each commit that stands."""
        ranges = {}
        for checkpoint, span in self.world.written.items():
            ranges[checkpoint.split("/")[0]] = span
        outcomes = [outcome for outcome in self.world.ledger.outcomes if outcome.kind == "committed"]
        return [(outcome.revision, outcome.range_id, *ranges[outcome.range_id]) for outcome in outcomes]


def played(what, kept):
    story = Story(kept)
    for happening in what:
        story.play(*happening)
    story.finish()
    return story


@KEPT
@given(what=happenings())
def test_nothing_is_left_out_nothing_is_committed_twice_and_nothing_is_written_by_two_ranges(kept, what):
    story = played(what, kept)
    begun = 0
    for revision, (number, _, start, end) in enumerate(story.commits(), start=1):
        assert (number, start) == (revision, begun)
        assert end > start
        begun = end
    assert begun == story.world.high
    offsets = [offset for start, end in story.world.written.values() for offset in range(start, end)]
    assert sorted(offsets) == list(range(story.world.high))


@KEPT
@given(what=happenings())
def test_an_event_tells_a_commit_that_stands_and_each_is_told_once_its_run_is_cleared(kept, what):
    story = played(what, kept)
    stands = {(revision, range_id) for revision, range_id, *_ in story.commits()}
    assert set(story.world.events) <= stands
    for name, run in story.runs.items():
        mine = {(o.revision, o.range_id) for o in story.world.ledger.outcomes if o.by == name}
        run.whole()
        latest = max(mine, default=None)
        assert latest is None or latest in story.world.events
    assert set(story.world.events) <= stands


@KEPT
@given(what=happenings("abandon", "rewind", "restore"))
def test_whatever_persons_do_every_offset_is_committed_and_each_commit_begins_where_the_ledger_stood(kept, what):
    story = played(what, kept)
    ledger = story.world.ledger
    revisions = [outcome.revision for outcome in ledger.outcomes if outcome.kind != "abandoned"]
    assert revisions == sorted(set(revisions))
    begun, moved = 0, {revision: (start, end) for revision, _, start, end in story.commits()}
    for outcome in ledger.outcomes:
        if outcome.kind == "committed":
            start, end = moved[outcome.revision]
            assert start <= begun
            begun = end
    assert {offset for start, end in moved.values() for offset in range(start, end)} == set(range(story.world.high))
    assert set(story.world.events) <= {(revision, range_id) for revision, range_id, *_ in story.commits()}


def left_open(by, kept=DictStore):
    """A world in which an ended run has left a range open: planned, submitted or loaded."""
    story = Story(kept)
    story.world.high = 5
    first = story.runs["d/a"]
    story.resolve(first)
    if by != "resolve":
        first.load(story.range_ids["d/a"])
    if by == "half a load":
        story.world.reports.clear()
    first.end()
    return story


@KEPT
@pytest.mark.parametrize("by", ["resolve", "half a load", "load"])
@given(what=happenings())
def test_of_an_owner_and_two_heirs_of_one_range_at_the_same_moment_one_commits_it(kept, by, what):
    story = left_open(by, kept)
    for happening in what:
        story.play(*happening)
    story.finish()
    first, *_ = story.commits()
    assert first == (1, "range-1", 0, 5)
    assert [range_id for _, range_id, *_ in story.commits()].count("range-1") == 1


SAME_MOMENT = [
    ("load", ("commit", "d/a"), ("resolve", "d/b")),
    ("load", ("commit", "d/a"), ("commit", "d/a again")),
    ("load", ("commit", "d/a"), ("abandon", PERSON)),
    ("half a load", ("load", "d/a"), ("resolve", "d/b")),
    ("half a load", ("load", "d/a"), ("abandon", PERSON)),
    ("resolve", ("resolve", "d/b"), ("resolve", "d/c")),
    ("nothing", ("resolve", "d/b"), ("resolve", "d/c")),
    ("nothing", ("resolve", "d/b"), ("rewind", PERSON)),
]


@KEPT
@pytest.mark.parametrize(("before", "one", "other"), SAME_MOMENT, ids=str)
@given(order=st.lists(st.booleans(), min_size=5, max_size=40), one_first=st.booleans())
def test_two_steps_at_the_same_moment_leave_mirror_events_and_offsets_in_order(
    kept, before, one, other, order, one_first
):
    story = left_open(before, kept) if before != "nothing" else Story(kept)
    story.world.high = 5
    story.runs["d/a again"], story.range_ids["d/a again"] = story.runs["d/a"], story.range_ids["d/a"]
    for verb, subject in (one, other):  # nobody is seen as active: the owner was cleared a moment ago
        story.actors[subject] = Actor(story.work(verb, subject, 2))
    for is_one in order:
        story.move_if_there((one if is_one else other)[1])
    for _, subject in (one, other) if one_first else (other, one):
        while subject in story.actors:
            story.move_if_there(subject)
    story.finish()
    stands = story.commits()
    assert set(story.world.events) <= {(revision, range_id) for revision, range_id, *_ in stands}
    assert {offset for *_, start, end in stands for offset in range(start, end)} == set(range(5))
    if PERSON not in {one[1], other[1]}:
        assert len(stands) == 1
        assert sum(end - start for start, end in story.world.written.values()) == 5


def test_the_table_answers_every_question():
    questions = {(step, asker) for step in Step for asker in Asker}
    assert {state: set(answers) for state, answers in TABLE.items()} == dict.fromkeys(RangeState, questions)


def test_only_an_owner_starts_resumes_or_moves():
    does = {Action.START, Action.RESUME, Action.GIVE_REPORT, Action.MOVE, Action.EMIT_AGAIN}
    assert {asker for answers in TABLE.values() for (_, asker), answer in answers.items() if answer in does} == {
        Asker.OWNER
    }


@KEPT
def test_of_two_heirs_that_take_over_at_the_same_moment_one_goes_on(kept):
    story = left_open("resolve", kept)
    second, third = story.runs["d/b"], story.runs["d/c"]
    looks = []

    def race(what):
        looks.append(what)
        if what == "get ledger" and looks.count(what) == 2:
            second.resolve()

    story.world.active.update(RUNS[1:])
    with at(race), pytest.raises(LedgerChangedError):
        third.resolve()
    assert story.world.ledger.open.owner == second.name


def about_to_be_taken_over(kept=DictStore):
    """A world in which a range that is loaded is left open, and another run is about to write that it is its own."""
    story = left_open("load", kept)
    story.world.active.add("d/b")
    story.begin("resolve", "d/b", 1)
    heir = story.actors["d/b"]
    while heir.before not in {"set ledger", None}:
        heir.move()
    assert not heir.done, "a heir takes over before it does anything else"
    return story


def test_a_commit_that_lost_a_race_leaves_mirror_and_event_to_the_one_whose_ledger_stands():
    story = about_to_be_taken_over()
    world, owner = story.world, story.runs["d/a"]
    world.active.add(owner.name)  # cleared at the very moment at which another run takes its range over
    with pytest.raises(LedgerChangedError):
        owner.commit("range-1")
    assert (world.mirror.shown.revision, world.events) == (0, [])
    with pytest.raises(LifecycleError, match="d/b"):
        owner.commit("range-1")
    story.finish()
    assert [(revision, range_id) for revision, range_id, *_ in story.commits()] == [(1, "range-1")]


@KEPT
@pytest.mark.parametrize(
    "change",
    [
        lambda ledger: lifecycle.taken_over(ledger, "d/b"),
        lambda ledger: lifecycle.submitted(ledger, "elsewhere", "here"),
        lambda ledger: replace(ledger, revision=7),
    ],
    ids=["owner", "attempt", "revision"],
)
def test_a_commit_compares_owner_attempt_and_revision_immediately_before_it_moves(kept, change):
    story = left_open("load", kept)
    looks = []

    def meanwhile(what):
        looks.append(what)
        if what == "get ledger" and looks.count(what) == 2:  # where it compares
            story.world.store.put("ledger", json.loads(change(story.world.ledger).to_text()))

    with at(meanwhile), pytest.raises(LedgerChangedError):
        story.runs["d/a"].commit("range-1")
    assert looks.count("set ledger") == 0
    assert story.world.events == []
    assert story.world.ledger.open is not None


def test_a_heir_that_lost_a_race_to_a_commit_is_told_so_where_the_store_compares():
    story = about_to_be_taken_over(FolderStore)
    world, owner, taking_over = story.world, story.runs["d/a"], story.actors["d/b"]
    owner.commit("range-1")
    taking_over.finish()
    assert isinstance(taking_over.error, LedgerChangedError)
    assert (world.ledger.open, world.mirror.shown.revision, world.events) == (None, 1, [(1, "range-1")])


def test_a_run_that_was_killed_before_its_event_went_out_emits_it_when_it_is_cleared_as_a_whole():
    world = World(high=5)
    run = world.run("d/a")
    run.load(run.resolve())

    def die(what):
        if what == "emit the event":
            raise Killed

    with at(die), pytest.raises(Killed):
        run.commit("range-1")
    assert world.events == []
    run.whole()
    assert world.events == [(1, "range-1")]
    assert list(world.written) == ["range-1/0"]


def test_a_look_that_overlaps_a_commit_does_not_take_its_mirror_for_one_that_is_ahead():
    world = World(high=5)
    first, second = world.run("d/a"), world.run("d/b")
    first.load(first.resolve())

    def overlap(what):
        if what == "read the mirror" and not world.events:
            first.commit("range-1")

    with at(overlap), pytest.raises(Skipped, match="nothing"):
        second.resolve()
