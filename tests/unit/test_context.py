"""What a task's context is asked for."""

from types import SimpleNamespace

import pytest

from airflow_provider_orderedkafka.context import interval_of, refuse_backfill
from airflow_provider_orderedkafka.errors import SettingError


def run_of_type(kind):
    return {"dag_run": SimpleNamespace(run_type=kind)}


def test_a_backfill_of_an_incremental_load_is_refused_and_nothing_else_is():
    from airflow.utils.types import DagRunType

    for kind in set(DagRunType) - {DagRunType.BACKFILL_JOB}:
        refuse_backfill(run_of_type(kind), "orders")
    with pytest.raises(SettingError, match=r"'orders' is incremental, and this run is a backfill's.*ledger rewind"):
        refuse_backfill(run_of_type(DagRunType.BACKFILL_JOB), "orders")


def test_a_run_without_an_interval_says_what_to_schedule_it_with():
    with pytest.raises(SettingError, match=r"mode='interval', and this run has no data interval.*CronDataInterval"):
        interval_of({}, "orders")
