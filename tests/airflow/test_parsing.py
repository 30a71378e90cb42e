"""What a load makes of its DAG and its arguments when it is parsed; what it refuses is in `support.mistakes`."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Asset
from airflow.timetables.interval import CronDataIntervalTimetable
from support.messages import naming
from support.statuses import besides_status

from airflow_provider_orderedkafka import (
    Allow,
    Application,
    Avro,
    Decode,
    DeltaOutput,
    FilesOutput,
    IcebergOutput,
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
from airflow_provider_orderedkafka.locations import local_root
from airflow_provider_orderedkafka.operators.commit import CommitOffsetRangeOperator

GOOD = {"schedule": None, "catchup": False, "max_active_runs": 1}


OUT = KafkaOutput("out")
A_PROGRAM = Rows(application=Application("apps/quick.py"))


def parse(dag=None, how=ordered_load, file=None, **arguments):
    """Parse a DAG with one load in it, as if it stood in this file."""
    with DAG("parsed", start_date=datetime(2026, 1, 1, tzinfo=UTC), **{**GOOD, **(dag or {})}) as made:
        made.fileloc = str(file or made.fileloc)
        return how(OrderedLoad("orders", topics=["orders", "refunds"]), **{"to": OUT, **arguments})


def job(task, **params):
    """What a run with these params does."""
    return task._job({"params": params})


def by_another(launch):
    from airflow.providers.standard.operators.empty import EmptyOperator

    return EmptyOperator(**launch.task)


ELSEWHERE = {"spark": by_another, "checkpoint": "/shared"}


def test_intervals_may_overlap_catch_up_and_depend_on_the_past():
    dag = {
        "schedule": CronDataIntervalTimetable("@hourly", timezone="UTC"),
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


@pytest.mark.parametrize(
    ("start", "end"), [("{{ params.start }}", "{{ params.end }}"), ("-2h", "latest"), ({"orders": [-1]}, "{{ x }}")]
)
def test_what_a_form_says_or_kafka_decides_is_checked_later(start, end):
    parse(how=ordered_replay, start=start, end=end)


@pytest.mark.parametrize("rendered", ["true", "yes", "1"])
def test_a_replay_that_may_have_been_meant_as_a_dry_run_loads_nothing(rendered):
    resolve = parse(how=ordered_replay, start="-2h", end="latest", dry_run="{{ params.dry }}").tasks["resolve"]
    resolve.plan_only = rendered
    with pytest.raises(AirflowFailException, match=naming(f"dry_run ... {rendered!r}")):
        resolve.execute({"ti": None, "params": {}, "dag": resolve.dag})


@pytest.mark.parametrize("rendered", ["None", "", "checkpoints/orders"])
def test_a_checkpoint_that_is_rendered_to_another_folder_for_each_process_plans_nothing(rendered):
    resolve = parse(checkpoint="{{ var.value.folder }}").tasks["resolve"]
    resolve.checkpoint = rendered
    with pytest.raises(AirflowFailException, match=naming(f"checkpoint ... found {rendered!r}")):
        resolve.execute({"ti": None, "params": {}, "dag": resolve.dag})


@pytest.mark.parametrize("home", ["~/airflow", "$HOME/airflow"])
def test_checkpoints_are_by_default_below_airflow_s_home_as_airflow_reads_it(home, monkeypatch):
    monkeypatch.setenv("AIRFLOW_HOME", home)
    assert local_root("orders") == str(Path.home() / "airflow" / "orderedkafka" / "orders")


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


def test_arguments_and_inlets_of_another_operator_come_beside_the_load_s_own():
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


def test_a_program_of_one_s_own_may_know_by_itself_where_to_write_and_the_packaged_one_is_told():
    assert parse(to=None, rows=A_PROGRAM).tasks
    with pytest.raises(SettingError, match="to="):
        parse(to=None, rows=Rows(application=Application(arguments=["--option", "sliceOffsets=9"])))


def test_the_tasks_of_a_group_are_given_one_output_and_one_way_to_make_rows():
    rows = Rows(decode=Decode(value=Avro(registry="main")), bad_records=Allow(5, to="dead"))
    tasks = parse(to="topic:out", rows=rows).tasks
    assert tasks["resolve"].to == tasks["load"].to == tasks["commit"].to == OUT
    assert tasks["resolve"].rows == tasks["load"].rows == rows


@pytest.mark.parametrize(
    ("to", "params", "found"),
    [
        ("{{ params.format }}:{{ params.target }}", {"format": "delta", "target": "/lake/a"}, DeltaOutput("/lake/a")),
        ("{{ params.format }}:{{ params.target }}", {"format": "topic", "target": "out"}, KafkaOutput("out")),
        (KafkaOutput("{{ params.t }}", writers=3), {"t": "out"}, KafkaOutput("out", writers=3)),
        (DeltaOutput("s3a://lake/{{ params.t }}/"), {"t": "orders"}, DeltaOutput("s3a://lake/orders")),
    ],
)
def test_the_place_of_an_output_may_be_a_template(to, params, found):
    made = job(parse(to=to).tasks["resolve"], **params)
    assert made.to == found
    assert made.written == (to if isinstance(to, str) else to.place)


@pytest.mark.parametrize(
    ("to", "rendered", "said"),
    [
        ("topic:{{ params.t }}", "refunds", "'refunds'"),
        (KafkaOutput("{{ params.t }}"), "refunds", "'refunds'"),
        (KafkaOutput("{{ params.t }}"), "my topic", "'my topic'"),
        (DeltaOutput("{{ params.t }}"), "lake", "path ... 'lake'"),
        (FilesOutput("{{ params.t }}"), "s3a://me:secret@lake/a", "path"),
        ("{{ params.t }}", "nowhere", "'<format>:<name>' ... 'nowhere'"),
    ],
)
def test_what_a_run_renders_is_checked_as_what_is_written_in_the_dag(to, rendered, said):
    with pytest.raises(SettingError, match=naming(said)):
        job(parse(to=to).tasks["resolve"], t=rendered)


def test_the_asset_to_emit_may_be_another_one():
    mine = Asset("mine")
    for to in (IcebergOutput("lake.shop.orders"), OUT):
        assert parse(to=to, asset=mine).tasks["commit"].asset == mine
        assert parse(to=to).tasks["commit"].asset is None, "the output's own is known once a range is loaded"


def test_on_another_cluster_a_topic_may_have_the_name_of_a_source_and_on_its_own_one_may_be_created():
    assert parse(to=KafkaOutput("orders", kafka_conn_id="second")).tasks
    assert parse(to=KafkaOutput("out", create=NewTopics(partitions=6), kafka_conn_id="kafka_default")).tasks


@pytest.mark.parametrize("kind", ["transform", "arrow_transform"])
def test_the_module_of_a_transform_beside_the_dag_travels_with_the_application_and_the_formats_in_its_job(
    tmp_path, kind
):
    (tmp_path / "mine.py").write_text("def enrich(frame):\n    return frame\n")
    rows = Rows(decode=Decode(value=Avro(registry="main")), bad_records=Allow(5, "dead"), **{kind: "mine:enrich"})
    tasks = parse(file=tmp_path / "orders.py", rows=rows, spark=SparkSubmit(py_files="a.py")).tasks
    assert tasks["load"].spark.py_files == f"a.py,{tmp_path / 'mine.py'}"
    assert job(tasks["resolve"]).rows == rows
    assert job(tasks["resolve"]).topics == ("out", "dead"), "both have to be there before a range is written down"


def test_single_operators_take_what_every_task_takes_and_what_a_class_of_one_s_own_adds():
    class Mine(CommitOffsetRangeOperator):
        def __init__(self, *, colour, **kwargs):
            super().__init__(**kwargs)
            self.colour = colour

    load = OrderedLoad("orders", topics=["orders"])
    made = Mine(task_id="one", load=load, colour="red", retries=3, default_args={"pool": "small"})
    assert (made.colour, made.retries, made.pool) == ("red", 3, "small")
    with pytest.raises(SettingError, match="'retries'"):
        Mine(task_id="one", load=load, colour="red", retires=3)
