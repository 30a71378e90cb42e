"""Ranges, reports and lags as people read them; and the documents about metrics."""

import json
import re
from dataclasses import replace
from pathlib import Path

from support.messages import says
from support.runs import a_range, a_report

from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Lag
from airflow_provider_orderedkafka.loads.books import in_numbers, in_words
from airflow_provider_orderedkafka.reporting import metrics

DOCS = Path(__file__).parents[2] / "docs"
NOON = 1_769_860_800_000


def place(time, **offsets):
    found = {TopicPartition(topic, n): offset for topic, each in offsets.items() for n, offset in enumerate(each)}
    return Place(Offsets(found), Floor(time))


def test_a_range_is_told_from_and_to_by_partition_with_its_times_in_utc():
    start, end = place(NOON, orders=[1_000, 7], refunds=[0]), place(NOON + 1, orders=[3_500, 7], refunds=[9])
    loaded = replace(a_range("orders-1", 0, 0, 1), start=start, end=end, planned_at=NOON + 60_000)
    assert in_words(loaded).splitlines() == [
        "range orders-1: 2,509 offsets in 2 of 3 partitions",
        "  planned at  2026-01-31T12:01:00.000Z",
        "  times       2026-01-31T12:00:00.000Z to 2026-01-31T12:00:00.001Z",
        "  orders[0]  1,000 to 3,500: 2,500 offsets",
        "  refunds[0]  0 to 9: 9 offsets",
    ]


def test_a_range_of_many_partitions_stays_short():
    start, end = place(-1, orders=[0] * 100), place(-1, orders=[1] * 100)
    lines = in_words(replace(a_range("orders-1", 0, 0, 1), start=start, end=end)).splitlines()
    assert lines[2] == "  times       the beginning to its end"
    assert (len(lines), lines[-1]) == (24, "  and 80 more partitions")


def test_a_report_is_told_in_numbers():
    report = replace(a_report(a_range("r", 0, 0, 12_000), 2), late=7, started_at=0, ended_at=83_000)
    said = "12,000 rows read, 12,000 written, 7 late, no dead letters, in 1m23s by attempt 2"
    assert in_numbers(report) == said
    doubtful = replace(report, dead_letters=1, may_be_doubled=3)
    assert says(in_numbers(doubtful), ", 7 late, 1 ... , 3 ... doubled, ")


def test_a_lag_says_how_much_is_left_and_how_old_it_is_at_most():
    here = place(NOON, orders=[5])
    assert str(Lag.of(here, 0, NOON + 5_000)) == "nothing is left"
    assert str(Lag.of(here, 1_200, NOON + 65_000)) == "1,200 offsets left, from the last 1m5s"
    assert Lag.of(here, 0, NOON + 5_000).age == 0
    assert str(Lag.of(place(-1, orders=[5]), 3, NOON)) == "3 offsets left"


def test_the_dashboard_and_the_documentation_name_the_metrics_that_are_sent():
    sent = {*metrics.COUNTS, "waiting_offsets", "lag_offsets", "lag_seconds", "planned_offsets"}
    sent |= {f"partition_lag_{name}" for name in ("min", "max", "avg")}
    sent |= {"attempts", "commits", "duration"}
    page, dashboard = (DOCS / "metrics.md").read_text(), (DOCS / "grafana.json").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \| (?:gauge|counter|timer) ", page, re.MULTILINE))
    asked = {name.removesuffix("_sum").removesuffix("_count") for name in re.findall(r"orderedkafka_(\w+)", dashboard)}
    assert listed == asked == sent
    assert set(re.findall(r"orderedkafka_(\w+)", page)) <= sent
    assert json.loads(dashboard)["panels"]
