"""A user's programs, checked as their own `mypy --strict` checks them against the installed package."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ["user_dag.py", "user_application.py", "mistakes.py"]


def test_programs_that_are_right_pass_and_each_mistake_is_found():
    """An unneeded `type: ignore` is an error, so every line of mistakes.py has to be one that mypy objects to."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "user"), *PROGRAMS]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parent,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout.startswith("Success: no issues found in 3 source files"), done.stdout + done.stderr


def test_ordered_load_passes_on_every_argument_of_spark_submit_but_those_that_are_its_own(tmp_path):
    """`java_class` is for Java, `reconnect_on_retry` is now `durable`, and spark-submit itself follows Kubernetes."""
    code = """
import inspect
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow_provider_orderedkafka.hooks.launching import SubmitArguments
known = inspect.signature(SparkSubmitOperator).parameters
print(sorted(known.keys() ^ SubmitArguments.__annotations__.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    ours = ["application", "conn_id", "java_class", "kwargs", "reconnect_on_retry"]
    ours += ["track_driver_via_k8s_api"]
    assert done.stdout.splitlines()[-1:] == [str(ours)], done.stderr
