"""Read and write the offsets of consumer groups, without joining them.

Not by the admin client: librdkafka 2.16 ends the whole process when an admin client asks for a group's offsets while
the group's coordinator is moving or not there yet.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import AccessDeniedError, OrderedKafkaError, UnreachableError
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, TRANSIENT, Patience, why_silent
from airflow_provider_orderedkafka.kafka.clients.config import client_config, setting_error
from airflow_provider_orderedkafka.kafka.clients.refusals import way_out

AT_ONCE: Final = 1_000
"""How many partitions to commit at once: with the longest names two thirds of a broker's limit of 1 MiB."""

_TRY_SECONDS: Final = 1.0
_PAUSE: Final = 0.1
_KEPT_TROUBLES: Final = 20
_GONE: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class GroupOffset(NamedTuple):
    offset: int
    metadata: str


def read_commits(
    config: Mapping[str, str], group: str, partitions: Iterable[TopicPartition], deadline: float = DEADLINE
) -> dict[TopicPartition, GroupOffset]:
    """The committed offsets of a group; partitions without one are left out."""
    wanted = [KafkaPartition(*partition) for partition in partitions]
    if not wanted:
        return {}
    with _asking(config, group, f"the commits of group {group!r}", deadline) as asking:
        found = asking.committed(wanted)
    return {
        TopicPartition(p.topic, p.partition): GroupOffset(p.offset, p.metadata or "")
        for p in found
        if p.error is None and p.offset >= 0
    }


def write_commits(
    config: Mapping[str, str], group: str, *portions: Mapping[TopicPartition, GroupOffset], deadline: float = DEADLINE
) -> None:
    """Commit offsets for the group, one portion after the other, ignoring deleted partitions.

    A portion of more than `AT_ONCE` partitions may be too large for a broker.
    """
    wanted = [[KafkaPartition(*p, c.offset, metadata=c.metadata) for p, c in some.items()] for some in portions if some]
    if not wanted:
        return
    with _asking(config, group, f"a commit of group {group!r}", deadline) as asking:
        asking.committed(wanted[0][:1])  # a commit itself would wait long without permission for the group
        for portion in wanted:
            asking.commit(portion)


class _Asking:
    """A consumer with the group's id, the errors that its client reported, and the deadline."""

    def __init__(self, config: Mapping[str, str], group: str, patience: Patience) -> None:
        self._config = config
        self._patience = patience
        self._troubles: deque[KafkaError] = deque(maxlen=_KEPT_TROUBLES)
        ours = {"group.id": group, "enable.auto.commit": "false", "error_cb": self._troubles.append}
        try:
            self.consumer = Consumer(client_config(config, "consumer", ours))
        except (KafkaException, ValueError, TypeError) as error:
            raise setting_error(error, config) from error

    def committed(self, wanted: list[KafkaPartition]) -> list[Any]:
        """The coordinator's answer; retried until the deadline while the coordinator moves or loads."""
        while True:
            try:
                return list(self.consumer.committed(wanted, max(min(self._patience.left, _TRY_SECONDS), _PAUSE)))
            except KafkaException as failure:
                error = self._refusal() or failure.args[0]
                if error.code() in _GONE:
                    return []
                final = error.code() not in TRANSIENT or way_out(error, self._config)
                if final or self._patience.left == 0:
                    raise self._told(error) from failure
            time.sleep(_PAUSE)

    def commit(self, wanted: list[KafkaPartition]) -> None:
        """Commit, ignoring deleted partitions."""
        try:
            answers = self.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as failure:
            errors = [failure.args[0]]
        else:
            errors = [answer.error for answer in answers if answer.error is not None]
        refused = next((error for error in errors if error.code() not in _GONE), None)
        if refused is not None:
            raise self._told(refused)

    def _refusal(self) -> KafkaError | None:
        """A refusal that the client met on its way to the coordinator; the request itself only times out."""
        event = self.consumer.poll(0)
        if event is not None and event.error() is not None:
            self._troubles.append(event.error())
        return next((trouble for trouble in self._troubles if way_out(trouble, self._config)), None)

    def _told(self, error: KafkaError) -> OrderedKafkaError:
        what = self._patience.what
        if remedy := way_out(error, self._config):
            return AccessDeniedError(f"Kafka refuses {what}: {error.str()}; {remedy}")
        if error.code() >= KafkaError.UNKNOWN and error.code() not in TRANSIENT:  # below are the client's own
            return OrderedKafkaError(f"Kafka refuses {what}: {error.str()} ({error.name()})")
        return UnreachableError(
            f"Kafka at {self._config['bootstrap.servers']!r} did not answer within {self._patience.seconds:g} s, asked "
            f"for {what} ({why_silent(error, self._troubles)}); is it up, and can it be reached from here?"
        )


@contextmanager
def _asking(config: Mapping[str, str], group: str, what: str, deadline: float) -> Iterator[_Asking]:
    asking = _Asking(config, group, Patience(deadline, what))
    try:
        yield asking
    finally:
        asking.consumer.close()
