"""What a task's context is asked for."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from support.messages import naming

from airflow_provider_orderedkafka.context import interval_of, is_by_hand, refuse_backfill
from airflow_provider_orderedkafka.errors import SettingError


def run_of_type(kind):
    return {"dag_run": SimpleNamespace(run_type=kind)}


def test_a_backfill_of_an_incremental_load_is_refused_and_nothing_else_is():
    from airflow.utils.types import DagRunType

    for kind in set(DagRunType) - {DagRunType.BACKFILL_JOB}:
        refuse_backfill(run_of_type(kind), "orders")
    with pytest.raises(SettingError, match="ledger rewind"):
        refuse_backfill(run_of_type(DagRunType.BACKFILL_JOB), "orders")


def test_a_person_an_api_and_another_dag_start_runs_by_hand_and_schedules_and_assets_do_not():
    from airflow.utils.types import DagRunType

    assert {kind.value for kind in DagRunType if is_by_hand(run_of_type(kind))} == {
        "manual",
        "operator_triggered",
        "asset_materialization",
    }
    assert not is_by_hand({})


NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        (None, None, "--logical-date"),
        (NOW, NOW, "CronDataIntervalTimetable"),
        (NOW + HOUR, NOW + 2 * HOUR, str(NOW + HOUR)),
    ],
    ids=["none", "empty", "not over"],
)
def test_a_run_whose_interval_cannot_be_loaded_says_how_it_can(begin, end, said):
    with pytest.raises(SettingError, match=naming(said)):
        interval_of({"data_interval_start": begin, "data_interval_end": end}, "orders")


def test_an_interval_that_is_not_over_is_waited_for():
    begin, end = interval_of({"data_interval_start": NOW - HOUR, "data_interval_end": NOW + HOUR}, "orders")
    assert end - begin == 7_200_000
