"""A document that is too long for one value of a store: it is replaced whole, and nothing is made of half of it."""

from dataclasses import replace

import pytest
from support.documents import LEDGER, PART
from support.keeping import Values
from support.runs import MirrorByHand

from airflow_provider_orderedkafka.errors import DocumentError, LedgerChangedError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.ledger_operations import Person, restore
from airflow_provider_orderedkafka.outputs import KafkaOutput

NEXT = replace(LEDGER, revision=LEDGER.revision + 1)


@pytest.fixture
def values():
    return Values()


@pytest.fixture
def store(values):
    found = LedgerStore(LEDGER.load, values, settle=lambda: None, part=PART)
    found.save(LEDGER, None)
    return found


def test_a_document_that_is_replaced_leaves_no_part_behind(store, values):
    before = set(values)
    store.save(NEXT, LEDGER)
    assert store.ledger() == NEXT
    assert set(values) - before
    assert {"ledger", *values["ledger"]["parts"]} == set(values)


def test_a_list_of_jobs_leaves_no_part_behind_either(store, values):
    before = set(values)
    for number in range(3 * PART // 16):
        store.add_job(Job(KafkaOutput(f"orders-{number}")))
    left = {key for key in set(values) - before if not key.startswith("job/")}
    assert {"jobs", *values["jobs"]["parts"]} == left


def test_one_that_another_step_has_replaced_stays_with_all_its_parts(store, values):
    store.save(NEXT, LEDGER)
    kept = dict(values)
    with pytest.raises(LedgerChangedError):
        store.save(replace(NEXT, rows_emitted=0), LEDGER)
    assert dict(values) == kept


def test_one_whose_part_is_missing_is_damaged_and_is_not_replaced(store, values):
    del values[values["ledger"]["parts"][-1]]
    kept = dict(values)
    with pytest.raises(DocumentError, match=f"orderedkafka ledger restore {LEDGER.load}"):
        store.ledger()
    for before in (None, LEDGER):
        with pytest.raises(DocumentError):
            store.save(NEXT, before)
    assert dict(values) == kept


def test_a_damaged_ledger_is_restored_from_its_mirror_as_a_lost_one_is(store, values):
    mirror, person = MirrorByHand(), Person("a person", "because", 1, lambda _: False)
    mirror.write(LEDGER)
    del values[values["ledger"]["parts"][-1]]
    restored = restore(store, mirror, person, mirror.shown, LEDGER.topics)
    assert (restored.revision, restored.place) == (LEDGER.revision + 1, LEDGER.place)
    assert store.ledger() == restored
