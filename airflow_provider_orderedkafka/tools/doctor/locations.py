"""Check a checkpoint's location by trying: from this process, and from Spark's driver and executors."""

import json
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.decoding.formats import NEEDED
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.submission import Submission, masked, submission_of, submit_command
from airflow_provider_orderedkafka.reports import path_of
from airflow_provider_orderedkafka.storage.store import join, local_path
from airflow_provider_orderedkafka.tools.doctor.finding import Finding, Tries

_PROBE = Path(__file__).parents[2] / "spark" / "probe.py"
_REACHABLE = "Name a location that Airflow's workers, Spark's driver and its executors reach, and let them write there"


def from_here(location: str) -> Finding:
    """Write, read and delete a document, as Airflow's tasks reach the location."""
    name = f"orderedkafka-doctor-{uuid.uuid4().hex}"
    try:
        if folder := local_path(location):
            folder.mkdir(parents=True, exist_ok=True)
        path = path_of(join(location, name))
        path.write_text(name)
        same = path.read_text() == name
        path.unlink()
    except Exception as error:  # noqa: BLE001 - each object store has errors of its own, and all mean this
        found = f"{location}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return Finding("checkpoint from here", "broken", found, _REACHABLE)
    if not same:
        return Finding("checkpoint from here", "broken", f"{location} does not give back what was written", _REACHABLE)
    return Finding("checkpoint from here", "ok", f"write, read and delete at {location}")


def from_spark(connection: Any, tries: Tries) -> Iterator[Finding]:
    """Submit the application that tries it, as the connection says; by another program, where one is named."""
    try:
        named = {"name": "orderedkafka-doctor", "spark_binary": tries.spark_binary or None}
        submission = submission_of(connection, named)
        if submission.clustered:
            found = "the connection's deploy mode is cluster, where what the driver finds is not seen here"
            yield Finding("spark", "warning", found, "Try it by another connection with deploy-mode client")
            return
        with tempfile.TemporaryDirectory(prefix="orderedkafka-doctor-") as folder:
            yield from _submitted(submission, tries, Path(folder))
    except (SettingError, OSError) as error:
        yield Finding("spark", "broken", str(error), f"Correct the connection {connection.conn_id}")


def _submitted(submission: Submission, tries: Tries, folder: Path) -> Iterator[Finding]:
    from airflow_provider_orderedkafka.hooks.launching import elsewhere, packed
    from airflow_provider_orderedkafka.hooks.spark_process import SparkProcess, check_found, interpreter_environment

    environment, answer = interpreter_environment(submission.spark_binary), folder / "found.json"
    check_found(submission.spark_binary, environment)
    if elsewhere(submission, environment):
        submission = replace(submission, py_files=packed(folder))
    arguments = [str(answer), tries.checkpoint, *(NEEDED[each] for each in tries.formats if each in NEEDED)]
    command = submit_command(submission, str(_PROBE), arguments, environment)
    process = SparkProcess(command, submission)
    code = process.run()
    if code or not answer.exists():
        said = next((line for line in reversed(masked(process.output).splitlines()) if "rror" in line), "nothing")
        found = f"an application at master {submission.master} ended with exit code {code}; it said: {said.strip()}"
        yield Finding("spark", "broken", found, f"Try it by hand: {command.shown}")
        return
    for name, good, problem in json.loads(answer.read_text("utf-8")):
        remedy = _REACHABLE if name.startswith("checkpoint") else "The message names the remedy"
        yield Finding(name, "broken" if problem else "ok", problem or good, remedy if problem else "")
