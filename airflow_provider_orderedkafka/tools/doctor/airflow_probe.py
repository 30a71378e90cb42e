"""Check what Airflow knows, in a separate process, because Airflow logs and keeps state.

    python -m airflow_provider_orderedkafka.tools.doctor.airflow_probe KAFKA_CONN_ID SPARK_CONN_ID TRIES HOME

Prints the findings as JSON; HOME is empty where no Airflow was ever set up. No secret is printed.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.submission import BINARY, master_of
from airflow_provider_orderedkafka.ledgers import VARIABLE
from airflow_provider_orderedkafka.tools.doctor.finding import Finding, Status, Tries
from airflow_provider_orderedkafka.tools.doctor.spark import spark_behind

_ANSWER_SECONDS = 5


def main(kafka_conn_id: str, spark_conn_id: str, tries: str, home: str) -> Iterator[Finding]:
    asked = Tries(**json.loads(tries))
    kafka, spark = _connection(kafka_conn_id), _connection(spark_conn_id)
    # What is not defined must be mended only where there is an Airflow to define it in.
    missing: Status = "broken" if home else "warning"
    if home:
        yield _database(home)
    found = kafka_finding(kafka_conn_id, kafka, missing)
    yield found
    yield from spark_findings(spark_conn_id, spark, missing, asked.spark_binary)
    yield _ledgers()
    yield from _tried_more(kafka, spark, asked, answers=found.status == "ok")


def _database(home: str) -> Finding:
    from airflow.utils.session import create_session
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            problem = "" if inspect(session.get_bind()).has_table("connection") else "has no tables yet"
    except (SQLAlchemyError, OSError) as error:
        problem = f"cannot be reached ({type(error).__name__})"
    if problem:
        return Finding("airflow database", "broken", f"the database of {home} {problem}", "Run: airflow db migrate")
    return Finding("airflow database", "ok", f"Airflow's home is {home}")


def _ledgers() -> Finding:
    """Where loads keep their ledgers that do not say it themselves."""
    from airflow.version import version

    from airflow_provider_orderedkafka.compat.airflow import has_asset_state
    from airflow_provider_orderedkafka.ledgers import default_location

    location = default_location()
    if location or has_asset_state():
        return Finding("ledgers", "ok", location or "in Airflow's asset state store")
    found = f"Airflow {version} has no asset state store (it came with 3.3), and no location is set"
    remedy = f"Set {VARIABLE} to a location that all of Airflow reaches, or ledger= of each load"
    return Finding("ledgers", "warning", found, remedy)


def _tried_more(kafka: Any, spark: Any, tries: Tries, *, answers: bool) -> Iterator[Finding]:
    from airflow_provider_orderedkafka.tools.doctor.certificates import certificates
    from airflow_provider_orderedkafka.tools.doctor.locations import from_here, from_spark

    if kafka is not None and kafka.extra_dejson.get("bootstrap.servers"):
        yield from certificates(kafka.extra_dejson)
    if answers:
        yield from _permissions(kafka, tries)
    if tries.checkpoint:
        yield from_here(tries.checkpoint)
    if tries.spark and spark is not None:
        yield from from_spark(spark, tries)


def _permissions(kafka: Any, tries: Tries) -> Iterator[Finding]:
    from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
    from airflow_provider_orderedkafka.tools.doctor.permissions import permissions

    try:
        config = KafkaConfig.from_connection(kafka.extra_dejson)
    except SettingError as error:
        yield Finding(f"connection {kafka.conn_id}", "broken", str(error), "Correct the connection's extra")
        return
    yield from permissions(config, tries)


def _connection(conn_id: str) -> Any:
    """Search like Airflow: secrets backends, the environment, the database."""
    from airflow.models.connection import Connection
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None


def kafka_finding(conn_id: str, connection: Any, missing: Status) -> Finding:
    """A finding on the connection, which is tried; `missing` where there is none."""
    name, extra = f"connection {conn_id}", '{"bootstrap.servers": "127.0.0.1:9092"}'
    if connection is None:
        remedy = f"Run: airflow connections add {conn_id} --conn-type kafka --conn-extra '{extra}'"
        return Finding(name, missing, "not defined", remedy)
    config = connection.extra_dejson
    servers = config.get("bootstrap.servers")
    if not servers:
        return Finding(name, "broken", "has no bootstrap.servers", f"Add it to the connection's extra, such as {extra}")
    problem, remedy = _tried(config)
    return Finding(name, "broken", problem, remedy) if problem else Finding(name, "ok", f"{servers} answers")


def _tried(config: dict[str, Any]) -> tuple[str, str]:
    """What is wrong with a connection's settings or its broker, and the remedy; empty if it answers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # Callbacks are dotted paths here, which only Airflow's own hooks resolve.
    plain = {name: value for name, value in config.items() if not name.endswith("_cb")}
    reasons: list[str] = []
    try:
        admin = AdminClient({**plain, "log_level": 0, "error_cb": lambda error: reasons.append(error.str())})
    except (KafkaException, TypeError, ValueError) as error:
        remedy = "Correct the connection's extra: it is librdkafka's configuration"
        return f"librdkafka refuses its settings: {_text(error)}", remedy
    try:
        admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        admin.poll(0)  # brings the reasons, which say more than the error
        remedy = "Start the broker (a local one: `orderedkafka broker start`), or correct address and security"
        return f"{config['bootstrap.servers']} cannot be reached: {(reasons or [_text(error)])[0]}", remedy
    return "", ""


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)


def spark_findings(conn_id: str, connection: Any, missing: Status, named: str = "") -> Iterator[Finding]:
    """Findings on the connection and on the spark-submit that it, or a load, names; `missing` where there is none."""
    name = f"connection {conn_id}"
    if connection is None:
        remedy = f"Run: airflow connections add {conn_id} --conn-type spark --conn-host 'local[2]'"
        yield Finding(name, missing, "not defined", remedy)
        return
    yield Finding(name, "ok", f"master {master_of(connection)}")
    binary = named or connection.extra_dejson.get("spark-binary") or BINARY
    yield _spark_submit(binary)
    yield from spark_behind(binary)


def _spark_submit(binary: str) -> Finding:
    if on_path := shutil.which(binary):
        return Finding(binary, "ok", on_path)
    beside = Path(sys.executable).with_name(binary)
    if beside.exists():
        return Finding(binary, "ok", f"{beside} (not on PATH, but loads find it beside their Python)")
    return Finding(binary, "broken", "not on PATH", "Run: pip install pyspark, or put Spark's bin directory on PATH")


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Airflow prints is no part of the answer
    json.dump([asdict(finding) for finding in main(*sys.argv[1:])], answer)
    answer.close()
