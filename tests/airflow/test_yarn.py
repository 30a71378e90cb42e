"""A load on YARN, with the driver beside Airflow: Hadoop's mini cluster, real Spark, real Kafka."""

import json
import os
import sys
from pathlib import Path

import pytest
from support.bench import steps_of
from support.records import Record
from support.yarn import HOME, yarn

pytestmark = [pytest.mark.fault, pytest.mark.xdist_group("yarn"), pytest.mark.timeout(600)]

SOURCE = """
from airflow.sdk import DAG

from airflow_provider_orderedkafka import OrderedLoad, ordered_load

load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest")
with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load, output_topic={output!r}, checkpoint={checkpoint!r}, **{submit!r})
"""
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
CONF = {
    "spark.yarn.jars": f"local:{HOME / 'jars' / '*'}",
    "spark.pyspark.python": sys.executable,
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.yarn.maxAppAttempts": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with yarn(tmp_path_factory.mktemp("yarn")) as environment:
        yield environment


def test_a_load_on_yarn_commits_what_it_has_written_in_order(
    cluster, bench, dag_file, states, records, monkeypatch, tmp_path
):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for name, value in {**cluster, **LOOPBACK, "PATH": path}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
    records.produce(bench.topic, [Record(b"%d" % n, 1_700_000_000_000 + n, key=b"k") for n in range(50)])
    memory = {"driver_memory": "512m", "executor_memory": "512m", "num_executors": 1}
    submit = {"deploy_mode": "client", "conf": CONF, "env_vars": LOOPBACK, **memory}
    checkpoint = f"file://{tmp_path}/checkpoints"
    source = SOURCE.format(
        load=bench.load, topic=bench.topic, output=bench.output, checkpoint=checkpoint, submit=submit
    )
    run = dag_file(source, "on_yarn.py").test()
    assert steps_of(bench, states(run)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    assert [record.value for record in records.read(bench.output)] == [b"%d" % n for n in range(50)]
