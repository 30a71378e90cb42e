"""The usual mistakes, each made in a real DAG: when it is told, and in which words."""

import json
import os
import sys
from pathlib import Path

import pytest
from support import mistakes
from support.mistakes import AT_PARSE, AT_START, says

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.job import Job

OURS = "airflow_provider_orderedkafka.errors."


@pytest.fixture(scope="module")
def beside(airflow_home):
    """What lies beside the DAG files."""
    folder = airflow_home / "dags"
    files = {"my_transforms.py": mistakes.MODULE, "broken.py": "def lines(:\n", "app.py": "print('an application')\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    yield folder
    for name in files:
        (folder / name).unlink()


@pytest.fixture
def parse(beside, dag_file, monkeypatch):
    """Parses a DAG file with this in it; the last line of what Airflow says of it."""
    monkeypatch.setenv("AIRFLOW_CONN_BIG", "spark://master:7077")

    def told(mistake):
        own = f"mistaken_{AT_PARSE.index(mistake)}.py"  # Python keeps what a file of this name, size and second was
        with pytest.raises(RuntimeError) as refused:
            dag_file(mistake.file, own)
        return str(refused.value).strip().splitlines()[-1]

    return told


@pytest.mark.parametrize("mistake", AT_PARSE, ids=lambda mistake: mistake.code)
def test_a_mistake_in_a_dag_file_is_told_when_it_is_parsed(mistake, parse):
    said = parse(mistake)
    assert said.startswith(f"{OURS}SettingError: "), said
    assert says(said, mistake.said), said


@pytest.fixture
def connections(monkeypatch):
    """Connections of which a load needs to know no more than what they say."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}
    spark = {"SPARK_DEFAULT": "local[2]", "DEAD": "spark://127.0.0.1:1", "PORTLESS": "spark://nohost"}
    said = {name: {"conn_type": "spark", "host": host} for name, host in spark.items()}
    for name, each in {**said, "KAFKA_DEFAULT": kafka}.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(each))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


@pytest.mark.usefixtures("beside", "connections")
@pytest.mark.parametrize("mistake", AT_START, ids=lambda mistake: mistake.arguments)
def test_what_spark_would_say_is_told_before_an_attempt_is_counted(mistake, dag_file):
    load = dag_file(mistake.file, f"starting_{AT_START.index(mistake)}.py").get_task("orders.load")
    with pytest.raises(OrderedKafkaError) as refused:
        load._way({}, Job(load.to, load.rows))
    assert says(str(refused.value), mistake.said), refused.value
    assert refused.value.retryable == mistake.again
