"""The DAGs that the tests start: each has the name of its load, reads `<name>-in` and writes `<name>-out`.

Pools hold a run back where a test wants it: they are as large as the test makes them.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.assets import watched_ledger_asset
from airflow_provider_orderedkafka.dag import ordered_load
from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator
from airflow_provider_orderedkafka.operators.resolve import ResolveOffsetRangeOperator
from airflow_provider_orderedkafka.operators.submit import SubmitOrderedLoadOperator
from airflow_provider_orderedkafka.parsing import check_form

OBEDIENT = "../apps/obedient.py"


def load_of(name, **settings):
    return OrderedLoad(name, topics=[f"{name}-in"], start="earliest", grace="0s", **settings)


def in_pools(name):
    return {"load": {"pool": f"{name}-load"}, "commit": {"pool": f"{name}-commit"}}


with DAG("cleared", schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load_of("cleared"), output_topic="cleared-out", application=OBEDIENT, steps=in_pools("cleared"))

with DAG("inherited", schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load_of("inherited"), output_topic="inherited-out", application=OBEDIENT)

retried = {"load": {"retries": 2, "retry_delay": timedelta(seconds=1)}}
for how in ("killed_task", "killed_worker"):
    with DAG(how, schedule=None, catchup=False, max_active_runs=1):
        ordered_load(load_of(how, batch_offsets=40), output_topic=f"{how}-out", steps=retried)

with DAG("waiting", schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load_of("waiting", min_offsets=1_000_000, max_delay="30s"), output_topic="waiting-out")

watched = load_of("watched", min_offsets=10)
schedule = [watched_ledger_asset(watched, poll_interval=1, backoff=timedelta(seconds=10))]
with DAG("watched", schedule=schedule, catchup=False, max_active_runs=1, is_paused_upon_creation=True):
    ordered_load(watched, output_topic="watched-out", application=OBEDIENT, wait=False)

# Two runs at a time: the group would refuse that, so the steps are wired by hand.
overlapping = load_of("overlapping")
with DAG("overlapping", schedule=None, catchup=False, max_active_runs=2):
    resolve = ResolveOffsetRangeOperator(task_id="resolve", load=overlapping)
    submit = SubmitOrderedLoadOperator(
        task_id="load",
        load=overlapping,
        range_id=resolve.output,
        output_topic="overlapping-out",
        conn_id="spark_default",
        pool="overlapping-load",
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
    ordered_load(load_of("hourly"), output_topic="hourly-out", mode="interval", on_clear="reload")

with DAG(
    "form",
    schedule=None,
    catchup=False,
    params={
        "start": Param("-1h", type="string", minLength=1),
        "end": Param("latest", type="string", minLength=1),
        "target": Param("form-out", type="string", pattern=r"^[A-Za-z0-9._-]{1,249}$"),
        "duplicates_are_fine": Param(default=False, type="boolean"),
    },
):

    @task
    def check(params=None, dag_run=None):
        check_form(params, dag_run.conf, taken={"form-taken"})

    replayed = ordered_load(
        OrderedLoad("form", topics=["form-in"]),
        output_topic="{{ params.target }}",
        mode="replay",
        start="{{ params.start }}",
        end="{{ params.end }}",
    )
    check() >> replayed
