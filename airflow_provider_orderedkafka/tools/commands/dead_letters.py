"""Show the dead letters of a topic: where each record came from, what was wrong with it, and its bytes.

Reads the topic; changes nothing. Needs Airflow's configuration (AIRFLOW_HOME) for the Kafka connection, or
--bootstrap-servers.

They have the bytes of their records. Once they can be read, a load of this topic, with the formats, the transform and
the output of the first one, writes each of them once: in a DAG OrderedLoad("orders_again", topics=["orders-dead"],
start="earliest", min_offsets=1), by hand spark-submit with --option subscribe=orders-dead and --option
startingOffsets=earliest. Dead letters in a table are rows with the column _error: ask for them in SQL.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from textwrap import shorten
from typing import Any

from ...core.notation.subscriptions import Named
from ...core.order.cuts import NO_FLOOR, Span
from ...core.order.planning import Planner
from ...core.order.positions import TopicPartition
from ...errors import DocumentError
from ...kafka.provenance import ERROR_HEADER, HEADER, read_provenance
from .at_airflow import airflow

ANY_TIME = 2**62
SHOWN_BYTES = 80
MOST = 100


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: its own place, the place of its record, and why it is here; payloads as text or as hex."""

    at: str
    source: str | None
    range: str | None
    error: str
    key: str | None
    value: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", help="the dead letter topic")
    parser.add_argument(
        "--kafka-conn-id", metavar="ID", default="kafka_default", help="Kafka connection (default: %(default)s)"
    )
    parser.add_argument("--bootstrap-servers", metavar="SERVERS", help="Kafka's address, in place of the connection")
    parser.add_argument("--range", metavar="ID", help="only those of this range")
    parser.add_argument(
        "--limit", type=int, default=MOST, metavar="COUNT", help="how many to show at most (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line, with whole payloads")


def run(arguments: argparse.Namespace) -> int:
    letters = list(_limited(_asked(arguments), arguments))
    for letter in letters:
        print(json.dumps(asdict(letter)) if arguments.json else told(letter))
    if not arguments.json:
        print(way_back(arguments.topic, letters))
    return 0


def _asked(arguments: argparse.Namespace) -> Iterator[DeadLetter]:
    if arguments.bootstrap_servers is not None:
        yield from dead_letters({"bootstrap.servers": arguments.bootstrap_servers}, arguments.topic)
        return
    from ...hooks.ordered_kafka import OrderedKafkaHook

    with airflow():
        config = OrderedKafkaHook(arguments.kafka_conn_id).config
    yield from dead_letters(config, arguments.topic)


def _limited(letters: Iterator[DeadLetter], arguments: argparse.Namespace) -> Iterator[DeadLetter]:
    left = arguments.limit
    for letter in letters:
        if arguments.range in (None, letter.range):
            if left == 0:
                return
            left -= 1
            yield letter


def dead_letters(config: Any, topic: str) -> Iterator[DeadLetter]:
    """The dead letters of a topic, in time order."""
    from ...kafka.clients.config import KafkaConfig
    from ...kafka.clients.pools import ReadSettings
    from ...kafka.lookup.log import KafkaLog
    from ...kafka.lookup.topics import discover, high_ends, log_starts
    from ...kafka.read.slices import read_slice

    kafka = config if isinstance(config, KafkaConfig) else KafkaConfig(config)
    partitions = discover(kafka, Named((topic,))).partitions
    settings = ReadSettings(kafka, "read_uncommitted", include_headers=True)
    span = Span(log_starts(kafka, partitions), high_ends(kafka, partitions, "read_uncommitted"), NO_FLOOR, ANY_TIME)
    for slice_ in Planner(KafkaLog(kafka, "read_uncommitted"), span).slices(10_000):
        for batch in read_slice(slice_, settings):
            for row in batch.to_pylist():
                yield _letter(row)


def _letter(row: dict[str, Any]) -> DeadLetter:
    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
    reasons = [value for name, value in headers if name == ERROR_HEADER and value is not None]
    source, range_id = _origin([pair for pair in headers if pair[0] == HEADER])
    return DeadLetter(
        at=TopicPartition(row["topic"], row["partition"]).at(row["offset"]),
        source=source,
        range=range_id,
        error=reasons[-1].decode(errors="replace") if reasons else "it does not say why: it is no dead letter",
        key=_shown(row["key"]),
        value=_shown(row["value"]),
    )


def _origin(headers: list[tuple[str, bytes | None]]) -> tuple[str | None, str | None]:
    """The place of the record, and the range that it was loaded with."""
    try:
        found = read_provenance(headers)
    except DocumentError:
        return None, None
    if found is None or found.source is None or found.offset is None:
        return None, None if found is None else found.range_id
    return found.source.at(found.offset), found.range_id


def _shown(payload: bytes | None) -> str | None:
    if payload is None:
        return None
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return payload.hex()
    return text if text.isprintable() else payload.hex()


def told(letter: DeadLetter) -> str:
    value = "null" if letter.value is None else shorten(letter.value, SHOWN_BYTES, placeholder="...")
    return (
        f"{letter.source or 'from nowhere'}: {letter.error}\n"
        f"  at {letter.at}, of range {letter.range}\n  key   {letter.key}\n  value {value}"
    )


def way_back(topic: str, letters: list[DeadLetter]) -> str:
    """How many there are by error, and how they are loaded again."""
    if not letters:
        return f"{topic!r} has no dead letters"
    errors = sorted(letter.error.partition(":")[0] for letter in letters)
    counts = ", ".join(f"{len(list(group)):,} times {error!r}" for error, group in groupby(errors))
    return (
        f"{len(letters):,} dead letters: {counts}\n"
        "To load them again, once they can be read: they have the bytes of their records, so a load of this topic, "
        "with the same formats, transform and output as the first, writes each of them once; its ledger says which of "
        f"them are done. In a DAG: OrderedLoad(..., topics=[{topic!r}], start='earliest', min_offsets=1); by hand: "
        f"--option subscribe={topic} --option startingOffsets=earliest. Give it a checkpoint and a dead letter topic "
        "of its own, and a format with a registry subject='<first topic>-value'."
    )
