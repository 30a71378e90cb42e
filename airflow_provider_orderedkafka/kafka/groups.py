"""Where consumer groups stand: read and written by a consumer that never joins them.

Not by the admin client: librdkafka 2.16 ends the whole process when an admin client asks for a group's offsets while
the group's coordinator is moving or not there yet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.errors import AccessDeniedError, UnreachableError
from airflow_provider_orderedkafka.kafka.answers import DEADLINE, DENIED
from airflow_provider_orderedkafka.kafka.config import client_config, understood

Given = TypeVar("Given")

_GONE: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class Commit(NamedTuple):
    """Where a group stands in a partition, and what was written beside it."""

    offset: int
    metadata: str


def read_commits(
    config: Mapping[str, str], group: str, partitions: Iterable[TopicPartition], deadline: float = DEADLINE
) -> dict[TopicPartition, Commit]:
    """Where the group stands; a partition that it never committed, or that is gone, is left out."""
    wanted = [KafkaPartition(*partition) for partition in partitions]
    if not wanted:
        return {}
    with _consumer(config, group) as consumer:
        found = _tried(config, f"the commits of group {group!r}", lambda: consumer.committed(wanted, deadline))
    return {
        TopicPartition(p.topic, p.partition): Commit(p.offset, p.metadata or "")
        for p in found
        if p.error is None and p.offset >= 0
    }


def write_commits(config: Mapping[str, str], group: str, commits: Mapping[TopicPartition, Commit]) -> None:
    """Let the group stand there; partitions that are gone are passed over."""
    wanted = [KafkaPartition(*p, commit.offset, metadata=commit.metadata) for p, commit in commits.items()]
    if not wanted:
        return
    with _consumer(config, group) as consumer:
        _tried(config, f"a commit of group {group!r}", lambda: consumer.commit(offsets=wanted, asynchronous=False))


@contextmanager
def _consumer(config: Mapping[str, str], group: str) -> Iterator[Any]:
    ours = {"group.id": group, "enable.auto.commit": "false"}
    try:
        consumer = Consumer(client_config(config, "consumer", ours))
    except (KafkaException, ValueError, TypeError) as error:
        raise understood(error, config) from error
    try:
        yield consumer
    finally:
        consumer.close()


def _tried(config: Mapping[str, str], what: str, call: Callable[[], Given]) -> Given | tuple[()]:
    try:
        return call()
    except KafkaException as failure:
        error = failure.args[0]
    if error.code() in _GONE:
        return ()
    if error.code() in DENIED:
        raise AccessDeniedError(f"Kafka refuses {what}: {error.str()}; {DENIED[error.code()]}")
    servers = config["bootstrap.servers"]
    raise UnreachableError(f"Kafka at {servers!r} did not answer, asked for {what}: {error.str()}; is it up?")
