"""What a failed task says: why, whether a retry helps, and after some attempts what a person may do."""

from dataclasses import replace

import pytest
from support.runs import a_range, a_report

from airflow_provider_orderedkafka.core.lifecycle import Action, way_out
from airflow_provider_orderedkafka.loads.loading import Loading
from airflow_provider_orderedkafka.operators.submit import explained

OUTPUT = "26/11/20 INFO something of Spark's\nordered_replay.py: Kafka did not answer\n26/11/20 INFO more"


def failed(attempt, *, kind="incremental", code=75, reported=False):
    loaded = replace(a_range("range-1", 0, 0, 5), kind=kind)
    report = a_report(loaded, attempt, complete=False) if reported else None
    todo = Loading(Action.RESUME, "because", loaded, attempt, "/checkpoint")
    return explained(OUTPUT, code, todo, report)


def test_the_applications_own_words_are_the_reason_and_its_reports_where_it_left_one():
    assert str(failed(1)) == (
        "attempt 1 of range 'range-1' ended with exit code 75: ordered_replay.py: Kafka did not answer"
    )
    assert str(failed(1, reported=True)).endswith("exit code 75: killed")


@pytest.mark.parametrize("kind", ["incremental", "interval", "replay"])
def test_after_three_attempts_it_names_the_ways_out_of_its_kind_of_range(kind):
    ways = way_out(replace(a_range("range-1", 0, 0, 5), kind=kind))
    assert ways not in str(failed(2, kind=kind))
    assert str(failed(3, kind=kind)).endswith(ways)
