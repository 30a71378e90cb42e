"""The functions of the page "Where Spark runs", as they stand there: each gives a request whose command line loads."""

import json
import re
from pathlib import Path

import jinja2
import jsonschema
import pytest
from support.bench import steps_of
from support.services import ARGUMENTS

from airflow_provider_orderedkafka import Application, KafkaOutput, Rows
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.spark.application.command import read_arguments

PAGE = (Path(__file__).parents[2] / "docs" / "where-spark-runs.md").read_text("utf-8")
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
PROGRAM = "s3://data/orderedkafka/ordered_replay.py"
SCHEMA = json.loads(Path(__file__).with_name("spark_application.json").read_text())
SERVICE = """
from support.services import Service

schedule(lambda launch: Service(request={kind}(launch), kind={kind!r}, folder={folder!r}, **launch.task))
"""
BY_ENVIRONMENT = {"spark_application", "databricks_run"}
"""Those whose application finds Kafka's options in its environment."""


@pytest.fixture
def run_of(bench, dag_file, connections, kafka, monkeypatch, tmp_path):
    """A run of the page's DAG, on topics of its own, with one of the page's functions for the request."""
    extra = {"bootstrap.servers": kafka.bootstrap_servers, "ssl.key.password": "hidden"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    edits = {
        '"orders", topics=["orders"]': f'"{bench.load}", topics=["{bench.topic}"]',
        '"s3://data/orderedkafka/checkpoints"': repr(f"{tmp_path}/checkpoints"),
        '"orders-ordered"': repr(bench.output),
        "min_offsets=10_000": "min_offsets=1",
    }

    def run(kind):
        source = CODE + SERVICE.format(kind=kind, folder=str(tmp_path))
        for old, new in edits.items():
            assert old in source
            source = source.replace(old, new)
        return dag_file(source, "where.py").test()

    return run


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_request_starts_the_application_with_the_run_s_range_and_the_commit_believes_its_report(
    kind, run_of, bench, states, ledger_of, kafka, tmp_path, monkeypatch
):
    if kind in BY_ENVIRONMENT:
        options = json.dumps({"kafka.bootstrap.servers": kafka.bootstrap_servers})
        monkeypatch.setenv("ORDEREDKAFKA_OPTIONS", options)
    bench.write(5)
    assert steps_of(bench, states(run_of(kind))) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    (outcome,) = ledger_of(bench.load).outcomes
    request = json.loads((tmp_path / "request.json").read_text())
    assert "hidden" not in json.dumps(request)
    found = read_arguments(ARGUMENTS[kind](request), "ordered_replay.py")
    assert (found.range.id, outcome.rows) == (outcome.range_id, 5)
    assert found.checkpoint == f"{tmp_path}/checkpoints/{outcome.range_id}"
    assert found.job == Job(KafkaOutput(bench.output), Rows(application=Application(PROGRAM)))
    assert found.source.kafka["bootstrap.servers"] == kafka.bootstrap_servers


@pytest.fixture(scope="module")
def functions():
    """What the page defines."""
    names = {}
    exec(compile(CODE, "where-spark-runs.md", "exec"), names)
    return names


@pytest.fixture(scope="module")
def page(functions):
    """What each function gives for a load."""
    launches = []

    def note(launch):
        from airflow.providers.standard.operators.empty import EmptyOperator

        launches.append(launch)
        return EmptyOperator(**launch.task)

    functions["schedule"](note)
    return {kind: functions[kind](launches[0]) for kind in ARGUMENTS}


def test_the_operator_for_emr_serverless_is_made_as_the_page_makes_it(functions):
    load = functions["schedule"](functions["by_emr_serverless"]).get_task("orders.load")
    assert load.job_driver["sparkSubmit"]["entryPoint"] == PROGRAM
    assert load.waiter_max_attempts * load.waiter_delay == 12 * 60 * 60


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_each_request_names_the_application(page, kind):
    assert json.dumps(PROGRAM) in json.dumps(page[kind])


def test_the_code_of_this_package_travels_where_no_image_has_it(page):
    bundle = "s3://data/orderedkafka/bundle.zip"
    assert page["livy_batch"]["py_files"] == [bundle]
    assert page["emr_serverless_job"]["sparkSubmit"]["sparkSubmitParameters"].startswith(f"--py-files {bundle} --conf ")
    assert page["dataproc_batch"]["pyspark_batch"]["python_file_uris"] == [bundle]


def test_databricks_is_left_to_fill_in_its_secret_itself(page):
    (secret,) = page["databricks_run"]["new_cluster"]["spark_env_vars"].values()
    assert jinja2.Template(secret).render() == "{{secrets/kafka/orders}}"


def test_the_manifest_for_kubernetes_is_one_that_spark_s_operator_takes(page):
    manifest = page["spark_application"]
    jsonschema.validate(manifest, SCHEMA)
    spec = manifest["spec"]
    assert (spec["type"], spec["mode"], spec["restartPolicy"]) == ("Python", "cluster", {"type": "Never"})
    assert spec["driver"]["env"] == [
        {"name": "ORDEREDKAFKA_OPTIONS", "valueFrom": {"secretKeyRef": {"name": "kafka-orders", "key": "options"}}}
    ]
    assert {pod["labels"]["orderedkafka-load"] for pod in (spec["driver"], spec["executor"])} == {"orders"}
    assert manifest["metadata"]["annotations"]["orderedkafka/report"].endswith("}}/report.json")


@pytest.mark.parametrize("wrong", [{"argument": []}, {"mode": "clustered"}, {"restartPolicy": {"type": "never"}}])
def test_the_schema_refuses_what_spark_s_operator_would_not_know(page, wrong):
    manifest = page["spark_application"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**manifest, "spec": {**manifest["spec"], **wrong}}, SCHEMA)
