"""Check whether Airflow has the connections, and whether they work."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.ledgers import VARIABLE
from airflow_provider_orderedkafka.tools.doctor.finding import NOTHING_MORE, Finding, Status, Tries
from airflow_provider_orderedkafka.tools.doctor.spark import spark_behind

_ANSWER_SECONDS = 60
_LONGER_WITH_SPARK = 5
_SIGNS_OF_AIRFLOW = ("airflow.cfg", "airflow.db")
_NOTHING: dict[str, Any] = {"database": None, "kafka": None, "spark": None, "ledgers": None, "tried": []}
_DATABASE_VARIABLES = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD")


def connections(kafka_conn_id: str, spark_conn_id: str, tries: Tries = NOTHING_MORE) -> list[Finding]:
    """Check both connections; without an Airflow database, only those in environment variables."""
    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow").expanduser()
    configured = any((home / name).exists() for name in _SIGNS_OF_AIRFLOW) or any(
        map(os.environ.get, _DATABASE_VARIABLES)
    )
    asked = configured or tries != NOTHING_MORE or _environment_may_say(kafka_conn_id, spark_conn_id)
    facts = _ask(kafka_conn_id, spark_conn_id, tries, configured=configured) if asked else dict(_NOTHING)
    if isinstance(facts, str):
        return [Finding("airflow", "broken", facts, "Run: airflow config list (its output may show why)")]
    # What is not defined must be mended only where there is an Airflow to define it in.
    missing: Status = "broken" if configured else "warning"
    return [
        _airflow(home, facts["database"], configured=configured),
        *_kafka(kafka_conn_id, facts["kafka"], missing),
        *_spark(spark_conn_id, facts["spark"], missing),
        *_ledgers(facts["ledgers"]),
        *(Finding(**found) for found in facts["tried"]),
    ]


def _environment_may_say(*conn_ids: str) -> bool:
    names = [f"AIRFLOW_CONN_{conn_id.upper()}" for conn_id in conn_ids]
    return any(map(os.environ.get, [*names, "AIRFLOW__SECRETS__BACKEND"]))


def _ask(kafka_conn_id: str, spark_conn_id: str, tries: Tries, *, configured: bool) -> dict[str, Any] | str:
    command = [
        sys.executable,
        "-m",
        "airflow_provider_orderedkafka.tools.doctor.airflow_probe",
        kafka_conn_id,
        spark_conn_id,
        json.dumps(asdict(tries)),
    ]
    seconds = _ANSWER_SECONDS * (_LONGER_WITH_SPARK if tries.spark else 1)
    with tempfile.TemporaryDirectory() as nowhere:
        # Airflow writes into its home when it is only looked at: one that was never set up is not begun here.
        environment = os.environ if configured else {**os.environ, "AIRFLOW_HOME": nowhere}
        try:
            answer = subprocess.run(  # noqa: S603 - our own module
                command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return f"Airflow did not answer within {seconds} seconds"
    if answer.returncode:
        return f"Airflow cannot be asked: {(answer.stderr.strip().splitlines() or ['it said nothing'])[-1]}"
    facts: dict[str, Any] = json.loads(answer.stdout)
    return facts


def _airflow(home: Path, problem: str | None, *, configured: bool) -> Finding:
    if not configured:
        return Finding(
            "airflow database",
            "warning",
            f"Airflow was never set up in {home}: only AIRFLOW_CONN_... variables were checked",
            "Run: airflow db migrate (or set AIRFLOW_HOME to the right directory)",
        )
    if problem:
        return Finding("airflow database", "broken", f"the database of {home} {problem}", "Run: airflow db migrate")
    return Finding("airflow database", "ok", f"Airflow's home is {home}")


def _ledgers(facts: dict[str, Any] | None) -> Iterator[Finding]:
    if facts is None:
        return
    if facts["missing"]:
        found = f"Airflow {facts['airflow']} has no asset state store (it came with 3.3), and no location is set"
        remedy = f"Set {VARIABLE} to a location that all of Airflow reaches, or ledger= of each load"
        yield Finding("ledgers", "warning", found, remedy)
    else:
        yield Finding("ledgers", "ok", facts["location"] or "in Airflow's asset state store")


def _kafka(conn_id: str, facts: dict[str, Any] | None, missing: Status) -> Iterator[Finding]:
    name = f"connection {conn_id}"
    extra = '{"bootstrap.servers": "127.0.0.1:9092"}'
    if facts is None:
        remedy = f"Run: airflow connections add {conn_id} --conn-type kafka --conn-extra '{extra}'"
        yield Finding(name, missing, "not defined", remedy)
    elif not facts["bootstrap_servers"]:
        yield Finding(name, "broken", "has no bootstrap.servers", f"Add it to the connection's extra, such as {extra}")
    elif facts["refused"]:
        found = f"librdkafka refuses its settings: {facts['refused']}"
        yield Finding(name, "broken", found, "Correct the connection's extra: it is librdkafka's configuration")
    elif facts["unreachable"]:
        found = f"{facts['bootstrap_servers']} cannot be reached: {facts['unreachable']}"
        remedy = "Start the broker (a local one: `orderedkafka broker start`), or correct address and security"
        yield Finding(name, "broken", found, remedy)
    else:
        yield Finding(name, "ok", f"{facts['bootstrap_servers']} answers")


def _spark(conn_id: str, facts: dict[str, Any] | None, missing: Status) -> Iterator[Finding]:
    name = f"connection {conn_id}"
    if facts is None:
        remedy = f"Run: airflow connections add {conn_id} --conn-type spark --conn-host 'local[2]'"
        yield Finding(name, missing, "not defined", remedy)
        return
    yield Finding(name, "ok", f"master {facts['master']}")
    yield _spark_submit(facts["binary"])
    yield from spark_behind(facts["binary"])


def _spark_submit(binary: str) -> Finding:
    if on_path := shutil.which(binary):
        return Finding(binary, "ok", on_path)
    beside = Path(sys.executable).with_name(binary)
    if beside.exists():
        return Finding(binary, "ok", f"{beside} (not on PATH, but loads find it beside their Python)")
    return Finding(binary, "broken", "not on PATH", "Run: pip install pyspark, or put Spark's bin directory on PATH")
