"""`audit=True`: the task that reads a committed range's output again, under `dag.test()` with a real Spark."""

import json
import os
import subprocess
import sys

import pytest
from support.bench import steps_of
from support.messages import naming
from support.records import Record

from airflow_provider_orderedkafka import (
    Allow,
    DeltaOutput,
    FilesOutput,
    IcebergOutput,
    KafkaOutput,
    OrderedLoad,
    Rows,
    parsing,
)
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools.commands.at_airflow import statuses

START = 1_700_000_000_000
CLEAN = dict.fromkeys(("wait", "resolve", "load", "commit", "audit"), "success")

SOURCE = """
import json
from pathlib import Path

from airflow.sdk import DAG, task
from confluent_kafka import Consumer, Producer, TopicPartition

from airflow_provider_orderedkafka import *

load = OrderedLoad({load!r}, topics=[{topic!r}], start="earliest")

@task
def meddle():
    \"\"\"What somebody does to the output between the commit and the audit: writes the first row again.\"\"\"
    if not Path({mark!r}).exists():
        return
    servers = {servers!r}
    consumer = Consumer({{"bootstrap.servers": servers, "group.id": "meddle", "auto.offset.reset": "earliest"}})
    consumer.assign([TopicPartition({output!r}, 0, 0)])
    row = consumer.poll(60)
    consumer.close()
    producer = Producer({{"bootstrap.servers": servers}})
    producer.produce({output!r}, row.value(), row.key(), timestamp=row.timestamp()[1], headers=row.headers())
    producer.flush()

with DAG({load!r}, schedule=None, catchup=False, max_active_runs=1):
    group = ordered_load(load, to=KafkaOutput({output!r}), checkpoint={checkpoint!r}, audit=True)
    group.tasks["commit"] >> meddle() >> group.tasks["audit"]
"""


@pytest.fixture
def audited(bench, dag_file, kafka, tmp_path):
    """The DAG of a load that is audited, whose output is meddled with if the file `meddle` is there."""
    bench._records.produce(bench.topic, [Record(b"%d" % n, START + n, 0, b"k%d" % (n % 3)) for n in range(20)])
    source = SOURCE.format(
        load=bench.load,
        topic=bench.topic,
        output=bench.output,
        servers=kafka.bootstrap_servers,
        mark=str(tmp_path / "meddle"),
        checkpoint=str(tmp_path / "checkpoints"),
    )
    return dag_file(source, f"{bench.load.replace('-', '_')}.py")


def audit_row_of(load):
    """What the page has of the load's newest range."""
    return statuses()[load].ranges[-1].audit


def xcom(run, key):
    (audit,) = [ti for ti in run.get_task_instances() if ti.task_id.endswith(".audit")]
    return audit.xcom_pull(key=key, task_ids=audit.task_id)


def test_a_range_that_is_as_promised_is_clean_and_one_that_somebody_meddled_with_fails_with_the_place(
    bench, audited, states, ledger_of, tmp_path, capsys, state_stores
):
    run = audited.test()
    assert {name: state for name, state in steps_of(bench, states(run)).items() if name != "meddle"} == CLEAN
    said = xcom(run, "audit")
    assert ([each["verdict"] for each in said["ranges"]], said["unknown"], said["places"]) == (["clean"], 0, [])
    assert audit_row_of(bench.load).verdict == "clean"
    (tmp_path / "meddle").touch()
    bench._records.produce(bench.topic, [Record(b"more", START + 100, 0, b"k1")])
    bench._records.delete_before(bench.output, {0: 20})
    run = audited.test()
    found = steps_of(bench, states(run))
    assert (found["commit"], found["audit"]) == ("success", "failed")
    assert ledger_of(bench.load).revision == 2
    (place,) = xcom(run, "audit")["places"]
    assert (place["what"], place["record"]) == ("doubled", f"{bench.topic}[0]@20")
    row = audit_row_of(bench.load)
    assert (row.verdict, row.doubled) == ("found", 1)
    assert place["record"] in row.said
    assert f"doubled: {bench.topic}[0]@20 at {bench.output}[0]@21" in "".join(capsys.readouterr())


