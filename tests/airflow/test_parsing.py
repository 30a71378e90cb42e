"""What a load asks of its DAG, found when the DAG is parsed: each error names both settings and the way out."""

import json
import re
from datetime import UTC, datetime

import pytest
from support.statuses import besides_status

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.assets import ledger_asset, output_alias
from airflow_provider_orderedkafka.errors import SettingError

GOOD = {"schedule": None, "catchup": False, "max_active_runs": 1}


def parse(dag=None, load=None, **arguments):
    """Parse a DAG with one load in it."""
    from airflow.sdk import DAG

    from airflow_provider_orderedkafka.dag import ordered_load

    with DAG("parsed", start_date=datetime(2026, 1, 1, tzinfo=UTC), **{**GOOD, **(dag or {})}):
        described = {"topics": ["orders", "refunds"], **(load or {})}
        return ordered_load(OrderedLoad("orders", **described), **{"output_topic": "out", **arguments})


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


@pytest.mark.parametrize(
    ("dag", "named", "way_out"),
    [
        ({"max_active_runs": 2}, "max_active_runs=2", "set max_active_runs=1, or give the load mode='interval'"),
        ({"catchup": True}, "catchup=True", "set catchup=False, or give the load mode='interval'"),
        (
            {"default_args": {"depends_on_past": True}},
            "depends_on_past=True",
            "set depends_on_past=False, or give the load mode='interval'",
        ),
        (
            {"default_args": {"wait_for_downstream": True}},
            "wait_for_downstream=True",
            "set wait_for_downstream=False, or give the load mode='interval'",
        ),
    ],
)
def test_an_incremental_load_asks_for_one_run_at_a_time_that_depends_on_no_other(dag, named, way_out):
    with pytest.raises(SettingError, match=rf"load 'orders' is incremental and DAG 'parsed' has {named}.*{way_out}"):
        parse(dag)


@pytest.mark.parametrize("schedule", [None, "@hourly", "@once", "@continuous", "CronTriggerTimetable", "asset"])
def test_intervals_ask_for_a_timetable_that_has_them(schedule):
    with pytest.raises(SettingError, match=r"mode='interval' and DAG 'parsed' has the timetable \w+.*use schedule="):
        parse({"schedule": timetable(schedule)}, mode="interval")


def test_intervals_may_overlap_catch_up_and_depend_on_the_past():
    dag = {
        "schedule": timetable("CronDataIntervalTimetable"),
        "max_active_runs": 4,
        "catchup": True,
        "default_args": {"depends_on_past": True},
    }
    assert set(parse(dag, mode="interval").steps) == {"wait", "resolve", "load", "commit"}


def test_a_load_is_not_mapped():
    from airflow.sdk import DAG, task_group

    from airflow_provider_orderedkafka.dag import ordered_load

    with DAG("parsed", **GOOD):

        @task_group
        def each(topic):
            ordered_load(OrderedLoad("orders", topics=["orders"]))

        with pytest.raises(SettingError, match=r"'orders' is inside the mapped task group 'each'.*loads in a loop"):
            each.expand(topic=["a", "b"])


def test_a_load_belongs_into_a_dag():
    from airflow_provider_orderedkafka.dag import ordered_load

    with pytest.raises(SettingError, match=r"called inside a DAG: `with DAG"):
        ordered_load(OrderedLoad("orders", topics=["orders"]))


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ({"lode": {}}, r"names 'lode', the steps are wait, resolve, load, commit"),
        ({"load": {"task_id": "x"}}, r"sets 'task_id' of 'load' to 'x': task_id is the group's own, leave it out"),
        ({"load": {"output_topic": "x"}}, r"sets 'output_topic' of 'load' to 'x': give it to ordered_load\(\)"),
        ({"load": {"conn_id": "x"}}, r"sets 'conn_id' of 'load' to 'x': .* as 'spark_conn_id'"),
        ({"resolve": {"mode": "replay"}}, r"sets 'mode' of 'resolve' to 'replay': give it to ordered_load\(\)"),
        ({"wait": {"kind": "interval"}}, r"sets 'kind' of 'wait' to 'interval': .* as 'mode'"),
        ({"commit": {"asset": None}}, r"sets 'asset' of 'commit' to None: .* as 'asset'"),
        ({"commit": {"retrys": 3}}, r"the task 'commit' takes no argument 'retrys'; did you mean 'retries'"),
        ({"wait": {"unheard_of_by_all": 3}}, r"the task 'wait' takes no argument 'unheard_of_by_all'; leave it out"),
        ({"commit": {"depends_on_past": True}}, r"depends_on_past=True for 'commit'.*or give the load mode='interval'"),
        ({"load": {"wait_for_downstream": True}}, r"wait_for_downstream=True for 'load'.*or give the load mode="),
        ({"load": None}, r"steps gives None for 'load'.*arguments by name, such as \{'retries': 3\}"),
        ([("load", {})], r"steps must be arguments by step, such as .*found \[\('load'"),
    ],
)
def test_arguments_by_step_are_for_a_step_and_not_the_group_s_own(steps, said):
    with pytest.raises(SettingError, match=said):
        parse(steps=steps)


