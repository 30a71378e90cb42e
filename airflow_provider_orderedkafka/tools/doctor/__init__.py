"""Check what is installed, whether the versions match, Airflow's connections, and what their principals may do."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

from airflow_provider_orderedkafka.decoding.formats import FORMATS
from airflow_provider_orderedkafka.errors import FINAL
from airflow_provider_orderedkafka.tools.doctor.finding import (
    NOTHING_MORE,
    Finding,
    Tries,
    as_json,
    as_table,
    must_be_mended,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--kafka-conn-id", default="kafka_default", metavar="ID", help="default: %(default)s")
    parser.add_argument("--spark-conn-id", default="spark_default", metavar="ID", help="default: %(default)s")
    topic: dict[str, Any] = {"action": "append", "default": [], "metavar": "TOPIC"}
    parser.add_argument("--topic", dest="topics", help="a topic to read; may be repeated", **topic)
    parser.add_argument("--output-topic", dest="outputs", help="a topic to write to; may be repeated", **topic)
    parser.add_argument(
        "--load", default="", metavar="NAME", help="check that the consumer group of this load can be used"
    )
    parser.add_argument("--checkpoint", default="", metavar="LOCATION", help="write, read and delete a document there")
    parser.add_argument(
        "--spark", action="store_true", help="repeat the checks in a Spark application, from driver and executors"
    )
    formats: dict[str, Any] = {"action": "append", "default": [], "choices": [*FORMATS, "registry"]}
    parser.add_argument(
        "--decode",
        dest="formats",
        help="with --spark, check that this format can be decoded; may be repeated",
        **formats,
    )
    named = "the spark-submit of loads that name one by spark_binary="
    parser.add_argument("--spark-binary", default="", metavar="PATH", help=named)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; anything that is broken has to be mended by a person."""
    tries = Tries(**{each.name: getattr(arguments, each.name) for each in fields(Tries)})
    findings = examine(arguments.kafka_conn_id, arguments.spark_conn_id, tries)
    print(as_json(findings) if arguments.json else as_table(findings))
    return FINAL if must_be_mended(findings) else 0


def examine(kafka_conn_id: str, spark_conn_id: str, tries: Tries = NOTHING_MORE) -> list[Finding]:
    """Check everything; checks that wait for another process run in parallel."""
    from airflow_provider_orderedkafka.tools.doctor.connections import connections
    from airflow_provider_orderedkafka.tools.doctor.installed import installed, version_here
    from airflow_provider_orderedkafka.tools.doctor.workers import workers_python

    with ThreadPoolExecutor() as pool:
        workers = pool.submit(workers_python)
        airflow = pool.submit(connections, kafka_conn_id, spark_conn_id, tries)
        return [*installed(version_here), workers.result(), *airflow.result()]
