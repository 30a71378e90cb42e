"""Two Airflows that reach one ledger, perhaps with the same DAGs: a run belongs to its own."""

import pytest
from support.keeping import DictStore, FolderStore, Values
from support.runs import World, a_range, abandon

from airflow_provider_orderedkafka.core.lifecycle import Action, is_same, parted
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads import books, loading, resolving

HERE, THERE = "0123456789ab", "cdef01234567"
RUN = "d/scheduled__2026-01-01T12:00:00+00:00"


@pytest.fixture(params=[DictStore, FolderStore], ids=["in Airflow", "in a folder"])
def world(request):
    return World(request.param(), high=5)


def test_a_run_is_known_with_the_id_of_its_airflow_and_by_its_name_alone_where_that_was_not_written():
    assert parted(f"{RUN}@{HERE}") == (RUN, HERE)
    assert parted(RUN) == (RUN, "")
    assert parted("d/by@hand") == ("d/by@hand", "")
    assert is_same(f"{RUN}@{HERE}", f"{RUN}@{HERE}")
    assert is_same(RUN, f"{RUN}@{HERE}")
    assert not is_same(f"{RUN}@{THERE}", f"{RUN}@{HERE}")
    assert not is_same("d/another", f"{RUN}@{HERE}")


@pytest.mark.parametrize("active", [True, False], ids=["active", "of which nothing is known"])
@pytest.mark.parametrize("run", [RUN, "d/another"])
def test_what_a_run_of_another_airflow_has_open_is_refused_and_not_taken_over(world, run, active):
    theirs, ours = world.run(f"{RUN}@{THERE}"), world.run(f"{run}@{HERE}")
    opened = theirs.resolve()
    theirs.load(opened)
    if not active:
        theirs.end()
    for step in (
        ours.resolve,
        lambda: ours.load(opened),
        lambda: ours.commit(opened),
        lambda: books.wait(ours.books, world.ledger, None),
    ):
        with pytest.raises(LifecycleError, match=THERE):
            step()
    assert world.ledger.open.owner == theirs.name


def test_a_run_that_committed_in_another_airflow_is_not_taken_for_the_one_of_the_same_name_here(world):
    world.run(f"{RUN}@{THERE}").whole()
    ours = world.run(f"{RUN}@{HERE}")
    assert books.wait(ours.books, world.ledger, None) is None
    world.high = 9
    ours.whole()
    assert (world.ledger.revision, world.ledger.outcomes[-1].by) == (2, ours.name)


def test_after_a_person_has_given_up_what_another_airflow_left_open_this_one_goes_on(world):
    theirs = world.run(f"{RUN}@{THERE}")
    theirs.resolve()
    theirs.end()
    abandon(world)
    ours = world.run(f"{RUN}@{HERE}")
    ours.whole()
    assert world.ledger.outcomes[-1].by == ours.name


def test_a_run_goes_on_with_what_it_opened_before_its_airflow_had_an_id(world):
    before, after = world.run(RUN), world.run(f"{RUN}@{HERE}")
    opened = before.resolve()
    before.load(opened)
    assert after.resolve() == opened
    after.commit(opened)
    assert world.ledger.revision == 1
    assert books.wait(after.books, world.ledger, None).run


def test_a_replay_that_was_claimed_before_its_airflow_had_an_id_is_not_planned_anew(world):
    memory = Values()
    key = resolving.replay_key(world.run(RUN).books, memory, "earliest", "latest")
    planned = a_range("r1", 0, 0, 5)
    resolving.resolve_own(world.run(RUN).books, lambda: planned, key, again=False, memory=memory)
    ours = world.run(f"{RUN}@{HERE}").books
    assert resolving.replay_key(ours, Values(), "earliest", "latest") == key
    assert resolving.replay_key(ours, Values(), "-1h", "latest") != key
    found = resolving.resolve_own(ours, lambda: planned, key, again=False, memory=memory)
    assert (found.action, found.range.id) == (Action.KEEP, "r1")
    assert loading.load(ours, "r1", lambda *_: "there").action is Action.START
