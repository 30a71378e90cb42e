"""A load where a session is one of Spark Connect: refused in one sentence, before an attempt or Spark is begun."""

import subprocess
import sys

import pytest
from support.applications import source_and_output
from support.quick_java import environment

from airflow_provider_orderedkafka.errors import USAGE

LOAD = """
import sys

from airflow_provider_orderedkafka.spark.app import run_available_now

if {session}:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote("local[1]").getOrCreate()
    assert session.range(3).count() == 3
run_available_now(argv=sys.argv[1:])
"""
SENTENCE = "a load needs a Spark session with a JVM of its own, and {said} makes it one of Spark Connect: "


@pytest.mark.parametrize(
    ("session", "variables", "said"),
    [
        (False, {"SPARK_REMOTE": "sc://localhost:1"}, "SPARK_REMOTE='sc://localhost:1'"),
        (False, {"SPARK_API_MODE": "connect"}, "SPARK_API_MODE='connect'"),
        (True, {}, "SPARK_CONNECT_MODE_ENABLED='1'"),
    ],
)
def test_a_load_on_a_session_of_spark_connect_is_refused_before_an_attempt_is_begun(
    session, variables, said, topics, records, kafka, tmp_path, monkeypatch
):
    source, output = source_and_output(topics, records, 10)
    for name, value in {**environment(), **variables}.items():
        monkeypatch.setenv(name, value)
    options = (f"kafka.bootstrap.servers={kafka.bootstrap_servers}", f"subscribe={source}", "startingOffsets=earliest")
    given = [part for option in options for part in ("--option", option)]
    command = [sys.executable, "-W", "ignore", "-c", LOAD.format(session=session), "--checkpoint", str(tmp_path / "c")]
    command += [*given, "--output-topic", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, SENTENCE.format(said=said) in done.stderr) == (USAGE, True), done.stderr[-2_000:]
    assert not (tmp_path / "c").exists()
    assert records.read(output) == []
