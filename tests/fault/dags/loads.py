"""The DAGs that the tests start: each has the name of its load, reads `<name>-in` and writes `<name>-out`.

Pools hold a run back where a test wants it: they are as large as the test makes them.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_orderedkafka import (
    Application,
    KafkaOutput,
    OrderedLoad,
    Rows,
    load_params,
    ordered_intervals,
    ordered_load,
    ordered_replay,
    replay_params,
)
from airflow_provider_orderedkafka.assets import watched_ledger_asset
from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator

OBEDIENT = Rows(application=Application("../apps/obedient.py"))


def load_of(name, **settings):
    return OrderedLoad(name, topics=[f"{name}-in"], start="earliest", grace="0s", **settings)


def in_pools(name):
    return {"load": {"pool": f"{name}-load"}, "commit": {"pool": f"{name}-commit"}}


with DAG("cleared", schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load_of("cleared"), to=KafkaOutput("cleared-out"), rows=OBEDIENT, tasks=in_pools("cleared"))

with DAG("inherited", schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load_of("inherited"), to=KafkaOutput("inherited-out"), rows=OBEDIENT)

retried = {"load": {"retries": 2, "retry_delay": timedelta(seconds=1)}}
for how in ("killed_task", "killed_worker"):
    with DAG(how, schedule=None, catchup=False, max_active_runs=1):
        ordered_load(load_of(how, batch_offsets=40), to=KafkaOutput(f"{how}-out"), tasks=retried)

with DAG("waiting", schedule=None, catchup=False, max_active_runs=1):
    waiting = load_of("waiting", min_offsets=1_000_000, max_delay="120s")
    ordered_load(waiting, to=KafkaOutput("waiting-out"), wait="always")

asked = load_of("asked", min_offsets=1_000_000)
every_minute = {"schedule": "* * * * *", "catchup": False, "max_active_runs": 1, "is_paused_upon_creation": True}
with DAG("asked", **every_minute, params=load_params()):
    ordered_load(asked, to=KafkaOutput("asked-out"), rows=OBEDIENT)

watched = load_of("watched", min_offsets=10)
schedule = [watched_ledger_asset(watched, poll_interval=1, backoff=timedelta(seconds=10))]
with DAG("watched", schedule=schedule, catchup=False, max_active_runs=1, is_paused_upon_creation=True):
    ordered_load(watched, to=KafkaOutput("watched-out"), rows=OBEDIENT, wait="never")

# Two runs at a time: the group would refuse that, so the tasks are wired by hand.
overlapping = load_of("overlapping")
with DAG("overlapping", schedule=None, catchup=False, max_active_runs=2):
    resolve = ResolveOffsetRangeOperator(task_id="resolve", load=overlapping, to=KafkaOutput("overlapping-out"))
    submit = SubmitOrderedLoadOperator(
        task_id="load", load=overlapping, range_id=resolve.output, pool="overlapping-load"
    )
    commit = CommitOffsetRangeOperator(task_id="commit", load=overlapping, range_id=resolve.output)
    resolve >> submit >> commit

with DAG(
    "hourly",
    schedule=CronDataIntervalTimetable("@hourly", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    end_date=datetime(2026, 1, 2, tzinfo=UTC),
    catchup=False,
    max_active_runs=2,
):
    ordered_intervals(load_of("hourly"), to=KafkaOutput("hourly-out"), on_clear="reload")

with DAG(
    "form", schedule=None, catchup=False, params=replay_params("form-out", taken=["form-taken"], formats=["topic"])
):
    ordered_replay(
        OrderedLoad("form", topics=["form-in"]),
        to=KafkaOutput("{{ params.target }}"),
        start="{{ params.start }}",
        end="{{ params.end }}",
        row_limit="{{ params.row_limit or '' }}",
        dry_run="{{ params.dry_run }}",
    )
