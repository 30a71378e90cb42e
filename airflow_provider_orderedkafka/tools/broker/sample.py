"""Sample data for the example DAGs: their topics, and events of a shop in two of them."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ...core.order.positions import TopicPartition
from ...errors import UnreachableError

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

WRITTEN: Final = ("orders", "refunds")
_APART_MILLISECONDS: Final = 100
_MORE_MILLISECONDS: Final = 2_000
"""How long more events took: less than the grace of the example DAGs, so that none of them is late after a load."""
_CUSTOMERS: Final = 97
_STATES: Final = ("paid", "open", "paid", "cancelled")
_REFUND_EVERY: Final = 10
_NO_JSON: Final = 1
"""The number of the order that is no JSON, for the examples with dead letters."""
_DEADLINE_SECONDS: Final = 30.0

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


def make_topics(bootstrap_servers: str) -> list[str]:
    """Create the missing topics and return their names; `UnreachableError` if the broker does not answer."""
    from confluent_kafka.admin import NewTopic

    with _answers("create the topics", bootstrap_servers) as admin:
        there = admin.list_topics(timeout=_DEADLINE_SECONDS).topics
        missing = [name for name in TOPICS if name not in there]
        made = admin.create_topics([NewTopic(name, TOPICS[name]) for name in missing]) if missing else {}
        for answer in made.values():
            answer.result(_DEADLINE_SECONDS)
    return missing


def newest(bootstrap_servers: str) -> int:
    """The latest timestamp among the events, in milliseconds; -1 without any."""
    from ...kafka.lookup import topics

    partitions = [TopicPartition(topic, number) for topic in WRITTEN for number in range(TOPICS[topic])]
    found = topics.newest({"bootstrap.servers": bootstrap_servers}, partitions)
    return max((answer.timestamp for answer in found.values()), default=-1)


def write_events(bootstrap_servers: str, count: int = EVENTS, after: int = -1, registry: str | None = None) -> None:
    """Write events with timestamps up to now; return when all are acknowledged, or raise.

    The first ones reach back some minutes. More of them come after `after`, and are of this moment. With the address of
    a schema registry, the orders are written as Avro, too.
    """
    from confluent_kafka import Producer

    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.timeout.ms": round(_DEADLINE_SECONDS * 1000),
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failed.append(error),
            "log_level": 0,
        }
    )
    with contextlib.nullcontext() if registry is None else _avro(registry) as avro:
        for topic, key, value, timestamp in _events(count, after, avro):
            send(producer, topic, value, key, timestamp=timestamp)
            producer.poll(0)
    producer.flush()
    if failed:
        raise UnreachableError(f"{len(failed)} of {count} events were not written at {bootstrap_servers}: {failed[0]}")


def send(producer: Any, *record: Any, timestamp: int) -> None:
    while True:
        try:
            producer.produce(*record, timestamp=timestamp)
        except BufferError:  # the queue is full: let some records go out
            producer.poll(0.05)
        else:
            return


@contextlib.contextmanager
def _answers(what: str, bootstrap_servers: str) -> Iterator[Any]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        yield AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    except (KafkaException, TimeoutError) as error:
        why = str(error) or "no answer"
        raise UnreachableError(f"{bootstrap_servers} did not {what} within {_DEADLINE_SECONDS:g} s: {why}") from error


@contextlib.contextmanager
def _avro(registry: str) -> Iterator[Encode]:
    """Encode an order as Confluent's serialiser does; `UnreachableError` if the registry does not take the schema."""
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    schema, context = json.dumps(_SCHEMA), SerializationContext(AVRO, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry}) as client:
        try:
            client.register_schema(f"{AVRO}-value", Schema(schema, "AVRO"))
        except Exception as error:
            raise UnreachableError(f"the registry at {registry} did not take the schema of {AVRO}: {error}") from error
        serialize = AvroSerializer(client, schema)
        yield lambda order: bytes(serialize(order, context))


def _events(count: int, after: int, avro: Encode | None = None) -> Iterator[tuple[str, str, bytes, int]]:
    now = int(time.time() * 1000)
    began = now - count * _APART_MILLISECONDS if after < 0 else max(now - _MORE_MILLISECONDS, after + 1)
    took = max(now - began, 0)
    for number in range(count):
        order, timestamp = _order(number), began + took * number // count
        value = b"no JSON" if number == _NO_JSON else json.dumps(order).encode()
        topic = "orders" if number % _REFUND_EVERY else "refunds"
        yield topic, order["customer"], value, timestamp
        if avro is not None and topic == "orders":
            yield AVRO, order["customer"], avro(order), timestamp


def _order(number: int) -> Order:
    customer, state = f"customer-{number % _CUSTOMERS}", _STATES[number % len(_STATES)]
    return {"order": number, "customer": customer, "state": state, "amount": number % 10_000 / 100}
