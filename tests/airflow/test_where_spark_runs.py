"""The page "Where Spark runs", as it stands: its values make their operators."""

import json
import re
from pathlib import Path

import jinja2
import jsonschema
import pytest
from airflow.providers.apache.livy.hooks.livy import LivyHook
from support import dataproc
from support.messages import naming

from airflow_provider_orderedkafka import Application, KafkaOutput, OrderedLoad, Rows, services
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.job import Job, bundle_name
from airflow_provider_orderedkafka.spark.bundle import build_code
from airflow_provider_orderedkafka.tools import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "where-spark-runs.md").read_text("utf-8")
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
THERE = "s3://data/orderedkafka"
SCHEMA = json.loads(Path(__file__).with_name("spark_application.json").read_text())


@pytest.fixture(scope="module")
def page():
    """What the page defines."""
    names = {}
    exec(compile(CODE, "where-spark-runs.md", "exec"), names)
    return names


@pytest.fixture(scope="module")
def load_task(page):
    """The task `load` of the page's DAG, by one of its values."""
    return lambda name: page["schedule"](page[name]).get_task("orders.load")


def test_the_operator_for_emr_serverless_asks_for_the_code_in_its_folder_and_waits_as_long_as_is_said(load_task):
    load = load_task("by_emr_serverless")
    job = load.job_driver["sparkSubmit"]
    assert job["entryPoint"] == f"{THERE}/ordered_replay.py"
    files, archives, *python = job["sparkSubmitParameters"].split(" --conf ")
    assert files == f"--py-files {THERE}/{bundle_name()}"
    assert archives == f"spark.archives={THERE}/environment.tar.gz#environment"
    assert {each.partition("=")[2] for each in python} == {"./environment/bin/python"}
    assert (load.waiter_max_attempts * load.waiter_delay, load.deferrable) == (6 * 60 * 60, True)
    assert load.config == {"executionTimeoutMinutes": 6 * 60}


def test_the_operator_for_emr_steps_asks_for_a_driver_in_the_cluster_and_waits_for_it(load_task):
    load = load_task("by_emr_steps")
    (step,) = load.steps
    files = ["--py-files", f"{THERE}/{bundle_name()}", "--conf", "spark.yarn.submit.waitAppCompletion=true"]
    spark_submit = ["spark-submit", "--deploy-mode", "cluster", *files, f"{THERE}/ordered_replay.py", "--work"]
    assert step["HadoopJarStep"]["Args"][: len(spark_submit)] == spark_submit
    assert (step["ActionOnFailure"], step["HadoopJarStep"]["Jar"]) == ("CONTINUE", "command-runner.jar")
    assert (load.job_flow_id, load.deferrable) == ("j-2AXXXXXXGAPLF", True)
    assert load.waiter_max_attempts * load.waiter_delay == 12 * 60 * 60


def test_the_operator_for_glue_brings_the_job_up_to_date_and_follows_no_run_of_other_arguments(load_task):
    load = load_task("by_glue")
    assert load.script_location == f"{THERE}/ordered_replay.py"
    assert [*load.script_args] == ["--work", "--option"]
    made = load.create_job_kwargs
    assert (made["GlueVersion"], made["NumberOfWorkers"], made["Connections"]) == ("5.0", 4, {"Connections": ["kafka"]})
    assert made["DefaultArguments"]["--extra-py-files"] == f"{THERE}/{bundle_name()}"
    assert (load.update_config, load.stop_job_run_on_kill, load.durable, load.deferrable) == (True, True, False, True)
    assert load.waiter_max_attempts * load.waiter_delay == made["Timeout"] * 60 == 12 * 60 * 60


