"""Read the connections from Airflow, in a separate process, because Airflow logs and keeps state.

    python -m airflow_provider_orderedkafka.tools.doctor.airflow_probe KAFKA_CONN_ID SPARK_CONN_ID TRIES

Prints one JSON object: `database` (what is wrong with it, or null), `kafka` and `spark` (null if the connection is
not defined), `ledgers`, and `tried`, the findings of what else is tried. No secret is printed.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.submission import BINARY, master_of
from airflow_provider_orderedkafka.tools.doctor.finding import Finding, Tries

_ANSWER_SECONDS = 5


def main(kafka_conn_id: str, spark_conn_id: str, tries: str) -> dict[str, Any]:
    kafka, spark, asked = _connection(kafka_conn_id), _connection(spark_conn_id), Tries(**json.loads(tries))
    found = _kafka(kafka)
    tried = _tried_more(kafka, spark, asked, answers=_answers(found))
    return {
        "database": _database_problem(),
        "kafka": found,
        "spark": _spark(spark, asked.spark_binary),
        "ledgers": _ledgers(),
        "tried": [asdict(finding) for finding in tried],
    }


def _ledgers() -> dict[str, str | bool]:
    """Where loads keep their ledgers that do not say it themselves; `missing` where they have to."""
    from airflow.version import version

    from airflow_provider_orderedkafka.compat.airflow import has_asset_state
    from airflow_provider_orderedkafka.ledgers import default_location

    location = default_location()
    return {"airflow": version, "location": location or "", "missing": not location and not has_asset_state()}


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
        yield from from_spark(spark, tries.checkpoint, tries.spark_binary)


def _answers(kafka: dict[str, Any] | None) -> bool:
    """Whether there is a Kafka to ask."""
    return bool(kafka and kafka["bootstrap_servers"] and not kafka["refused"] and not kafka["unreachable"])


def _permissions(kafka: Any, tries: Tries) -> Iterator[Finding]:
    from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
    from airflow_provider_orderedkafka.tools.doctor.permissions import permissions

    try:
        config = KafkaConfig.from_connection(kafka.extra_dejson)
    except SettingError as error:
        yield Finding(f"connection {kafka.conn_id}", "broken", str(error), "Correct the connection's extra")
        return
    yield from permissions(config, tries)


def _database_problem() -> str | None:
    from airflow.utils.session import create_session
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            return None if inspect(session.get_bind()).has_table("connection") else "has no tables yet"
    except (SQLAlchemyError, OSError) as error:
        return f"cannot be reached ({type(error).__name__})"


def _connection(conn_id: str) -> Any:
    """Search like Airflow: secrets backends, the environment, the database."""
    from airflow.models.connection import Connection
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None


def _kafka(connection: Any) -> dict[str, Any] | None:
    if connection is None:
        return None
    config = connection.extra_dejson
    servers = config.get("bootstrap.servers")
    return {"bootstrap_servers": servers, "refused": None, "unreachable": None} | (_tried(config) if servers else {})


def _tried(config: dict[str, Any]) -> dict[str, str]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # Callbacks are dotted paths here, which only Airflow's own hooks resolve.
    plain = {name: value for name, value in config.items() if not name.endswith("_cb")}
    reasons: list[str] = []
    try:
        admin = AdminClient({**plain, "log_level": 0, "error_cb": lambda error: reasons.append(error.str())})
    except (KafkaException, TypeError, ValueError) as error:
        return {"refused": _text(error)}
    try:
        admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException as error:
        admin.poll(0)  # brings the reasons, which say more than the error
        return {"unreachable": (reasons or [_text(error)])[0]}
    return {}


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)


def _spark(connection: Any, named: str) -> dict[str, Any] | None:
    if connection is None:
        return None
    return {"master": master_of(connection), "binary": named or connection.extra_dejson.get("spark-binary") or BINARY}


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Airflow prints is no part of the answer
    json.dump(main(*sys.argv[1:]), answer)
    answer.close()
