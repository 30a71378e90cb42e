"""Intervals of a schedule in a zone with summer time, over both changes: no moment in none, and none in two."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from pendulum import instance

from airflow_provider_orderedkafka.context import interval_of

HOUR = 3_600_000


def intervals(expression, begin, count):
    """The first intervals that Airflow gives to the schedule's runs, as a load takes them."""
    timetable = CronDataIntervalTimetable(expression, timezone="Europe/Berlin")
    within, last = TimeRestriction(earliest=instance(begin), latest=None, catchup=True), None
    for _ in range(count):
        last = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=within).data_interval
        yield interval_of({"data_interval_start": last.start, "data_interval_end": last.end}, "orders")


@pytest.mark.parametrize("begin", [datetime(2026, 3, 27, tzinfo=UTC), datetime(2025, 10, 24, tzinfo=UTC)])
@pytest.mark.parametrize(
    ("expression", "lengths"), [("@hourly", {1}), ("0 0 * * *", {23, 24, 25}), ("30 2 * * *", {23, 24, 25})]
)
def test_intervals_follow_each_other_over_a_change_of_summer_time(begin, expression, lengths):
    found = list(intervals(expression, begin, 96 if expression == "@hourly" else 4))
    assert all(end == begin for (_, end), (begin, _) in pairwise(found))
    assert {(end - begin) / HOUR for begin, end in found} <= lengths


@pytest.mark.parametrize("begin", [datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2025, 10, 25, 22, tzinfo=UTC)])
def test_a_run_that_is_triggered_in_these_hours_has_an_interval_of_the_schedule(begin):
    timetable = CronDataIntervalTimetable("@hourly", timezone="Europe/Berlin")
    scheduled = set(intervals("@hourly", begin, 12))
    for minutes in range(90, 600, 15):
        after = instance(begin).add(minutes=minutes)
        found = timetable.infer_manual_data_interval(run_after=after)
        assert interval_of({"data_interval_start": found.start, "data_interval_end": found.end}, "orders") in scheduled
