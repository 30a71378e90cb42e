"""Without pyspark and pandas, which are an extra, all but the load itself runs; without Airflow, too, the reader."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.applications import events
from support.leaner import READER_ALONE, WITHOUT_SPARK, environment_without
from support.outputs import FLAWLESS, check, expected_of
from support.quick_java import SPARK_SUBMIT

pytestmark = pytest.mark.fault

EXAMPLES = Path(__file__).parents[2] / "dags"

DAG = """
from airflow.sdk import DAG

from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, SparkSubmit, ordered_load

load = OrderedLoad({output!r}, topics=[{source!r}], start="earliest", min_offsets=100)
with DAG("without_spark", schedule=None, max_active_runs=1):
    output = KafkaOutput({output!r}, keep_order="partition")
    ordered_load(load, to=output, spark=SparkSubmit(spark_binary={binary!r}))
"""

LOOK = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
print(json.dumps([sorted(bag.dags), bag.import_errors, sorted({"pyspark", "pandas"} & sys.modules.keys())]))
"""


def running_in(folder):
    """Runs a program of an environment; what it printed."""

    def run(program, *arguments):
        command = [folder / "bin" / program, *arguments]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
        assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
        return done.stdout

    return run


@pytest.fixture(scope="module")
def without_spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("without") / "environment"
    environment_without(folder, *WITHOUT_SPARK)
    return running_in(folder)


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_the_environment_has_neither_a_module_nor_the_metadata_of(without_spark, package):
    look = "import importlib.util as u, importlib.metadata as m, sys; n = sys.argv[1]; print(u.find_spec(n), "
    assert without_spark("python", "-c", f"{look}*m.distributions(name=n))", package).strip() == "None"


def test_every_example_is_parsed_without_spark(without_spark, airflow_home):
    dags, errors, imported = json.loads(without_spark("python", "-c", LOOK, str(EXAMPLES)).splitlines()[-1])
    assert len(dags) >= len(list(EXAMPLES.glob("*.py")))
    assert (errors, imported) == ({}, [])


def test_a_load_by_the_spark_of_another_environment_is_planned_resolved_committed_and_shown_without_one(
    without_spark, connections, dag_file, topics, records, ledger_of, monkeypatch
):
    for name in ("PYTHONPATH", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    source, output = topics.create("in", 3), topics.create("out")
    records.produce(source, events(600, 1))
    dag = dag_file(DAG.format(source=source, output=output, binary=str(SPARK_SUBMIT)))
    assert f"{source}[0]@0" in without_spark("orderedkafka", "plan", dag.fileloc)
    without_spark("airflow", "dags", "test", "without_spark")
    assert (ledger_of(output).revision, ledger_of(output).rows_emitted) == (1, 600)
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert json.loads(without_spark("orderedkafka", "ledger", "show", output, "--json"))["revision"] == 1
    printed = without_spark("orderedkafka", "read", source, "--kafka-conn-id", "kafka_default", "--format", "jsonl")
    assert len(printed.splitlines()) == 600


def test_the_doctor_finds_nothing_broken_and_says_what_brings_a_spark(
    without_spark, airflow_home, connections, monkeypatch
):
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    report = json.loads(without_spark("orderedkafka", "doctor", "--json"))["findings"]
    findings = {each["name"]: each for each in report}
    assert "broken" not in {each["status"] for each in report}
    assert "pip install 'airflow-provider-orderedkafka[spark]'" in findings["pyspark"]["found"]
    assert findings["connection spark_default"]["status"] == "warning"


def test_the_doctor_finds_nothing_to_mend_where_the_reader_is_alone_and_the_reader_reads(tmp_path, topics, records):
    environment_without(tmp_path / "environment", *READER_ALONE)
    run, source = running_in(tmp_path / "environment"), topics.create("in", 3)
    records.produce(source, events(60, 1))
    report = json.loads(run("orderedkafka", "doctor", "--json"))
    assert {each["status"] for each in report["findings"]} == {"ok"}
    (install,) = [each["found"] for each in report["findings"] if each["name"] == "install"]
    assert "pip install 'airflow-provider-orderedkafka[airflow,spark]'" in install
    read = run("orderedkafka", "read", source, "-b", records.servers, "--format", "jsonl")
    assert len(read.splitlines()) == 60