@pytest.mark.nightly
def test_the_operators_for_dataproc_name_no_batch_and_take_what_else_is_said(load_task, airflow_home, monkeypatch):
    dataproc.find_provider(monkeypatch)
    there = "gs://data/orderedkafka"
    program = {"main_python_file_uri": f"{there}/ordered_replay.py", "python_file_uris": [f"{there}/{bundle_name()}"]}
    batch, job = load_task("by_dataproc"), load_task("by_dataproc_cluster")
    assert program.items() <= batch.batch["pyspark_batch"].items()
    execution = batch.batch["environment_config"]["execution_config"]
    assert execution == {"subnetwork_uri": "default", "ttl": {"seconds": 12 * 60 * 60}}
    assert (batch.batch_id, batch.deferrable, job.deferrable) == (None, True, True)
    assert program.items() <= job.job["pyspark_job"].items()
    assert job.job["placement"] == {"cluster_name": "loads"}


def test_the_operator_for_livy_asks_for_a_driver_in_the_cluster_with_its_python(load_task):
    load = load_task("by_livy")
    asked = load.spark_params
    assert asked["file"] == "hdfs:///orderedkafka/ordered_replay.py"
    assert (asked["py_files"], asked["name"]) == ([f"hdfs:///orderedkafka/{bundle_name()}"], None)
    assert asked["archives"] == ["hdfs:///orderedkafka/environment.tar.gz#environment"]
    python = "./environment/bin/python"
    assert asked["conf"] == {"spark.submit.deployMode": "cluster", "spark.pyspark.python": python}
    assert (load.deferrable, load.durable) == (True, False)


def test_the_operator_for_databricks_makes_a_dedicated_cluster_that_fills_in_its_secret_itself(load_task):
    load = load_task("by_databricks")
    assert load.spark_python_task["python_file"] == f"{THERE}/ordered_replay.py"
    assert load.new_cluster["data_security_mode"] == "SINGLE_USER"
    (secret,) = load.new_cluster["spark_env_vars"].values()
    assert jinja2.Template(secret).render() == "{{secrets/kafka/orders}}"
    assert (load.deferrable, load.durable) == (True, False)


def test_the_manifest_for_kubernetes_is_one_that_spark_s_operator_takes(load_task):
    load = load_task("by_kubernetes")
    manifest = load.template_spec["spark"]
    jsonschema.validate(manifest, SCHEMA)
    spec = manifest["spec"]
    assert (spec["type"], spec["mode"], spec["restartPolicy"]) == ("Python", "cluster", {"type": "Never"})
    assert spec["mainApplicationFile"] == "local:///opt/orderedkafka/ordered_replay.py"
    assert spec["deps"] == {"pyFiles": [f"local:///opt/orderedkafka/{bundle_name()}"]}
    assert spec["driver"]["env"] == [
        {"name": "ORDEREDKAFKA_OPTIONS", "valueFrom": {"secretKeyRef": {"name": "kafka-orders", "key": "options"}}}
    ]
    assert {pod["labels"]["orderedkafka-load"] for pod in (spec["driver"], spec["executor"])} == {"orders"}
    assert (spec["executor"]["instances"], spec["executor"]["memory"], spec["driver"]["memory"]) == (4, "4g", "2g")
    assert (load.namespace, load.deferrable, load.reattach_on_restart) == ("spark", True, False)


LAUNCH = services.Launch("orders", f"{THERE}/ordered_replay.py", ("--work", "w"), "", {"task_id": "load"})


def test_what_a_manifest_is_given_comes_beside_the_secret_and_the_code_that_a_load_needs():
    spec = {"driver": {"env": [{"name": "TZ", "value": "UTC"}]}, "deps": {"pyFiles": ["local:///opt/mine.zip"]}}
    service = services.SparkKubernetes("local:///opt/code", image="spark", secret="kafka:options", spec=spec)
    made = service(LAUNCH).template_spec["spark"]["spec"]
    assert [each["name"] for each in made["driver"]["env"]] == ["ORDEREDKAFKA_OPTIONS", "TZ"]
    assert made["deps"]["pyFiles"] == [f"local:///opt/code/{bundle_name()}", "local:///opt/mine.zip"]


