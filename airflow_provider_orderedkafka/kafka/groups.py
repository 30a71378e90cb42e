"""Where consumer groups stand: read and written by a consumer that never joins them.

Not by the admin client: librdkafka 2.16 ends the whole process when an admin client asks for a group's offsets while
the group's coordinator is moving or not there yet.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.positions import TopicPartition
from airflow_provider_orderedkafka.errors import AccessDeniedError, OrderedKafkaError, UnreachableError
from airflow_provider_orderedkafka.kafka.answers import DEADLINE, DENIED, TRANSIENT
from airflow_provider_orderedkafka.kafka.config import client_config, understood

_TRY_SECONDS: Final = 1.0
_PAUSE: Final = 0.1
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
        found = _committed(consumer, wanted, config, f"the commits of group {group!r}", deadline)
    return {
        TopicPartition(p.topic, p.partition): Commit(p.offset, p.metadata or "")
        for p in found
        if p.error is None and p.offset >= 0
    }


def write_commits(
    config: Mapping[str, str], group: str, commits: Mapping[TopicPartition, Commit], deadline: float = DEADLINE
) -> None:
    """Let the group stand there; partitions that are gone are passed over."""
    wanted = [KafkaPartition(*p, commit.offset, metadata=commit.metadata) for p, commit in commits.items()]
    if not wanted:
        return
    what = f"a commit of group {group!r}"
    with _consumer(config, group) as consumer:
        _committed(
            consumer, wanted, config, what, deadline
        )  # a commit itself waits long where the group may not be used
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].code() not in _GONE:
                raise _told(failure.args[0], config, what) from failure


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


def _committed(
    consumer: Any, wanted: list[KafkaPartition], config: Mapping[str, str], what: str, deadline: float
) -> list[Any]:
    """What the coordinator answers; asked again while it moves or loads, until the deadline."""
    until = time.monotonic() + deadline
    while True:
        left = until - time.monotonic()
        try:
            return list(consumer.committed(wanted, max(min(left, _TRY_SECONDS), _PAUSE)))
        except KafkaException as failure:
            error = _refusal(consumer) or failure.args[0]
            if error.code() in _GONE:
                return []
            if left <= 0 or error.code() not in TRANSIENT:
                raise _told(error, config, what) from failure
        time.sleep(_PAUSE)


def _refusal(consumer: Any) -> KafkaError | None:
    """A refusal that the client heard while it looked for the group's coordinator: the question hears nothing of it."""
    event = consumer.poll(0)
    error = None if event is None else event.error()
    return error if error is not None and error.code() in DENIED else None


def _told(error: KafkaError, config: Mapping[str, str], what: str) -> OrderedKafkaError:
    if error.code() in DENIED:
        return AccessDeniedError(f"Kafka refuses {what}: {error.str()}; {DENIED[error.code()]}")
    servers = config["bootstrap.servers"]
    return UnreachableError(f"Kafka at {servers!r} did not answer, asked for {what}: {error.str()}; is it up?")
