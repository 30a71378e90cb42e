"""What a ledger is moved by: the whole report of its open range, which was planned where the ledger stands."""

from dataclasses import replace

import pytest
from support.interleaving import Killed
from support.keeping import FolderStore
from support.messages import naming
from support.runs import LOAD, PARTITION, TOPICS, World, a_range, a_report, place, rewind

from airflow_provider_orderedkafka.core.batches import Overtaken
from airflow_provider_orderedkafka.core.lifecycle import (
    Action,
    RangeState,
    Step,
    action,
    asker,
    committed,
    first_look,
    opened,
    status_of,
    submitted,
)
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.loads.loading import late_report
from airflow_provider_orderedkafka.locations import read_report
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState

PLANNED = a_range("range-1", revision=0, start=3, end=9)
REPORT = a_report(PLANNED, attempt=1)
LATER = replace(PLANNED, ledger_revision=4)


@pytest.fixture
def ledger():
    first = first_look(LOAD, instance="i", home_dag="d", place=place(3), topics=TOPICS, now=0)
    return submitted(opened(first, "range-1", "d/a"), "file:///c", "here")


def test_a_commit_moves_to_where_the_application_stopped_with_the_floor_of_what_follows(ledger):
    stop = Place(Offsets({PARTITION: 7}), Floor(40, PARTITION))
    after = committed(ledger, PLANNED, replace(REPORT, stop=stop), "d/a", now=5)
    assert (after.place, after.revision, after.open) == (stop, 1, None)


@pytest.mark.parametrize(
    ("planned", "report", "said"),
    [
        (LATER, a_report(LATER, attempt=1), "revision 4"),
        (PLANNED, replace(REPORT, complete=False), "attempt 1"),
        (PLANNED, replace(REPORT, range_id="range-2"), "'range-2'"),
        (PLANNED, replace(REPORT, stop=place(2)), "orders[0]@2"),
        (PLANNED, replace(REPORT, stop=place(10)), "orders[0]@10"),
    ],
    ids=["revision", "completeness", "range", "before", "behind"],
)
def test_what_does_not_fit_the_open_range_moves_nothing(ledger, planned, report, said):
    with pytest.raises(LifecycleError, match=naming(said)):
        committed(ledger, planned, report, "d/a", now=5)


@pytest.mark.parametrize(("active", "does"), [(True, Action.SKIP), (False, Action.TAKE_OVER)])
def test_a_range_is_taken_over_only_from_a_run_that_has_ended(ledger, active, does):
    found = status_of(ledger, "range-1")
    assert action(found, Step.RESOLVE, asker(found, "d/b", owner_active=active)) is does


def test_the_report_of_an_attempt_that_stopped_early_is_no_proof():
    world = World(high=5)
    run = world.run("d/a")
    with pytest.raises(Killed):
        run.load(run.resolve(), die=True)
    assert world.reports["range-1/0"].complete is False
    assert run.books.status(world.ledger, "range-1").state is RangeState.SUBMITTED


@pytest.mark.parametrize(("rows", "more"), [(2, 2), (None, 6)])
def test_what_an_overtaken_attempt_left_after_the_commit_is_heard_once_and_kept_in_the_outcome(tmp_path, rows, more):
    world, left = World(FolderStore(), high=6), Checkpoint(LocalState(tmp_path / "range-1"))
    world.run("d/a").whole()
    left.put_report(next(iter(world.reports.values())))
    [before], books = world.ledger.outcomes, replace(world.run("d/b").books, report=read_report)

    def heard():
        return late_report(books, world.ledger, lambda name: str(tmp_path / name))

    assert heard() is None
    left.put_overtaken(Overtaken(1, 1, rows))
    rewind(world, 3)
    found = heard()
    assert (found.ledger, found.more, found.outcome) == (world.ledger, more, before)
    assert world.ledger.outcomes[0] == replace(before, may_be_doubled=more)
    assert world.ledger.revision == 2
    assert heard() is None