def test_further_arguments_of_an_operator_come_beside_what_a_load_needs_of_it():
    to_emr = {"application_id": "a", "role": "r", "hours": 20}
    emr = services.EmrServerless("s3://b/c", **to_emr, operator={"config": {"tags": {"team": "orders"}}})(LAUNCH)
    assert emr.config == {"executionTimeoutMinutes": 20 * 60, "tags": {"team": "orders"}}
    glue = services.Glue("s3://b/c", role="r", operator={"script_args": {"--TempDir": "s3://b/t"}})(LAUNCH)
    assert glue.script_args == {"--work": "w", "--TempDir": "s3://b/t"}
    livy = services.Livy("hdfs:///c", operator={"py_files": ["hdfs:///mine.zip"], "polling_interval": 5})(LAUNCH)
    assert livy.spark_params["py_files"] == [f"hdfs:///c/{bundle_name()}", "hdfs:///mine.zip"]


def test_numbers_among_spark_s_settings_are_texts_for_livy_whose_hook_refuses_a_fraction():
    made = services.Livy("hdfs:///code", conf={"spark.memory.fraction": 0.6, "spark.speculation": True})(LAUNCH)
    body = LivyHook.build_post_batch_body(file="app.py", conf=made.spark_params["conf"])
    assert (body["conf"]["spark.memory.fraction"], body["conf"]["spark.speculation"]) == ("0.6", "True")


@pytest.mark.parametrize("written", ["{{secrets/lake/key}}", "{{ '{{secrets/lake/key}}' }}"])
def test_a_secret_that_databricks_fills_in_reaches_it_as_its_own_pages_write_it(written):
    cluster = {"spark_conf": {"spark.hadoop.lake.key": written}}
    (found,) = services.Databricks("s3://b/c", cluster=cluster)(LAUNCH).new_cluster["spark_conf"].values()
    assert jinja2.Template(found).render() == "{{secrets/lake/key}}"


@pytest.mark.parametrize("there", ["s3://b/my.py", "/Workspace/my.py", "dbfs:/apps/my.py"])
def test_an_application_that_is_named_as_a_location_is_taken_from_there(there):
    assert services.Databricks("s3://b/c", cluster="0612-1").application(there, "") == there


def test_lineage_that_airflow_adds_to_a_run_of_glue_leaves_spark_s_settings_there():
    made = services.Glue("s3://b/c", role="r", conf={"spark.a": "1", "spark.b": "2"})(LAUNCH)
    assert made.script_args["--conf"] == "spark.a=1 --conf spark.b=2", "a run's go before those of its job"


def test_an_application_that_is_not_there_is_said_before_an_attempt_is_counted(tmp_path):
    build_code(tmp_path)
    mine = Job(KafkaOutput("orders-ordered"), Rows(application=Application("mine.py")))
    service = services.EmrServerless(f"file://{tmp_path}", application_id="a", role="r")
    with pytest.raises(SettingError, match=naming("EmrServerless ... mine.py'")):
        service.options(OrderedLoad("orders", topics=["orders"]), mine)


def test_a_code_folder_may_be_a_template_with_blanks():
    code = "s3://{{ params.bucket }}/code"
    assert services.EmrServerless(code, application_id="a", role="r").bundle.startswith(code)


def test_the_bundle_in_a_folder_is_what_a_value_names(tmp_path):
    assert cli.main(["bundle", str(tmp_path / "code")]) == 0
    assert {each.name for each in (tmp_path / "code").iterdir()} == {
        bundle_name(),
        "ordered_maintenance.py",
        "ordered_replay.py",
        "ordered_table.py",
    }


def test_the_readme_says_of_each_service_what_was_tried():
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| .+ \| `(\w+)\(\.\.\.\)` \| .+ \| (\w+) \|$", readme, re.MULTILINE)
    assert dict(rows) == dict.fromkeys(set(services.__all__) - {"Launch", "Launcher", "Service"}, "never")
