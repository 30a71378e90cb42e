"""A load by the spark-submit of another environment: another Spark, a Python of its own, nothing of ours."""

import pytest
from support.another_spark import NEWEST, OLDEST, environment
from support.applications import events
from support.outputs import FLAWLESS, by_partition, check, expected_of

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

SUCCESS = {"wait": "success", "resolve": "success", "load": "success", "commit": "success"}

APPLICATION = """
import sys
from pathlib import Path

import pyspark
from airflow_provider_orderedkafka.spark.app import run_available_now

Path({said!r}).write_text(f"Spark {{pyspark.__version__}} by {{sys.prefix}}")
run_available_now(lambda records: records.where("value is not null"))
"""

DAG = """
from airflow.sdk import DAG

from airflow_provider_orderedkafka import Application, KafkaOutput, OrderedLoad, Rows, SparkSubmit, ordered_load

load = OrderedLoad({output!r}, topics=[{source!r}], start="earliest")
with DAG("another_spark", schedule=None, max_active_runs=1):
    ordered_load(
        load,
        to=KafkaOutput({output!r}, writers=3, keep_order="partition"),
        rows=Rows(application=Application({application!r})),
        spark=SparkSubmit(spark_binary={binary!r}),
    )
"""


@pytest.mark.parametrize("requirements", [OLDEST, NEWEST], ids=lambda each: each[0])
def test_a_load_by_the_spark_submit_of_another_environment_runs_there_and_is_committed(
    connections, dag_file, topics, records, states, ledger_of, monkeypatch, tmp_path, requirements
):
    for name in ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    home = environment(requirements)
    source, output = topics.create("in", 3), topics.create("out", 4)
    records.produce(source, events(600, 1))
    application, said = tmp_path / "application.py", tmp_path / "said"
    application.write_text(APPLICATION.format(said=str(said)))
    binary = str(home / "bin" / "spark-submit")
    dag = dag_file(DAG.format(source=source, output=output, application=str(application), binary=binary))
    run = dag.test()
    assert {task.partition(".")[2]: state for task, state in states(run).items()} == SUCCESS
    assert said.read_text() == f"Spark {requirements[0].removeprefix('pyspark==')} by {home}"
    assert ledger_of(output).rows_emitted == 600
    assert check(expected_of(records, source), records.read(output), by_partition) == FLAWLESS