@pytest.mark.parametrize(
    ("arguments", "load", "said"),
    [
        ({"mode": "hourly"}, {}, "mode must be one of 'incremental', 'interval', 'replay', found 'hourly'"),
        ({"on_clear": "again"}, {}, "on_clear must be one of 'skip', 'reload', found 'again'"),
        ({"on_clear": "reload"}, {}, "on_clear='reload' and mode='incremental' do not go together.*ledger rewind"),
        ({"mode": "replay"}, {}, "a replay needs start= and end="),
        ({"start": "earliest"}, {}, "a replay needs start= and end=, and nothing else takes them"),
        ({"keep_order": "keys"}, {}, "keep_order must be one of 'key', 'partition', None, found 'keys'"),
        (
            {"mode": "replay", "start": "earliest", "end": "latest"},
            {"row_limit": 5},
            "row_limit=5 and mode='replay'.*leave row_limit out",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, load, said):
    with pytest.raises(SettingError, match=said):
        parse(load=load, **arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"conn_id": "spark_prod"}, r"ordered_load\(\) calls 'conn_id' 'spark_conn_id'"),
        ({"min_offsets": 5}, r"'min_offsets' is a setting of the load, not of ordered_load\(\): OrderedLoad\('orders'"),
        ({"executor_memry": "2g"}, r"takes no argument 'executor_memry'; did you mean 'executor_memory'"),
        ({"outputtopic": "x"}, r"takes no argument 'outputtopic'; did you mean 'output_topic'"),
        ({"output_topic": "my topic"}, r"output_topic='my topic' cannot be a topic's name; Kafka allows 1 to 249"),
        ({"application_args": ["--sink-option", "deadLetterTopic=a/b"]}, r"deadLetterTopic='a/b' cannot be a topic's"),
        ({"application": "apps/qick.py"}, r"no application 'apps/qick.py' at '/.*/apps/qick.py'; did you mean 'quick"),
        ({"application": "nope.py"}, r"no application 'nope.py' at .*a relative path begins at the folder of the DAG"),
    ],
)
def test_a_mistake_is_told_with_the_load_and_what_was_meant(arguments, said):
    with pytest.raises(SettingError, match=rf"'?orders.*{said}"):
        parse(**arguments)


def test_what_spark_submit_takes_and_a_python_application_does_not_is_told_with_the_reason():
    with pytest.raises(SettingError, match=r"leave 'java_class' out: the application is a Python program"):
        parse(java_class="Main")


def test_arguments_of_spark_submit_and_of_every_task_are_passed_on():
    steps = {"load": {"retries": 2}, "wait": {"poke_interval": 9}, "commit": {"pool": "small"}}
    found = parse(conf={"a": "b"}, executor_memory="2g", name="mine", retry_delay=5, steps=steps).steps
    assert (found["load"].conf, found["load"].executor_memory, found["load"].name) == ({"a": "b"}, "2g", "mine")
    assert (found["load"].retries, found["wait"].poke_interval, found["commit"].pool) == (2, 9, "small")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("many", r"create_output is \{'partitions': 6.* found 'many'"),
        ({"partition": 6}, r"create_output takes no 'partition'; did you mean 'partitions'"),
        ({"partitions": 0}, r"partitions of create_output is an integer from 1 on, found 0"),
        ({"replication": "3"}, r"replication of create_output is an integer from 1 on, found '3'"),
        ({"config": "compact"}, r"config of create_output has a topic's settings, such as .* found 'compact'"),
    ],
)
def test_how_an_output_is_created_is_checked_at_once(given, said):
    with pytest.raises(SettingError, match=rf"load 'orders': {said}"):
        parse(create_output=given)


def test_only_what_is_named_and_on_this_cluster_can_be_created():
    elsewhere = ["--sink-option", "kafka.bootstrap.servers=elsewhere:9092"]
    for arguments in ({"output_topic": None, "application": "apps/quick.py"}, {"application_args": elsewhere}):
        with pytest.raises(SettingError, match=r"create_output= and no topic on the load's own cluster"):
            parse(create_output={"partitions": 6}, **arguments)
    outputs = ["--sink-option", "deadLetterTopic=dead"]
    assert parse(create_output={"partitions": 6}, application_args=outputs).steps["resolve"].outputs == ["out", "dead"]


