"""Two runs by hand on one checkpoint at the same moment: what each is told, and what becomes of the ledger."""

from dataclasses import replace

import pytest
from support.memory_state import MemoryState
from support.runs import TOPICS, a_range, a_report, place

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.errors import LedgerChangedError
from airflow_provider_orderedkafka.loads.loading import load
from airflow_provider_orderedkafka.spark.application import by_hand

RANGE = a_range("range-1", 0, 0, 5, load=by_hand.BY_HAND)


@pytest.fixture
def runs():
    """Two runs, of which the first has planned a range, and the second has taken it over."""
    state, reports = MemoryState({}, "memory"), {}
    one, other = (replace(by_hand.books_of(state, lambda: 1, lambda _: state), report=reports.get) for _ in range(2))
    first = lifecycle.first_look(by_hand.BY_HAND, instance="i", home_dag=None, place=place(0), topics=TOPICS, now=0)
    one.store.save(first, None)
    one.store.add_range(RANGE)
    ours = lifecycle.opened(first, RANGE.id, one.run)
    one.store.save(ours, first)
    one.store.save(lifecycle.taken_over(ours, other.run), ours)
    return one, other, reports


def test_a_range_that_another_run_has_taken_over_is_not_begun(runs):
    one, other, _ = runs
    assert by_hand.begun(other, RANGE, "because")[0] == RANGE
    with pytest.raises(LedgerChangedError) as refused:
        by_hand.begun(one, RANGE, "because")
    assert refused.value.retryable
    assert one.store.ledger().open.attempt == 1


def test_a_range_that_another_run_has_loaded_meanwhile_is_nothing_to_do(runs):
    one, other, reports = runs
    todo = load(other, RANGE.id, lambda loaded, _: loaded.id)
    reports[todo.checkpoint] = a_report(RANGE, 1)
    by_hand.close(other, RANGE, by_hand.Alone())
    one.store.add_range(RANGE)
    assert by_hand.begun(one, RANGE, "because")[0] is None


@pytest.mark.parametrize("first", [0, 1])
def test_whoever_sees_the_range_loaded_moves_the_ledger_and_the_other_one_ends_well_too(runs, first):
    todo = load(runs[1], RANGE.id, lambda loaded, _: loaded.id)
    runs[2][todo.checkpoint] = a_report(RANGE, 1)
    for books in (runs[first], runs[1 - first]):
        by_hand.close(books, RANGE, by_hand.Alone())
    ledger = runs[0].store.ledger()
    assert (ledger.revision, ledger.open, len(ledger.outcomes)) == (1, None, 1)


def test_a_range_that_is_not_loaded_moves_no_ledger(runs):
    load(runs[1], RANGE.id, lambda loaded, _: loaded.id)
    with pytest.raises(LedgerChangedError):
        by_hand.close(runs[0], RANGE, by_hand.Alone())
    ledger = runs[0].store.ledger()
    assert (ledger.revision, ledger.open.owner) == (0, runs[1].run)
