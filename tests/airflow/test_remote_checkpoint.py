"""Ranges of many partitions whose checkpoint is in an object store: what an application is told lies there, too."""

import random

import pytest
from support import hadoop_aws
from support.bench import steps_of
from support.object_store import BUCKET, ObjectStore
from support.outputs import FLAWLESS, check, expected_of
from support.records import Record

from airflow_provider_orderedkafka import job
from airflow_provider_orderedkafka.locations import read_report

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

PARTITIONS = 240
A_WORD = 600
"""Characters that are too few for a range of so many partitions; real ones are later in their logs, and take more."""

SOURCE = """
import sys

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from support.services import SERVERS

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, SparkSubmit, ordered_load


def by_python(launch):
    command = [sys.executable, launch.application, *launch.arguments, "--option", f'"{{SERVERS}}"']
    return BashOperator(bash_command=" ".join(command), **launch.task)


load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest")
with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    ordered_load(load, to=KafkaOutput({output!r}), spark={spark}, checkpoint="s3a://{bucket}/checkpoints")
"""


@pytest.fixture(scope="module")
def store():
    """One for the module: Airflow keeps its clients."""
    with ObjectStore() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment.items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(params=["spark-submit", "another operator"])
def started_by(request, store, spark, monkeypatch):
    """How the DAG has Spark started; an operator that starts Python itself tells Spark by its environment."""
    conf = {
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    jars = ",".join(hadoop_aws.jars(spark))
    if request.param == "spark-submit":
        return f"SparkSubmit(conf={conf!r}, jars={jars!r})"
    said = " ".join(f"--conf {name}={value}" for name, value in conf.items())
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master local[2] --jars {jars} {said} pyspark-shell")
    return "by_python"


def test_a_range_of_many_partitions_is_loaded_with_its_state_in_an_object_store(
    started_by, store, bench, dag_file, states, records, topics, monkeypatch
):
    monkeypatch.setattr(job, "LONGEST", A_WORD)
    topic, chance = topics.create("many", PARTITIONS), random.Random(1)
    places = [chance.randrange(PARTITIONS) for _ in range(3_000)]
    records.produce(topic, [Record(b"%d" % n, 1_700_000_000_000 + n, place) for n, place in enumerate(places)])
    source = SOURCE.format(load=bench.load, topic=topic, output=bench.output, spark=started_by, bucket=BUCKET)
    run = dag_file(source, f"{bench.load}.py").test()
    assert steps_of(bench, states(run)) == dict.fromkeys(("wait", "resolve", "load", "commit"), "success")
    assert check(expected_of(records, topic), records.read(bench.output)) == FLAWLESS
    resolve = run.get_task_instance(f"{bench.load}.resolve")
    place = resolve.xcom_pull(task_ids=resolve.task_id, key="checkpoint")
    report = read_report(place)
    assert (report.complete, report.attempt, report.rows_emitted) == (True, 1, len(places))
    word = resolve.xcom_pull(task_ids=resolve.task_id, key="work")
    assert word.startswith(f"at:{place}/works/") if started_by == "by_python" else word is None
    assert place.startswith(f"s3a://{BUCKET}/checkpoints/{bench.load}")
