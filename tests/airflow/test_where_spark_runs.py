"""The page "Where Spark runs", as it stands: its values make their operators, its functions requests that load."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import jsonschema
import pytest
from support.bench import APPLICATION, steps_of

from airflow_provider_orderedkafka.job import Job, bundle_name
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.spark.application.command import read_arguments

PAGE = (Path(__file__).parents[2] / "docs" / "where-spark-runs.md").read_text("utf-8")
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
THERE = "s3://data/orderedkafka"
SCHEMA = json.loads(Path(__file__).with_name("spark_application.json").read_text())
ARGUMENTS = {
    "dataproc_batch": lambda request: request["pyspark_batch"]["args"],
}
"""For each function of the page: where the application's arguments are in what it gives."""

SERVICE = """
from airflow.sdk import BaseOperator

class Service(BaseOperator):
    template_fields = ("request",)

    def __init__(self, *, request, **kwargs):
        super().__init__(**kwargs)
        self.request = request

    def execute(self, context):
        import subprocess
        folder = Path({folder!r})
        (folder / "request.json").write_text(json.dumps(self.request))
        command = [{python!r}, {application!r}, *{where}, "--diary", str(folder / "diary")]
        subprocess.run(command, check=True)

import json
from pathlib import Path
schedule(lambda launch: Service(request={kind}(launch), **launch.task))
"""
WHERE = {"dataproc_batch": "self.request['pyspark_batch']['args']"}


@pytest.fixture
def run_of(bench, dag_file, connections, tmp_path):
    """A run of the page's DAG, on topics of its own, with one of the page's functions for the request."""
    edits = {
        '"orders", topics=["orders"]': f'"{bench.load}", topics=["{bench.topic}"]',
        '"s3://data/orderedkafka/checkpoints"': repr(f"{tmp_path}/checkpoints"),
        '"orders-ordered"': repr(bench.output),
        "min_offsets=10_000": "min_offsets=1",
        "dag = schedule(": "_ = (",
    }

    def run(kind):
        told = {"folder": str(tmp_path), "python": sys.executable, "application": str(APPLICATION)}
        source = CODE + SERVICE.format(kind=kind, where=WHERE[kind], **told)
        for old, new in edits.items():
            assert old in source
            source = source.replace(old, new)
        return dag_file(source, "where.py").test()

    return run


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_request_starts_the_application_with_the_run_s_range_and_the_commit_believes_its_report(
    kind, run_of, bench, states, ledger_of, kafka, tmp_path
):
    bench.write(5)
    assert steps_of(bench, states(run_of(kind))) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    (outcome,) = ledger_of(bench.load).outcomes
    request = json.loads((tmp_path / "request.json").read_text())
    found = read_arguments(ARGUMENTS[kind](request), "ordered_replay.py")
    assert (found.range.id, outcome.rows) == (outcome.range_id, 5)
    assert found.checkpoint == f"{tmp_path}/checkpoints/{outcome.range_id}"
    assert found.job == Job(KafkaOutput(bench.output))
    assert found.source.kafka["bootstrap.servers"] == kafka.bootstrap_servers


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


def test_the_operator_for_emr_steps_asks_for_a_driver_in_the_cluster_and_waits_for_it(load_task):
    load = load_task("by_emr_steps")
    (step,) = load.steps
    files = ["--py-files", f"{THERE}/{bundle_name()}"]
    spark_submit = ["spark-submit", "--deploy-mode", "cluster", *files, f"{THERE}/ordered_replay.py", "--work"]
    assert step["HadoopJarStep"]["Args"][: len(spark_submit)] == spark_submit
    assert (step["ActionOnFailure"], step["HadoopJarStep"]["Jar"]) == ("CONTINUE", "command-runner.jar")
    assert (load.job_flow_id, load.deferrable) == ("j-2AXXXXXXGAPLF", True)
    assert load.waiter_max_attempts * load.waiter_delay == 12 * 60 * 60


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
    assert (load.namespace, load.deferrable) == ("spark", True)


@pytest.mark.parametrize("wrong", [{"argument": []}, {"mode": "clustered"}, {"restartPolicy": {"type": "never"}}])
def test_the_schema_refuses_what_spark_s_operator_would_not_know(load_task, wrong):
    manifest = load_task("by_kubernetes").template_spec["spark"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**manifest, "spec": {**manifest["spec"], **wrong}}, SCHEMA)


def test_the_bundle_in_a_folder_is_what_a_value_names(tmp_path):
    command = [sys.executable, "-m", "airflow_provider_orderedkafka.tools.cli", "bundle", str(tmp_path / "code")]
    subprocess.run(command, check=True)
    assert {each.name for each in (tmp_path / "code").iterdir()} == {
        bundle_name(),
        "ordered_replay.py",
        "ordered_table.py",
    }
