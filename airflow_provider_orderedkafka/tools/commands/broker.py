"""Run a real Apache Kafka on this machine, without Docker. It listens on the loopback address only."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.notation.spelling import counted
from ...errors import NOT_RUNNING
from ..broker import sample
from ..broker.java import DEFAULT_VERSION, cache_directory
from ..broker.local_kafka import DEFAULT_PORT, LocalKafka


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="start|status|sample|stop")
    start = actions.add_parser("start", help="start the broker, wait until it is ready, and leave it running")
    start.add_argument("--port", type=_port, help=f"0: any (default: as before, or {DEFAULT_PORT})")
    status = actions.add_parser("status", help=f"show whether the broker runs; exit code {NOT_RUNNING} if it does not")
    some = actions.add_parser("sample", help="create the topics of the example DAGs, and write events to them")
    some.add_argument("--events", type=_count, default=sample.EVENTS, help="number of events (default: %(default)s)")
    registry = "a schema registry: write the orders as Avro, too; needs airflow-provider-orderedkafka[decode]"
    some.add_argument("--registry", metavar="URL", help=registry)
    stop = actions.add_parser("stop", help="stop the broker; its data is kept")
    directory = "directory for data, settings and logs (default: %(default)s)"
    for action in (start, status, some, stop):
        action.add_argument("--directory", type=Path, default=cache_directory() / "broker", help=directory)
        action.add_argument("--json", action="store_true", help="print what it came to as JSON")


def run(arguments: argparse.Namespace) -> int:
    kafka, say = LocalKafka(arguments.directory), _Say(arguments.json)
    if arguments.action == "start":
        return _start(kafka, arguments.port, say)
    if arguments.action == "status":
        return _describe(kafka, say)
    if not kafka.running:
        none = f"No broker runs in {kafka.directory}: start one with `orderedkafka broker start`."
        say(none, {"broker": kafka.state})
        return NOT_RUNNING if arguments.action == "sample" else 0
    if arguments.action == "sample":
        return _sample(kafka.bootstrap_servers, arguments.events, arguments.registry, say)
    kafka.stop()
    say(f"Stopped. The data is kept in {kafka.directory}.", {"broker": kafka.state, "directory": str(kafka.directory)})
    return 0


@dataclass(frozen=True, slots=True)
class _Say:
    """Prints what a command came to: for people, or for programs."""

    json: bool

    def __call__(self, text: str, told: dict[str, Any]) -> None:
        print(json.dumps(told) if self.json else text)


def _start(kafka: LocalKafka, port: int | None, say: _Say) -> int:
    if not (kafka.running and port in {None, 0, kafka.port}):
        kafka.start(DEFAULT_PORT if port is kafka.port is None else port)
    elif not say.json:
        print("The broker is already running.")
    return _describe(kafka, say)


def _sample(servers: str, events: int, registry: str | None, say: _Say) -> int:
    made = sample.make_topics(servers)
    after = -1 if set(made) & set(sample.WRITTEN) else sample.newest(servers)
    sample.write_events(servers, events, after, registry)
    created = f"created {counted(len(made), 'topic')}: {', '.join(made)}" if made else "the topics exist already"
    avro = "" if registry is None else f"; the orders as Avro into {sample.AVRO}, too"
    wrote = f"wrote {counted(events, 'event')} into orders and refunds{avro}"
    say(f"{created}\n{wrote}", {"created": list(made), "events": events})
    return 0


def _describe(kafka: LocalKafka, say: _Say) -> int:
    state, servers = kafka.state, kafka.bootstrap_servers if kafka.port else None
    told = {
        "bootstrap servers": servers or "none: it was never started",
        "version": DEFAULT_VERSION,
        "directory": kafka.directory,
        "broker": f"{state}, pid {kafka.pid or '-'}, log {kafka.log}",
    }
    where = {"bootstrap_servers": servers, "version": DEFAULT_VERSION, "directory": str(kafka.directory)}
    lines = "\n".join(f"{name:<17}  {found}" for name, found in told.items())
    say(lines, {**where, "broker": state, "pid": kafka.pid, "log": str(kafka.log)})
    return 0 if state == "serves" else NOT_RUNNING


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of events, 1 or more")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:  # noqa: PLR2004 - the largest port
        raise argparse.ArgumentTypeError(f"{text!r} must be a port: 0 to 65535")
    return int(text)
