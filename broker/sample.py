"""Create the topics of the example DAGs, where they are missing, and write events of a shop into two of them."""

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_COUNTRIES: Final = ("at", "be", "ch")
TOPICS: Final[Mapping[str, int]] = {
    "orders": 4,
    "refunds": 2,
    **{f"orders-{output}": 4 for output in ("ordered", "watched", "hourly", "replayed", "audited", "by-customer")},
    **{f"orders-{other}": 4 for other in ("enriched", "dead", "avro", "everywhere", "by-shell")},
    **{f"orders-{country}{output}": 1 for country in _COUNTRIES for output in ("", "-ordered")},
}
"""The topics of the examples, and their numbers of partitions."""

EVENTS: Final = 12_000
"""Enough to start the first run of `orders_ordered` at once."""

_APART_MILLISECONDS: Final = 100
_MORE_MILLISECONDS: Final = 500
"""How long more events took: less than the grace of the example DAGs, so that none of them is late after a load."""
_CUSTOMERS: Final = 97
_STATES: Final = ("paid", "open", "paid", "cancelled")
_REFUND_EVERY: Final = 10
_NO_JSON: Final = 1
"""The number of the order that is no JSON, for the examples with dead letters."""
_DEADLINE_SECONDS: Final = 10.0

AVRO: Final = "orders-avro"
_SCHEMA: Final = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in {"order": "long", "customer": "string", "state": "string", "amount": "double"}.items()
    ],
}

Order = dict[str, Any]
Encode = Callable[[Order], bytes]


def make_topics(bootstrap_servers: str) -> bool:
    """Create the topics that are missing; return whether that of the orders was."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    there = admin.list_topics(timeout=_DEADLINE_SECONDS).topics
    missing = [NewTopic(name, partitions) for name, partitions in TOPICS.items() if name not in there]
    for answer in (admin.create_topics(missing) if missing else {}).values():
        answer.result(_DEADLINE_SECONDS)
    return "orders" not in there


def write_events(servers: str, count: int = EVENTS, *, first: bool = True, registry: str | None = None) -> None:
    """Write events with timestamps up to now; return when all are acknowledged, or raise.

    The first ones reach back some minutes, others are of this moment. With the address of a schema registry, the orders
    are written as Avro, too.
    """
    failed: list[Any] = []
    settings = {"enable.idempotence": True, "linger.ms": 20, "delivery.report.only.error": True, "log_level": 0}
    report = {"on_delivery": lambda error, _: failed.append(error)}
    producer = Producer({"bootstrap.servers": servers, **settings, **report})
    with contextlib.nullcontext() if registry is None else avro(registry) as encode:
        for topic, key, value, timestamp in events(count, first=first, encode=encode):
            send(producer, topic, value, key, timestamp=timestamp)
            producer.poll(0)
    producer.flush()
    if failed:
        raise KafkaException(failed[0])


def events(count: int, *, first: bool = True, encode: Encode | None = None) -> Iterator[tuple[str, str, bytes, int]]:
    """Topic, key, value and timestamp of each event."""
    took = count * _APART_MILLISECONDS if first else _MORE_MILLISECONDS
    began = int(time.time() * 1000) - took
    for number in range(count):
        made, timestamp = order(number), began + took * number // count
        value = b"no JSON" if number == _NO_JSON else json.dumps(made).encode()
        topic = "orders" if number % _REFUND_EVERY else "refunds"
        yield topic, made["customer"], value, timestamp
        if encode is not None and topic == "orders":
            yield AVRO, made["customer"], encode(made), timestamp


def order(number: int) -> Order:
    customer, state = f"customer-{number % _CUSTOMERS}", _STATES[number % len(_STATES)]
    return {"order": number, "customer": customer, "state": state, "amount": number % 10_000 / 100}


@contextlib.contextmanager
def avro(registry: str) -> Iterator[Encode]:
    """Encode an order as Confluent's serialiser does, which registers the schema."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    with SchemaRegistryClient({"url": registry}) as client:
        serialize = AvroSerializer(client, json.dumps(_SCHEMA))
        yield lambda made: bytes(serialize(made, SerializationContext(AVRO, MessageField.VALUE)))


def send(producer: Any, *record: Any, timestamp: int) -> None:
    while True:
        try:
            producer.produce(*record, timestamp=timestamp)
        except BufferError:  # the queue is full: let some records go out
            producer.poll(0.05)
        else:
            return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m broker.sample", description=__doc__)
    here = f"127.0.0.1:{os.environ.get('PORT') or 9092}"
    parser.add_argument("--bootstrap-servers", default=here, help="default: %(default)s")
    parser.add_argument("--events", type=int, default=EVENTS, help="number of events (default: %(default)s)")
    parser.add_argument("--registry", metavar="URL", help=f"a schema registry: write the orders into {AVRO} as Avro")
    arguments = parser.parse_args()
    try:
        first = make_topics(arguments.bootstrap_servers)
        write_events(arguments.bootstrap_servers, arguments.events, first=first, registry=arguments.registry)
    except KafkaException as error:
        print(f"{arguments.bootstrap_servers}: {error}. Does a broker run there? `make broker`", file=sys.stderr)
        return 1
    created = "created the topics of the examples, and " if first else ""
    avro = "" if arguments.registry is None else f", and the orders as Avro into {AVRO}"
    print(f"{created}wrote {arguments.events:,} events into orders and refunds{avro}, at {arguments.bootstrap_servers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