def test_what_cannot_be_known_skips_the_audit_and_says_why(bench, states, state_stores):
    bench.write(3)
    dag = bench.dag(arguments=f"to=KafkaOutput({bench.output!r}), audit=True")
    run = dag.test()  # its quick application writes a report that an audit cannot begin with
    assert steps_of(bench, states(run)) == {**CLEAN, "audit": "skipped"}
    assert "unknown" in xcom(run, "skipped")
    assert xcom(run, "audit")["ranges"][0]["verdict"] == "unknown"
    row = audit_row_of(bench.load)
    assert (row.verdict, row.unknown) == ("unknown", 3)


def test_an_audit_that_does_not_find_the_report_fails_and_says_what_to_name(bench, states, capsys, tmp_path):
    bench.write(3)
    moved = f"def moved(context): context['task'].checkpoint = {str(tmp_path)!r}"
    arguments = f"to=KafkaOutput({bench.output!r}), audit=True, tasks={{'audit': {{'pre_execute': moved}}}}"
    run = bench.dag(arguments=arguments, first=moved).test()
    assert steps_of(bench, states(run))["audit"] == "failed"
    assert "checkpoint=" in "".join(capsys.readouterr())


@pytest.mark.fault
def test_openlineage_is_told_what_a_load_read_and_wrote_and_what_an_audit_asserts_and_spark_who_its_parent_is(
    bench, audited, kafka, tmp_path
):
    pytest.importorskip("airflow.providers.openlineage", reason="it is not required")
    file = tmp_path / "events.jsonl"
    (tmp_path / "meddle").touch()
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "dags", "test", audited.dag_id],
        env={
            **os.environ,
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
            "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
            "PYTHONWARNINGS": "ignore",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    events = {(each["eventType"], each["job"]["name"].rpartition(".")[2]): each for each in lines}
    load = events["COMPLETE", "load"]
    namespace = f"kafka://{kafka.bootstrap_servers}"
    (read,), (written,) = load["inputs"], load["outputs"]
    assert (read["namespace"], read["name"]) == (namespace, bench.topic)
    assert (written["namespace"], written["name"]) == (namespace, bench.output)
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 20
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 20
    assert written["outputFacets"]["outputStatistics"]["size"] > 0
    assert f"spark.openlineage.parentJobName={load['job']['name']}" in done.stdout + done.stderr
    assert f"spark.openlineage.parentRunId={load['run']['runId']}" in done.stdout + done.stderr
    looked_at = {each["name"]: each["inputFacets"] for each in events["FAIL", "audit"]["inputs"]}
    assert looked_at.keys() == {bench.topic, bench.output}
    asserted = looked_at[bench.output]["dataQualityAssertions"]["assertions"]
    wrong = [each["assertion"] for each in asserted if not each["success"]]
    assert (len(asserted), wrong) == (10, ["no row is doubled"])


LOAD = OrderedLoad("orders", topics=["orders"])


@pytest.mark.parametrize(
    ("to", "rows", "package"),
    [
        (DeltaOutput("/lake/orders"), Rows(), "deltalake"),
        (IcebergOutput("lake.orders"), Rows(), "pyiceberg"),
        (FilesOutput("/lake"), Rows(bad_records=Allow(1, DeltaOutput("/lake/dead"))), "deltalake"),
        (FilesOutput("/lake", "avro"), Rows(), "cramjam"),
    ],
)
def test_what_an_audit_needs_is_asked_for_when_the_dag_is_parsed(to, rows, package, monkeypatch):
    parsing.check_audit(LOAD, to, rows)
    monkeypatch.setattr(parsing, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=naming(f"'{package}' ... [audit]")):
        parsing.check_audit(LOAD, to, rows)
    parsing.check_audit(LOAD, KafkaOutput("out"), Rows())
