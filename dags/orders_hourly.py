"""Orders by the hour: each run loads its data interval, so backfills work, in any order and in parallel.

Each hour is loaded once, by the schedule, a backfill or a person. An hour is refused if some of its records may have
been deleted before.

airflow backfill create --dag-id orders_hourly --from-date 2026-01-01 --to-date 2026-01-02 --max-active-runs 2
"""

from datetime import UTC, datetime

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_intervals

hourly = OrderedLoad("orders_hourly", topics=["orders"], grace="1m")

with DAG(
    "orders_hourly",
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=2,
    doc_md=__doc__,
    description="Orders by the hour, with backfills",
    tags=["orderedkafka", "load"],
):
    ordered_intervals(hourly, to=KafkaOutput("orders-hourly"))
