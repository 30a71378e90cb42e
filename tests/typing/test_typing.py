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


def test_spark_submit_takes_every_argument_of_airflow_s_operator_or_says_why_it_does_not(tmp_path):
    """Where it takes none of this name, it has a reason of its own, not a name that is near."""
    code = """
import inspect
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow_provider_orderedkafka import SparkSubmit
from airflow_provider_orderedkafka.errors import SettingError
for name in sorted(inspect.signature(SparkSubmitOperator).parameters.keys() - {"kwargs"}):
    try:
        SparkSubmit(**{name: None})
    except SettingError as error:
        _, _, why = str(error).partition(f"takes no argument {name!r}: ")
        print(name, "is refused" if why and not why.startswith(("did you mean", "known are")) else error)
    else:
        print(name, "is taken")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert set(said.values()) == {"is taken", "is refused"}, done.stdout + done.stderr
    assert {said["conn_id"], said["executor_memory"], said["conf"]} == {"is taken"}
    assert {said["java_class"], said["application"], said["application_args"]} == {"is refused"}
