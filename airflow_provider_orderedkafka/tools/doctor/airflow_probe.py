"""Read the connections from Airflow, in a separate process, because Airflow logs and keeps state.

    python -m airflow_provider_orderedkafka.tools.doctor.airflow_probe KAFKA_CONN_ID SPARK_CONN_ID

Prints one JSON object: `database` (what is wrong with it, or null), `kafka` and `spark` (null if the connection is
not defined), and `ledgers`. No secret is printed.
"""

import json
import os
import sys
from typing import Any

from airflow_provider_orderedkafka.submission import BINARY, master_of

_ANSWER_SECONDS = 5


def main(kafka_conn_id: str, spark_conn_id: str) -> dict[str, Any]:
    """Collect the facts."""
    return {
        "database": _database_problem(),
        "kafka": _kafka(_connection(kafka_conn_id)),
        "spark": _spark(_connection(spark_conn_id)),
        "ledgers": _ledgers(),
    }


def _ledgers() -> dict[str, str | bool]:
    """Where loads keep their ledgers that do not say it themselves; `missing` where they have to."""
    from airflow.version import version

    from airflow_provider_orderedkafka.compat.airflow import has_asset_state
    from airflow_provider_orderedkafka.ledgers import default_location

    location = default_location()
    return {"airflow": version, "location": location or "", "missing": not location and not has_asset_state()}


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


def _spark(connection: Any) -> dict[str, Any] | None:
    if connection is None:
        return None
    return {"master": master_of(connection), "binary": connection.extra_dejson.get("spark-binary") or BINARY}


if __name__ == "__main__":
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Airflow prints is no part of the answer
    json.dump(main(*sys.argv[1:]), answer)
    answer.close()
