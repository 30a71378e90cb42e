"""Run a real Apache Kafka on this machine, without Docker. It listens on the loopback address only."""

import argparse
from pathlib import Path

from airflow_provider_orderedkafka.errors import NOT_RUNNING, SettingError
from airflow_provider_orderedkafka.tools.embedded import sample
from airflow_provider_orderedkafka.tools.embedded.cluster import EmbeddedKafka
from airflow_provider_orderedkafka.tools.embedded.jars import cache_directory
from airflow_provider_orderedkafka.tools.embedded.settings import DEFAULT_VERSION

_DEFAULT_PORT = 9092


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="start|status|sample|stop")
    start = actions.add_parser("start", help="start the broker, wait until it is ready, and leave it running")
    start.add_argument(
        "--port",
        type=int,
        help=f"port of the first broker, followed by the others; 0: any (default: as before, or {_DEFAULT_PORT})",
    )
    start.add_argument("--brokers", type=int, choices=(1, 3), help="how many brokers (default: as before, else 1)")
    start.add_argument("--version", help=f"of Kafka, 3.9.0 or newer (default: as before, else {DEFAULT_VERSION})")
    start.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the broker, such as log.retention.ms=60000; can be repeated",
    )
    status = actions.add_parser("status", help=f"show whether the broker runs; exit code {NOT_RUNNING} if it does not")
    some = actions.add_parser("sample", help="create the topics of the example DAGs, and write events to them")
    some.add_argument("--events", type=_count, default=sample.EVENTS, help="number of events (default: %(default)s)")
    some.add_argument(
        "--registry",
        metavar="URL",
        help="a schema registry: write the orders as Avro, too; needs airflow-provider-orderedkafka[decode]",
    )
    stop = actions.add_parser("stop", help="stop the broker; its data is kept")
    for action in (start, status, some, stop):
        action.add_argument(
            "--directory",
            type=Path,
            default=cache_directory() / "broker",
            help="directory for data, settings and logs (default: %(default)s)",
        )


def run(arguments: argparse.Namespace) -> int:
    actions = {"start": _start, "status": _status, "sample": _sample, "stop": _stop}
    return actions[arguments.action](arguments)


def _start(arguments: argparse.Namespace) -> int:
    there = EmbeddedKafka.open(arguments.directory)
    same = there and arguments.version in (None, there.version)
    if there and same and there.running and arguments.port in (None, 0, there.brokers[0].ports.client):
        print("The broker is already running.")
        return _describe(there)
    brokers = arguments.brokers or (len(there.brokers) if there else 1)
    ports = None if arguments.port is None and there else _ports(arguments.port, brokers)
    properties = dict(map(_setting, arguments.property))
    wanted = EmbeddedKafka(arguments.directory, brokers, ports, properties, version=arguments.version, detached=True)
    return _describe(wanted.start())


def _status(arguments: argparse.Namespace) -> int:
    cluster = EmbeddedKafka.open(arguments.directory)
    if cluster is None:
        print(f"No broker was ever started in {arguments.directory}.")
        return NOT_RUNNING
    return _describe(cluster)


def _sample(arguments: argparse.Namespace) -> int:
    cluster = EmbeddedKafka.open(arguments.directory)
    if cluster is None or not cluster.running:
        print(f"No broker runs in {arguments.directory}: start one with `orderedkafka broker start`.")
        return NOT_RUNNING
    made = sample.make_topics(cluster.bootstrap_servers)
    print(f"created {len(made)} topics: {', '.join(made)}" if made else "the topics exist already")
    after = -1 if set(made) & set(sample.WRITTEN) else sample.newest(cluster.bootstrap_servers)
    sample.write_events(cluster.bootstrap_servers, arguments.events, after, arguments.registry)
    avro = "" if arguments.registry is None else f"; the orders as Avro into {sample.AVRO}, too"
    print(f"wrote {arguments.events:,} events into orders and refunds{avro}")
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    cluster = EmbeddedKafka.open(arguments.directory)
    if cluster is None or not cluster.running:
        print(f"No broker runs in {arguments.directory}.")
        return 0
    cluster.stop()
    print(f"Stopped. The data is kept in {cluster.directory}.")
    return 0


def _describe(cluster: EmbeddedKafka) -> int:
    print(f"bootstrap servers  {cluster.bootstrap_servers}")
    print(f"cluster id         {cluster.cluster_id}")
    print(f"version            {cluster.version}")
    print(f"directory          {cluster.directory}")
    for broker in cluster.brokers:
        print(f"broker {broker.number}           {broker.state}, pid {broker.pid or '-'}, log {broker.log.path}")
    return 0 if all(broker.state == "serves" for broker in cluster.brokers) else NOT_RUNNING


def _ports(first: int | None, brokers: int) -> list[int]:
    if first == 0:
        return [0] * brokers
    return [(first or _DEFAULT_PORT) + number for number in range(brokers)]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of events, 1 or more")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise SettingError(f"--property {text!r} must be NAME=VALUE, such as log.retention.ms=60000")
    return name.strip(), value.strip()
