"""Who loads an interval: of all runs that are asked for the same times, one."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.interleaving import Actor, Killed, at, write_what_was_compared
from support.keeping import DictStore, FolderStore, Values
from support.runs import LOAD, MirrorByHand, World, a_range, a_report

from airflow_provider_orderedkafka.core.documents import OUTCOMES_KEPT, Claims, Times
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.order.cuts import Floor
from airflow_provider_orderedkafka.errors import LedgerChangedError, LifecycleError
from airflow_provider_orderedkafka.loads import ledger, loading, resolving

HOUR = 1_000
SCHEDULED, MANUAL = "d/scheduled", "d/manual"


@pytest.fixture(params=[DictStore, FolderStore], ids=["in Airflow", "in a folder"])
def kept_in(request):
    """Where the ledger is kept."""
    return request.param


@pytest.fixture
def world(kept_in):
    return World(kept_in())


def times_of(hour, hours=1):
    return Times(hour * HOUR, (hour + hours) * HOUR)


def an_interval(range_id, hour, hours=1):
    planned, times = a_range(range_id, 0, hour * 10, (hour + hours) * 10), times_of(hour, hours)
    start, end = replace(planned.start, floor=Floor(times.begin)), replace(planned.end, floor=Floor(times.end))
    return replace(planned, kind="interval", start=start, end=end)


def resolved(world, run, hour, hours=1, *, again=False):
    books = world.run(run).books
    memory = world.memories.setdefault(run, Values())
    planned = an_interval(f"of-{run.rpartition('/')[2]}-{hour}", hour, hours)
    return resolving.resolve_interval(books, lambda: planned, times_of(hour, hours), again=again, memory=memory)


def loaded(world, run, range_id):
    books = world.run(run).books
    todo = loading.load(books, range_id, lambda loaded, times: f"{loaded.id}/{times}")
    if todo.action in {Action.START, Action.RESUME}:
        world.reports[todo.checkpoint] = a_report(todo.range, todo.attempt)
    return todo.action


def whole(world, run, hour, hours=1, *, again=False):
    """All steps of a run; what its load did."""
    found = resolved(world, run, hour, hours, again=again)
    if found.range is None:
        return found.action
    does = loaded(world, run, found.range.id)
    loading.commit(world.run(run).books, found.range.id, MirrorByHand())
    world.active.discard(run)
    return does


def test_what_a_range_left_is_where_it_was_loaded_when_it_was_committed_last(world):
    name, books = "of-scheduled-3", world.run(SCHEDULED).books
    for times in range(3):
        whole(world, SCHEDULED, 3, again=times > 0)
        assert loading.committed_at(books, "/root", name) == loading.place_of("/root", name, times)
    resolved(world, SCHEDULED, 3, again=True)
    assert loading.committed_at(books, "/root", name) == loading.place_of("/root", name, 2)
    loaded(world, SCHEDULED, name)
    assert loading.committed_at(books, "/root", name) == f"{name}/3"


def test_a_range_is_loaded_in_a_folder_of_its_own_however_often_it_is_loaded_again(world):
    whole(world, SCHEDULED, 3)
    store, key = world.ledger_store, resolving.claim_key(LOAD, "interval", (3 * HOUR, 4 * HOUR))
    once = store.claim(key)
    store.save(replace(once, outcomes=once.outcomes * OUTCOMES_KEPT), once, key)
    for times in range(OUTCOMES_KEPT, OUTCOMES_KEPT + 3):
        assert whole(world, SCHEDULED, 3, again=True) is Action.START
        found = loading.committed_at(world.run(SCHEDULED).books, "/root", "of-scheduled-3")
        assert found == loading.place_of("/root", "of-scheduled-3", times)


def test_an_interval_is_loaded_by_one_of_the_runs_that_are_asked_for_its_times(world):
    assert resolved(world, SCHEDULED, 3).action is Action.PLAN
    assert resolved(world, MANUAL, 3).action is Action.SKIP
    assert resolved(world, SCHEDULED, 3).action is Action.KEEP
    assert whole(world, SCHEDULED, 3) is Action.START
    assert whole(world, MANUAL, 3) is Action.SKIP
    assert whole(world, SCHEDULED, 3) is Action.SKIP
    assert whole(world, MANUAL, 4) is Action.START


def test_a_run_takes_over_an_interval_that_an_ended_run_left_open(world):
    ours = resolved(world, SCHEDULED, 3).range
    loading.load(world.run(SCHEDULED).books, ours.id, lambda loaded, times: "there")
    world.active.clear()
    found = resolved(world, MANUAL, 3)
    assert (found.action, found.range) == (Action.TAKE_OVER, ours)
    assert loading.load(world.run(SCHEDULED).books, ours.id, lambda *_: "").action is Action.REFUSE
    todo = loading.load(world.run(MANUAL).books, ours.id, lambda *_: "")
    assert (todo.action, todo.attempt, todo.checkpoint) == (Action.RESUME, 2, "there")


@pytest.mark.parametrize("moment", range(1, 24))
def test_two_runs_that_claim_an_interval_at_the_same_moment_load_it_once(world, moment):
    looks, did = [], []

    def meanwhile(what):
        looks.append(what)
        if len(looks) == moment:
            did.append(resolved(world, MANUAL, 3))

    mine = []
    with at(meanwhile):
        try:
            mine.append(resolved(world, SCHEDULED, 3))
        except LedgerChangedError:
            mine.append(resolved(world, SCHEDULED, 3))
    runs = [(SCHEDULED, each) for each in mine] + [(MANUAL, each) for each in did]
    begun = [loaded(world, run, found.range.id) for run, found in runs if found.range is not None]
    assert begun.count(Action.START) == 1


@pytest.mark.parametrize(("one", "other"), [((3, 2), (4, 2)), ((3, 1), (3, 3)), ((3, 3), (4, 1))])
def test_of_two_runs_that_claim_times_which_overlap_at_the_same_moment_one_loads(kept_in, one, other):
    for moment in range(200):
        outcomes, cut_in = claim_both(kept_in(), one, other, moment)
        assert outcomes.count(Action.START) == 1, moment
        if not cut_in:
            return
    raise AssertionError("it never ended")


def test_all_open_ranges_are_known_where_two_runs_open_theirs_at_the_same_moment(kept_in):
    for moment in range(200):
        store = kept_in()
        _, cut_in = claim_both(store, (3, 1), (7, 1), moment)
        assert len(World(store).ledger_store.open_ranges()) == 2, moment
        if not cut_in:
            return
    raise AssertionError("it never ended")


def claim_both(store, one, other, moment):
    """What two runs do of which the second cuts in after as many touches of the first, and whether it did cut in."""
    outcomes = []
    world = World(store, settle=lambda: write_what_was_compared(first))
    first = Actor(lambda: outcomes.append(done(world, SCHEDULED, *one)))
    second = Actor(lambda: outcomes.append(done(world, MANUAL, *other)))
    for _ in range(moment):
        first.move()
    cut_in = not first.done
    second.finish()
    first.finish()
    return outcomes, cut_in


def done(world, run, hour, hours):
    """What the load of a run does, which begins once more where another step wrote at the same moment."""
    try:
        with suppress(LedgerChangedError):
            resolved(world, run, hour, hours)
        found = resolved(world, run, hour, hours)
        return found.action if found.range is None else loaded(world, run, found.range.id)
    except LifecycleError:
        return Action.REFUSE


def test_a_claim_that_is_cut_off_at_any_moment_is_gone_on_with_by_another_run(kept_in):
    for moment in range(200):
        world, left = World(kept_in()), moment

        def die(what):
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        try:
            with at(die):
                resolved(world, SCHEDULED, 3)
        except Killed:
            world.active.clear()
            assert whole(world, MANUAL, 3) is Action.START
            assert whole(world, SCHEDULED, 3) is Action.SKIP
            assert world.ledger_store.intervals().spans == (times_of(3),)
        else:
            return
    raise AssertionError("it never ended")


def test_only_the_run_that_loaded_an_interval_loads_it_once_more(world):
    assert whole(world, SCHEDULED, 3, again=True) is Action.START
    assert whole(world, MANUAL, 3, again=True) is Action.SKIP
    assert resolved(world, SCHEDULED, 3, again=True).times == 1
    assert resolved(world, MANUAL, 3, again=True).action is Action.SKIP
    assert resolved(world, SCHEDULED, 3, again=True).action is Action.KEEP
    assert whole(world, SCHEDULED, 3, again=True) is Action.START


def test_two_dags_do_not_load_intervals_under_the_same_name(world):
    assert whole(world, SCHEDULED, 3) is Action.START
    with pytest.raises(LifecycleError, match="'d'"):
        resolved(world, "another/scheduled", 3)


def test_intervals_with_other_times_load_nothing_twice(world):
    for hour in (3, 4):
        assert whole(world, f"d/{hour}", hour) is Action.START
    assert whole(world, "d/both", 3, hours=2) is Action.SKIP
    with pytest.raises(LifecycleError, match="replay"):
        resolved(world, "d/more", 4, hours=2)
    assert whole(world, "d/5", 5) is Action.START


@given(st.data())
def test_whatever_runs_do_in_whatever_order_an_hour_is_loaded_under_one_range(data):
    world, begun = World(data.draw(st.sampled_from([DictStore, FolderStore]))()), {}
    runs, hours = st.sampled_from([SCHEDULED, MANUAL, "d/backfill"]), st.integers(0, 2)

    def load(run, hour, *, dies):
        found = resolved(world, run, hour)
        if found.range is None or found.action is Action.EMIT_AGAIN:
            return
        todo = loading.load(world.run(run).books, found.range.id, lambda loaded, times: f"{loaded.id}/{times}")
        if todo.action in {Action.START, Action.RESUME}:
            begun.setdefault(hour, set()).add(todo.checkpoint)
        if not dies:
            world.reports.setdefault(todo.checkpoint, a_report(found.range, todo.attempt))
            loading.commit(world.run(run).books, found.range.id, MirrorByHand())

    for run, hour, dies, ends in data.draw(st.lists(st.tuples(runs, hours, st.booleans(), st.booleans()), max_size=12)):
        load(run, hour, dies=dies)
        if ends:
            world.active.discard(run)
    for hour in range(3):
        world.active.clear()
        load("d/last", hour, dies=False)
        assert resolved(world, MANUAL, hour).action in {Action.SKIP, Action.EMIT_AGAIN}
    assert {hour: len(checkpoints) for hour, checkpoints in begun.items()} == dict.fromkeys(range(3), 1)


@pytest.fixture
def two_are_kept(monkeypatch):
    for module in (loading, ledger):
        monkeypatch.setattr(module, "CLAIMS_KEPT", 2)


def test_what_was_forgotten_is_not_loaded_a_second_time(world, two_are_kept):
    for hour in range(6):
        assert whole(world, f"d/{hour}", hour) is Action.START
    assert [len(world.ledger_store.claim(key).outcomes) for key in claims(world)] == [1, 1]
    assert [whole(world, MANUAL, hour) for hour in range(6)] == [Action.SKIP] * 6
    with pytest.raises(LifecycleError, match="replay"):
        resolved(world, "d/0", 0, again=True)


def claims(world):
    return Claims.from_value(world.store.values["claims"]).keys
