"""Check what a connection's principal may do with topics and with a load's consumer group, by asking Kafka."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.kafka.clients.admin import admin
from airflow_provider_orderedkafka.kafka.clients.answers import Patience, gather
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from airflow_provider_orderedkafka.loads.mirror import group_of
from airflow_provider_orderedkafka.tools.doctor.finding import Finding, Tries

_ANSWER_SECONDS = 10.0
_READ, _READ_AND_WRITE = ("READ",), ("READ", "WRITE")


def permissions(config: Mapping[str, str], tries: Tries) -> Iterator[Finding]:
    """A finding for each topic and for the group, with the operation that is missing."""
    for name in tries.topics:
        yield _topic(config, f"topic {name}", name, _READ)
    for name in tries.outputs:
        yield _topic(config, f"output {name}", name, _READ_AND_WRITE)
    if tries.load:
        yield _group(config, group_of(tries.load))


def _topic(config: Mapping[str, str], title: str, name: str, needed: Sequence[str]) -> Finding:
    try:
        (topic,) = discover(config, Named((name,)), _ANSWER_SECONDS).topics
    except OrderedKafkaError as error:
        return Finding(title, "broken", str(error), f"Create it, or allow its principal {' and '.join(needed)} on it")
    return _judged(title, topic.operations, needed, f"{topic.partitions} partitions")


def _group(config: Mapping[str, str], group: str) -> Finding:
    asked = admin(config)

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        return list(
            asked.client.describe_consumer_groups(
                list(questions), include_authorized_operations=True, request_timeout=seconds
            ).values()
        )

    try:
        described = gather(asked, ask, [group], Patience(_ANSWER_SECONDS, "what may be done with group"))[group]
    except OrderedKafkaError as error:
        return Finding(f"group {group}", "broken", str(error), f"Allow its principal READ on group {group!r}")
    operations = frozenset(each.name for each in described.authorized_operations or ())
    return _judged(f"group {group}", operations, _READ, "is there, or may be made")


def _judged(title: str, operations: frozenset[str], needed: Sequence[str], good: str) -> Finding:
    missing = [each for each in needed if operations and each not in operations]
    if missing:
        lacking = " and ".join(missing)
        return Finding(title, "broken", f"its principal lacks {lacking}", f"Allow {lacking} on {title}")
    if not operations:
        return Finding(title, "ok", f"{good}; Kafka does not say what its principal may do")
    return Finding(title, "ok", f"{good}; its principal has {' and '.join(needed)}")
