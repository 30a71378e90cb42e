"""What a load makes of its DAG and its arguments when it is parsed; what it refuses is in `support.mistakes`."""

import json
from datetime import UTC, datetime

import pytest
from support.statuses import besides_status

from airflow_provider_orderedkafka import (
    Allow,
    Application,
    Avro,
    Decode,
    KafkaOutput,
    NewTopics,
    OrderedLoad,
    Rows,
    SparkSubmit,
    ordered_intervals,
    ordered_load,
    ordered_replay,
)
from airflow_provider_orderedkafka.assets import ledger_asset, output_alias
from airflow_provider_orderedkafka.errors import SettingError

GOOD = {"schedule": None, "catchup": False, "max_active_runs": 1}


OUT = KafkaOutput("out")
A_PROGRAM = Rows(application=Application("apps/quick.py"))


def parse(dag=None, load=None, how=ordered_load, **arguments):
    """Parse a DAG with one load in it."""
    from airflow.sdk import DAG

    with DAG("parsed", start_date=datetime(2026, 1, 1, tzinfo=UTC), **{**GOOD, **(dag or {})}):
        described = {"topics": ["orders", "refunds"], **(load or {})}
        return how(OrderedLoad("orders", **described), **{"to": OUT, **arguments})


def by_another(launch):
    from airflow.providers.standard.operators.empty import EmptyOperator

    return EmptyOperator(**launch.task)


HOURLY = "CronDataIntervalTimetable"
ELSEWHERE = {"spark": by_another, "checkpoint": "/shared"}


def timetable(name):
    from airflow.sdk import Asset
    from airflow.timetables.interval import CronDataIntervalTimetable
    from airflow.timetables.trigger import CronTriggerTimetable

    made = {
        "CronDataIntervalTimetable": lambda: CronDataIntervalTimetable("@hourly", timezone="UTC"),
        "CronTriggerTimetable": lambda: CronTriggerTimetable("@hourly", timezone="UTC"),
        "asset": lambda: [Asset("an-asset")],
    }
    return made.get(name, lambda: name)()


@pytest.mark.parametrize("schedule", [None, "@hourly", "@once", "@continuous", "CronTriggerTimetable", "asset"])
def test_intervals_ask_for_a_timetable_that_has_them(schedule):
    with pytest.raises(SettingError, match="schedule="):
        parse({"schedule": timetable(schedule)}, how=ordered_intervals)


def test_intervals_may_overlap_catch_up_and_depend_on_the_past():
    dag = {
        "schedule": timetable(HOURLY),
        "max_active_runs": 4,
        "catchup": True,
        "default_args": {"depends_on_past": True},
    }
    assert set(parse(dag, how=ordered_intervals).tasks) == {"wait", "resolve", "load", "commit"}


def test_a_load_belongs_into_a_dag():
    with pytest.raises(SettingError, match="DAG"):
        ordered_load(OrderedLoad("orders", topics=["orders"]), to=OUT)


def test_arguments_of_spark_submit_and_of_every_task_are_passed_on():
    tasks = {"load": {"retries": 2}, "wait": {"poke_interval": 9}, "commit": {"pool": "small"}}
    spark = SparkSubmit("mine", conf={"a": "b"}, executor_memory="2g")
    found = parse(spark=spark, tasks=tasks).tasks
    assert found["load"].spark == spark
    assert (found["load"].retries, found["wait"].poke_interval, found["commit"].pool) == (2, 9, "small")


@pytest.mark.parametrize(
    ("task", "name"), [("resolve", "mode"), ("resolve", "start"), ("load", "to"), ("commit", "asset"), ("wait", "kind")]
)
def test_what_the_group_says_to_its_tasks_is_not_said_to_one_of_them_otherwise(task, name):
    with pytest.raises(TypeError, match=f"'{name}'"):
        parse(tasks={task: {name: "x"}})


@pytest.mark.parametrize("name", ["task_id", "to"])
def test_what_the_load_says_to_another_operator_is_not_said_otherwise(name):
    with pytest.raises(TypeError, match=name):
        parse(**ELSEWHERE, tasks={"load": {name: "x"}})


def test_what_is_on_this_cluster_can_be_created():
    parse(to=KafkaOutput("out", create=NewTopics(partitions=6), kafka_conn_id="kafka_default"))


@pytest.mark.parametrize(
    ("start", "end"), [("{{ params.start }}", "{{ params.end }}"), ("-2h", "latest"), ({"orders": [-1]}, "{{ x }}")]
)
def test_what_a_form_says_or_kafka_decides_is_checked_later(start, end):
    parse(how=ordered_replay, start=start, end=end)


