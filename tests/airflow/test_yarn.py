"""A load on YARN, with the driver beside Airflow and in the cluster: Hadoop's mini cluster, real Spark, real Kafka."""

import getpass
import json
import os
import sys
from pathlib import Path

import pytest
from support.bench import steps_of
from support.records import Record
from support.runs import a_range, a_report
from support.stores import DocumentsCreatedOnce
from support.yarn import HOME, yarn

from airflow_provider_orderedkafka.compat.spark import hadoop_configuration
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.locations import for_spark, has_notes, read_report, readable
from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState
from airflow_provider_orderedkafka.tools.doctor.connections import checkpoint

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

SOURCE = """
from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, SparkSubmit, ordered_load

load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest")
with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load, to=KafkaOutput({output!r}), spark=SparkSubmit(**{submit!r}), checkpoint={checkpoint!r})
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
    with yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.mark.parametrize("mode", [pytest.param("client", marks=pytest.mark.nightly), "cluster"])
def test_a_load_on_yarn_commits_what_it_has_written_in_order(
    cluster, bench, dag_file, states, records, monkeypatch, mode
):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for name, value in {**cluster.environment, **LOOPBACK, "PATH": path}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
    records.produce(bench.topic, [Record(b"%d" % n, 1_700_000_000_000 + n, key=b"k") for n in range(50)])
    memory = {"driver_memory": "512m", "executor_memory": "512m", "num_executors": 1}
    submit = {"deploy_mode": mode, "conf": CONF, "env_vars": LOOPBACK, **memory}
    source = SOURCE.format(
        load=bench.load,
        topic=bench.topic,
        output=bench.output,
        checkpoint=f"{cluster.webhdfs.replace('//', f'//{getpass.getuser()}@')}/checkpoints",
        submit=submit,
    )
    run = dag_file(source, "on_yarn.py").test()
    assert steps_of(bench, states(run)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    assert [record.value for record in records.read(bench.output)] == [b"%d" % n for n in range(50)]


@pytest.fixture
def on_hdfs(cluster, spark):
    """A session whose default file system is HDFS."""
    settings = hadoop_configuration(spark)
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", cluster.hdfs)
    yield spark
    settings.set("fs.defaultFS", before)


@pytest.fixture
def state(on_hdfs, request):
    return HadoopState.of(f"hdfs:///documents/{request.node.name}", on_hdfs)


class TestDocumentsOnHdfs(DocumentsCreatedOnce):
    pass


def test_a_client_for_webhdfs_that_is_not_whole_is_refused_with_the_way_out(cluster, spark):
    with pytest.raises(SettingError, match="hdfs://"):
        HadoopState.of(f"{cluster.webhdfs}/documents", spark)


def test_airflow_reads_by_http_what_spark_writes(cluster, on_hdfs):
    location = cluster.webhdfs.replace("://", "://root@") + "/seen"
    state = HadoopState.of(for_spark(location), on_hdfs)
    assert (read_report(readable(location)), has_notes(location)) == (None, False)
    report = a_report(a_range("r1", 1, 0, 9), 1)
    state.put("notes/1.json", "a note")
    state.put("report.json", report.to_text())
    assert (read_report(readable(location)), has_notes(location)) == (report, True)
    assert checkpoint(location).status == "ok"
