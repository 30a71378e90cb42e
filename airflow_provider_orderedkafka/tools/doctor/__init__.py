"""Check what is installed, whether Spark, Java and Python fit, the connections, and what their principals may do."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any, Final

from ...compat.airflow import version_of
from ...errors import FINAL
from .installed import Finding, Tries, as_json, as_table, installed, must_be_mended

_OF: Final = "the {} connection (default: %(default)s)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--kafka-conn-id", default=Tries().kafka_conn_id, metavar="ID", help=_OF.format("Kafka"))
    parser.add_argument("--spark-conn-id", default=Tries().spark_conn_id, metavar="ID", help=_OF.format("Spark"))
    topic: dict[str, Any] = {"action": "append", "default": [], "metavar": "TOPIC"}
    parser.add_argument("--topic", dest="topics", help="a topic to read; may be repeated", **topic)
    parser.add_argument("--output-topic", dest="outputs", help="a topic to write to; may be repeated", **topic)
    group = "check that the consumer group of this load can be used"
    parser.add_argument("--load", default="", metavar="NAME", help=group)
    parser.add_argument("--checkpoint", default="", metavar="LOCATION", help="try to write and read a document here")
    binary = "the spark-submit that loads name with spark_binary="
    parser.add_argument("--spark-binary", default="", metavar="PATH", help=binary)
    parser.add_argument(
        "--dags",
        action="store_true",
        help="parse all DAG files: check that each load is in only one, and that its service has what it needs",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; anything that is broken has to be mended by a person."""
    findings = examine(Tries(**{each.name: getattr(arguments, each.name) for each in fields(Tries)}))
    print(as_json(findings) if arguments.json else as_table(findings))
    return FINAL if must_be_mended(findings) else 0


def examine(tries: Tries) -> list[Finding]:
    """Check everything; Airflow, which is slow to start, is asked meanwhile."""
    from .connections import connections

    with ThreadPoolExecutor() as pool:
        airflow = pool.submit(connections, tries)
        return [*installed(version_of, needs_airflow=tries != Tries()), *airflow.result()]