@pytest.mark.parametrize("load", ["orders", None, {"name": "orders"}])
def test_what_is_no_load_is_told_at_once(load):
    from airflow.sdk import DAG

    from airflow_provider_orderedkafka.dag import ordered_load

    with (
        DAG("parsed", **GOOD),
        pytest.raises(SettingError, match=r"takes an OrderedLoad, found .*OrderedLoad\('orders'"),
    ):
        ordered_load(load, output_topic="out")


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("gestern", "latest", r"load 'orders': 'start' must be 'earliest', 'latest',.* found 'gestern'"),
        ("{{ params.start }}", "morgen", r"load 'orders': 'end' must be .* found 'morgen'"),
        (
            "2026-01-02T00:00:00Z",
            "2026-01-01T00:00:00Z",
            r"from 2026-01-02.* to 2026-01-01.*, which lies before it; swap",
        ),
        ("-1h", "-2h", r"from -1h to -2h, which lies before it; swap them"),
        ({"orders": [5], "refunds": [0]}, {"orders": [4], "refunds": [9]}, r"orders\[0\]@5.*lies before it"),
    ],
)
def test_a_constant_end_of_a_replay_is_checked_at_once(start, end, said):
    with pytest.raises(SettingError, match=said):
        parse(mode="replay", start=start, end=end)


@pytest.mark.parametrize(
    ("start", "end"), [("{{ params.start }}", "{{ params.end }}"), ("-2h", "latest"), ({"orders": [-1]}, "{{ x }}")]
)
def test_what_a_form_says_or_kafka_decides_is_checked_later(start, end):
    parse(mode="replay", start=start, end=end)


def test_an_interval_is_loaded_whole():
    hourly = {"schedule": timetable("CronDataIntervalTimetable")}
    with pytest.raises(SettingError, match=r"max_offsets=5 and mode='interval'.*set batch_offsets"):
        parse(hourly, load={"max_offsets": 5}, mode="interval")


@pytest.mark.parametrize(
    "connection",
    [json.dumps({"conn_type": "spark", "host": "spark://master", "port": 7077}), "spark://master:7077", "spark://"],
)
def test_a_cluster_that_the_environment_names_asks_for_a_checkpoint(connection, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_BIG", connection)
    with pytest.raises(SettingError, match=r"checkpoint= is missing, and the Spark connection 'big' names the cluster"):
        parse(spark_conn_id="big")
    parse(spark_conn_id="big", checkpoint="s3a://bucket/loads")


def test_a_local_master_and_a_connection_that_is_kept_elsewhere_ask_for_none(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SMALL", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    parse(spark_conn_id="small")
    parse(spark_conn_id="in_the_database")


def test_another_way_to_submit_asks_for_a_checkpoint_and_for_what_the_group_sets():
    from airflow.providers.standard.operators.empty import EmptyOperator

    with pytest.raises(SettingError, match=r"submit= and no checkpoint=: name a location"):
        parse(submit=lambda launch: EmptyOperator(**launch.task))
    with pytest.raises(SettingError, match=r"must pass all of the launch's `task`.*found task id 'orders.mine'"):
        parse(submit=lambda launch: EmptyOperator(task_id="mine"), checkpoint="/shared")
    group = parse(submit=lambda launch: EmptyOperator(**launch.task), checkpoint="/shared")
    assert group.steps["load"].task_id == "orders.load"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"output_topic": "out"}, ["--output-topic", "out", "--sink-option", "keepOrder=key"]),
        ({"output_topic": "out", "keep_order": None}, ["--output-topic", "out", "--sink-option", "keepOrder=none"]),
        ({"output_topic": None, "application": "apps/quick.py"}, []),
    ],
)
def test_another_way_to_submit_is_told_the_output_and_its_order(how, told):
    from airflow.providers.standard.operators.empty import EmptyOperator

    launches = []
    parse(submit=lambda launch: launches.append(launch) or EmptyOperator(**launch.task), checkpoint="/shared", **how)
    (launch,) = launches
    assert launch.arguments == ["--range", launch.packed_range, "--checkpoint", launch.checkpoint, *told]
    with pytest.raises(SettingError, match="keep_order must be one of"):
        parse(submit=lambda launch: EmptyOperator(**launch.task), checkpoint="/shared", **how | {"keep_order": "keys"})


def test_a_load_s_tasks_read_its_ledger_and_none_emits_it():
    for step, task in parse().steps.items():
        assert task.task_id == f"orders.{step}"
        assert ledger_asset("orders") in task.inlets
        assert besides_status(task) == ([output_alias("orders")] if step == "commit" else [])