@pytest.mark.parametrize(
    "connection",
    [json.dumps({"conn_type": "spark", "host": "spark://master", "port": 7077}), "spark://master:7077", "spark://"],
)
def test_a_cluster_that_the_environment_names_asks_for_a_checkpoint(connection, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_BIG", connection)
    with pytest.raises(SettingError, match="checkpoint="):
        parse(spark=SparkSubmit("big"))
    parse(spark=SparkSubmit("big"), checkpoint="s3a://bucket/loads")


def test_a_local_master_and_a_connection_that_is_kept_elsewhere_ask_for_none(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SMALL", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    parse(spark=SparkSubmit("small"))
    parse(spark=SparkSubmit("in_the_database"))


def test_another_operator_is_the_task_load():
    assert parse(**ELSEWHERE).tasks["load"].task_id == "orders.load"


def test_arguments_and_inlets_of_another_operator_come_beside_the_load_s_own():
    from airflow.sdk import Asset

    load = parse(**ELSEWHERE, tasks={"load": {"inlets": [Asset("theirs")], "retries": 4}}).tasks["load"]
    assert {"theirs", ledger_asset("orders").name} <= {each.name for each in load.inlets}
    assert load.retries == 4


@pytest.mark.parametrize("rows", [Rows(), A_PROGRAM, Rows(application=Application(arguments=["--mine", "1"]))])
def test_another_operator_is_told_all_by_one_word_behind_the_author_s_own(rows):
    launches = []
    parse(rows=rows, spark=lambda launch: launches.append(launch) or by_another(launch), checkpoint="/shared")
    (launch,) = launches
    own = () if rows.application is None else rows.application.arguments
    assert launch.arguments == (*own, "--work", "{{ ti.xcom_pull(task_ids='orders.resolve', key='work') }}")
    assert launch.application.endswith("apps/quick.py" if rows is A_PROGRAM else "ordered_replay.py")
    assert launch.report == "{{ ti.xcom_pull(task_ids='orders.resolve', key='checkpoint') }}/report.json"


def test_a_load_s_tasks_read_its_ledger_and_none_emits_it():
    for step, task in parse().tasks.items():
        assert task.task_id == f"orders.{step}"
        assert ledger_asset("orders") in task.inlets
        assert besides_status(task) == ([output_alias("orders")] if step == "commit" else [])


@pytest.mark.parametrize("said", ["tasks", "default_args"])
def test_more_inlets_and_outlets_come_beside_the_load_s_own(said):
    from airflow.sdk import Asset

    mine = {"inlets": [Asset("mine-in")], "outlets": [Asset("mine-out")]}
    how = {"tasks": dict.fromkeys(parse().tasks, mine)} if said == "tasks" else {"dag": {"default_args": mine}}
    for step, task in parse(**how).tasks.items():
        topics = [Asset(f"orderedkafka://topic/kafka_default/{name}") for name in ("orders", "refunds")]
        assert task.inlets == [ledger_asset("orders"), *(topics if step == "load" else []), Asset("mine-in")]
        assert besides_status(task) == [*([output_alias("orders")] if step == "commit" else []), Asset("mine-out")]


def test_the_commits_of_a_dag_s_runs_take_turns_unless_somebody_wants_otherwise():
    assert parse().tasks["commit"].max_active_tis_per_dag == 1
    assert parse().tasks["load"].max_active_tis_per_dag is None
    assert parse(tasks={"commit": {"max_active_tis_per_dag": 2}}).tasks["commit"].max_active_tis_per_dag == 2


def test_a_topic_of_the_same_name_on_another_cluster_is_another_topic():
    assert parse(to=KafkaOutput("refunds", kafka_conn_id="second")).tasks


def test_a_program_of_one_s_own_may_know_by_itself_where_to_write_and_the_packaged_one_is_told():
    assert parse(to=None, rows=A_PROGRAM).tasks
    with pytest.raises(SettingError, match="to="):
        parse(to=None, rows=Rows(application=Application(arguments=["--option", "sliceOffsets=9"])))


def test_the_tasks_of_a_group_are_given_one_output_and_one_way_to_make_rows():
    rows = Rows(decode=Decode(value=Avro(registry="main")), bad_records=Allow(5, to="dead"))
    tasks = parse(to="topic:out", rows=rows).tasks
    assert tasks["resolve"].to == tasks["load"].to == tasks["commit"].to == OUT
    assert tasks["resolve"].rows == tasks["load"].rows == rows
