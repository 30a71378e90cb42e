"""What reaches into Airflow, tried on the Airflow that is installed; the rest of it is tried by DAG runs."""

import os

import pytest
from airflow.sdk import DAG, TaskGroup
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.timetables.trigger import CronTriggerTimetable

from airflow_provider_orderedkafka.compat.airflow import (
    PROCESS_CONTEXT,
    has_data_intervals,
    kept_elsewhere,
    mapped_group,
    server_context,
    to_keep,
)


@pytest.mark.parametrize("before", [None, "client"])
def test_the_context_of_a_server_ends_with_the_work(monkeypatch, before):
    monkeypatch.delenv(PROCESS_CONTEXT, raising=False)
    if before:
        monkeypatch.setenv(PROCESS_CONTEXT, before)
    with server_context():
        assert os.environ[PROCESS_CONTEXT] == "server"
    assert os.environ.get(PROCESS_CONTEXT) == before


@pytest.fixture
def worker_backend(state_stores, monkeypatch, tmp_path):
    """Airflow's own backend of workers: what tasks put into their state lies in files."""
    from airflow.providers.common.io.state_store import backend
    from airflow.sdk.execution_time import context

    name = "airflow.providers.common.io.state_store.backend.StateStoreObjectStorageBackend"
    caches = [backend._get_base_path, context._get_worker_state_store_backend]
    monkeypatch.setenv("AIRFLOW__WORKERS__STATE_STORE_BACKEND", name)
    monkeypatch.setenv("AIRFLOW__COMMON_IO__STATE_STORE_OBJECTSTORAGE_PATH", tmp_path.as_uri())
    for each in caches:
        each.cache_clear()
    yield tmp_path
    for each in caches:
        each.cache_clear()


def test_a_value_that_the_worker_s_backend_keeps_is_put_there_and_found_there(worker_backend):
    from airflow.sdk.state import AssetScope

    reference = to_keep({"revision": 1}, "ledger", AssetScope(name="orders", uri="orders://x"))
    assert reference != {"revision": 1}
    assert any(path.is_file() for path in worker_backend.rglob("*"))
    assert kept_elsewhere(reference) == {"revision": 1}
    assert kept_elsewhere({"revision": 2}) == {"revision": 2}


def test_without_such_a_backend_a_value_is_what_the_database_has(state_stores):
    assert to_keep({"revision": 1}, "ledger", None) == {"revision": 1}
    assert kept_elsewhere({"revision": 1}) == {"revision": 1}


@pytest.mark.parametrize(
    ("schedule", "has"),
    [
        (CronDataIntervalTimetable("@hourly", timezone="UTC"), True),
        (CronTriggerTimetable("@hourly", timezone="UTC"), False),
        (None, False),
        ("@once", False),
        ("@continuous", False),
    ],
)
def test_a_schedule_has_data_intervals_or_not(schedule, has):
    runs = {"max_active_runs": 1} if schedule == "@continuous" else {}
    assert has_data_intervals(DAG("timed", schedule=schedule, **runs).timetable) is has


def test_a_group_in_no_mapped_one_is_not_mapped():
    with DAG("grouped", schedule=None), TaskGroup("outer"), TaskGroup("within") as group:
        assert mapped_group(group) is None
