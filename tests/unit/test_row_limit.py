"""What the row limit leaves from run to run, as the ledger and its mirror know it."""

from dataclasses import replace

import pytest
from support.runs import LOAD, TOPICS, MirrorByHand, World, a_person, a_range, a_report, place

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.next_range import limit_reached, rows_left
from airflow_provider_orderedkafka.loads import ledger_operations


@pytest.fixture
def ledger():
    """Behind a run that wrote ten rows and ten dead letters."""
    fresh = lifecycle.first_look(LOAD, instance="one", home_dag="d", place=place(0), topics=TOPICS, now=0)
    loaded = a_range("r", 0, 0, 20)
    report = replace(a_report(loaded, 1), rows_emitted=10, dead_letters=10)
    return lifecycle.committed(lifecycle.opened(fresh, "r", "d/a"), loaded, report, "d/a", 1)


def test_dead_letters_count_from_run_to_run(ledger):
    assert (ledger.rows_emitted, ledger.dead_letters, ledger.rows) == (10, 10, 20)
    assert [rows_left(limit, ledger.rows) for limit in (None, 5, 20, 25)] == [None, 0, 0, 5]


def test_the_sentence_of_a_spent_limit_says_where_its_rows_went(ledger):
    said = "the row limit of 20 rows is reached: 10 were written and 10 became dead letters; raise it to go on"
    assert limit_reached(ledger, 20) == said
    assert (limit_reached(ledger, 21), limit_reached(ledger, None)) == (None, None)
    clean = replace(ledger, rows_emitted=20, dead_letters=0)
    assert limit_reached(clean, 20) == "the row limit of 20 rows is reached: 20 were written; raise it to go on"


def test_a_ledger_restored_from_its_mirror_knows_the_dead_letters(ledger):
    world, mirror = World(), MirrorByHand()
    mirror.write(ledger)
    restored = ledger_operations.restore(world.ledger_store, mirror, a_person(world), mirror.shown, ledger.topics)
    assert (restored.rows_emitted, restored.dead_letters) == (10, 10)