@pytest.mark.parametrize("said", ["steps", "default_args"])
def test_more_inlets_and_outlets_come_beside_the_load_s_own(said):
    from airflow.sdk import Asset

    mine = {"inlets": [Asset("mine-in")], "outlets": [Asset("mine-out")]}
    how = {"steps": dict.fromkeys(parse().steps, mine)} if said == "steps" else {"dag": {"default_args": mine}}
    for step, task in parse(**how).steps.items():
        topics = [Asset(f"orderedkafka://topic/kafka_default/{name}") for name in ("orders", "refunds")]
        assert task.inlets == [ledger_asset("orders"), *(topics if step == "load" else []), Asset("mine-in")]
        assert besides_status(task) == [*([output_alias("orders")] if step == "commit" else []), Asset("mine-out")]


def test_the_commits_of_a_dag_s_runs_take_turns_unless_somebody_wants_otherwise():
    assert parse().steps["commit"].max_active_tis_per_dag == 1
    assert parse().steps["load"].max_active_tis_per_dag is None
    assert parse(steps={"commit": {"max_active_tis_per_dag": 2}}).steps["commit"].max_active_tis_per_dag == 2


def test_what_tells_an_output_and_an_application_from_others_is_given_to_both_who_compare_it():
    told = ["--sink-option", "includeheaders=false", "--sink-option", "kafka.ssl.key.password=hidden"]
    steps = parse(application="apps/quick.py", keep_order=None, application_args=told).steps
    assert steps["resolve"].digest == steps["load"].digest
    assert steps["load"].digest.splitlines() == [
        "application='apps/quick.py'",
        "decode=None",
        "keep_order=None",
        "output=None",
        "output_topic='out'",
        "sink_options={'includeHeaders': 'false'}",
        "transform=None",
    ]
    assert not re.search(r"[0-9a-f]{16}", steps["load"].digest), "a person has to understand it"


FED_BACK = r"load 'orders' reads 'orders', 'refunds' and would write into 'refunds' \({}='refunds'\).*name a topic that"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"output_topic": "refunds"}, "output_topic"),
        ({"application": "apps/quick.py", "output_topic": "refunds"}, "output_topic"),
        ({"application_args": ["--sink-option", "deadLetterTopic=refunds"]}, "deadLetterTopic"),
        ({"output_topic": None, "application_args": ["--output-topic=refunds"]}, "topic"),
        ({"output_topic": None, "application_args": ["--sink-option", "TOPIC=refunds"]}, "topic"),
        (
            {"output_topic": None, "steps": {"load": {"application_args": ["--sink-option=outputTopics=a, refunds"]}}},
            "outputTopics",
        ),
    ],
)
def test_a_load_does_not_write_into_what_it_reads(arguments, named):
    with pytest.raises(SettingError, match=FED_BACK.format(named)):
        parse(**arguments)


def test_a_load_by_another_operator_does_not_either():
    from airflow.providers.standard.operators.empty import EmptyOperator

    with pytest.raises(SettingError, match=FED_BACK.format("output_topic")):
        parse(submit=lambda launch: EmptyOperator(**launch.task), checkpoint="/shared", output_topic="refunds")


def test_a_topic_of_the_same_name_on_another_cluster_is_another_topic():
    parse(output_topic="refunds", application_args=["--sink-option", "kafka.bootstrap.servers=elsewhere:9092"])


@pytest.mark.parametrize(
    ("application", "way_out"),
    [("ordered_replay", "output_topic='orders-ordered'"), ("ordered_table", r"output=FilesOutput\('/data/orders'\)")],
)
def test_a_packaged_application_is_told_where_to_write(application, way_out):
    from airflow_provider_orderedkafka.hooks.launching import packaged_application

    path = packaged_application(application)
    with pytest.raises(SettingError, match=rf"where {application}.py is to write is not said: name .*{way_out}"):
        parse(output_topic=None, application=path)
    told = ["--sink-option", "path=/data/orders" if application == "ordered_table" else "outputTopics=a,b"]
    parse(output_topic=None, application=path, application_args=told)


def test_an_application_of_one_s_own_may_know_by_itself_where_to_write():
    parse(output_topic=None, application="apps/quick.py")


def digest_with(*arguments):
    return parse(application_args=list(arguments)).steps["resolve"].digest


def test_sink_options_and_transforms_that_shape_what_is_written_tell_an_application_from_others():
    options = ["outputTopics=a,b", "USEPARTITION=true", "kafka.bootstrap.servers=b:9092"]
    told = [*(f"--sink-option={option}" for option in options), "--arrow-transform", "m:f"]
    assert digest_with(*told).splitlines()[-2:] == [
        "sink_options={'outputTopics': 'a,b', 'usePartition': 'true', 'kafka.bootstrap.servers': 'b:9092'}",
        "transform='m:f'",
    ]


@pytest.mark.parametrize("option", ["deadLetterTopic=d", "writers=9", "kafka.linger.ms=5", "password=hidden"])
def test_what_is_tuned_or_added_to_get_out_of_an_error_does_not(option):
    assert digest_with("--sink-option", option, "--option", "sliceOffsets=9") == digest_with()
