"""Check what is installed, whether the versions match, and whether Airflow's connections work."""

import argparse
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_orderedkafka.tools.doctor.finding import Finding, as_json, as_table, must_be_mended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--kafka-conn-id", default="kafka_default", metavar="ID", help="default: %(default)s")
    parser.add_argument("--spark-conn-id", default="spark_default", metavar="ID", help="default: %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; return 1 if anything is broken."""
    findings = examine(arguments.kafka_conn_id, arguments.spark_conn_id)
    print(as_json(findings) if arguments.json else as_table(findings))
    return 1 if must_be_mended(findings) else 0


def examine(kafka_conn_id: str, spark_conn_id: str) -> list[Finding]:
    """Check everything; checks that wait for another process run in parallel."""
    from airflow_provider_orderedkafka.tools.doctor.connections import connections
    from airflow_provider_orderedkafka.tools.doctor.installed import installed, version_here
    from airflow_provider_orderedkafka.tools.doctor.workers import workers_python

    with ThreadPoolExecutor() as pool:
        workers = pool.submit(workers_python)
        airflow = pool.submit(connections, kafka_conn_id, spark_conn_id)
        return [*installed(version_here), workers.result(), *airflow.result()]
