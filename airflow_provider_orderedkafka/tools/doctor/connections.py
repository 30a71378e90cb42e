"""Check whether Airflow has the connections, and whether they work: in a process of its own, `airflow_probe`."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from airflow_provider_orderedkafka.tools.doctor.airflow_probe import kafka_finding, spark_findings
from airflow_provider_orderedkafka.tools.doctor.finding import NOTHING_MORE, Finding, Tries

_ANSWER_SECONDS = 60
_LONGER_WITH_SPARK = 5
_SIGNS_OF_AIRFLOW = ("airflow.cfg", "airflow.db")
_DATABASE_VARIABLES = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD")


def connections(kafka_conn_id: str, spark_conn_id: str, tries: Tries = NOTHING_MORE) -> list[Finding]:
    """Check both connections; without an Airflow database, only those in environment variables."""
    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow").expanduser()
    configured = any((home / name).exists() for name in _SIGNS_OF_AIRFLOW) or any(
        map(os.environ.get, _DATABASE_VARIABLES)
    )
    if configured:
        return _asked(kafka_conn_id, spark_conn_id, tries, home)
    never = Finding(
        "airflow database",
        "warning",
        f"Airflow was never set up in {home}: only AIRFLOW_CONN_... variables were checked",
        "Run: airflow db migrate (or set AIRFLOW_HOME to the right directory)",
    )
    if tries != NOTHING_MORE or _environment_may_say(kafka_conn_id, spark_conn_id):
        return [never, *_asked(kafka_conn_id, spark_conn_id, tries, None)]
    undefined = kafka_finding(kafka_conn_id, None, "warning")
    return [never, undefined, *spark_findings(spark_conn_id, None, "warning")]


def _environment_may_say(*conn_ids: str) -> bool:
    names = [f"AIRFLOW_CONN_{conn_id.upper()}" for conn_id in conn_ids]
    return any(map(os.environ.get, [*names, "AIRFLOW__SECRETS__BACKEND"]))


def _asked(kafka_conn_id: str, spark_conn_id: str, tries: Tries, home: Path | None) -> list[Finding]:
    """What the Airflow in this directory finds; or one that is set up nowhere."""
    module = "airflow_provider_orderedkafka.tools.doctor.airflow_probe"
    asked = [kafka_conn_id, spark_conn_id, json.dumps(asdict(tries)), str(home or "")]
    seconds = _ANSWER_SECONDS * (_LONGER_WITH_SPARK if tries.spark else 1)
    with tempfile.TemporaryDirectory() as nowhere:
        # Airflow writes into its home when it is only looked at: one that was never set up is not begun here.
        environment = os.environ if home else {**os.environ, "AIRFLOW_HOME": nowhere}
        try:
            answer = subprocess.run(  # noqa: S603 - our own module
                [sys.executable, "-m", module, *asked],
                env=environment,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [_silent(f"Airflow did not answer within {seconds} seconds")]
    if answer.returncode:
        said = (answer.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return [_silent(f"Airflow cannot be asked: {said}")]
    return [Finding(**found) for found in json.loads(answer.stdout)]


def _silent(why: str) -> Finding:
    return Finding("airflow", "broken", why, "Run: airflow config list (its output may show why)")
