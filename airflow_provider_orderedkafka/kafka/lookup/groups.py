"""Read and write the offsets of consumer groups, without joining them.

Not by the admin client: librdkafka 2.16 ends the whole process when an admin client asks for a group's offsets while
the group's coordinator is moving or not there yet.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, UNKNOWN, Patience, at_once, gather
from airflow_provider_orderedkafka.kafka.clients.config import client_config, new_client

AT_ONCE: Final = 1_000
"""How many partitions to commit at once: with the longest names two thirds of a broker's limit of 1 MiB."""

_TRY_SECONDS: Final = 1.0
_KEPT_TROUBLES: Final = 20


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
    with closing(_Group(config, group)) as asked:
        found = asked.committed(wanted, Patience(deadline, "the commits of group"))
    return {
        TopicPartition(p.topic, p.partition): GroupOffset(p.offset, p.metadata or "") for p in found if p.offset >= 0
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
    patience = Patience(deadline, "a commit of group")
    with closing(_Group(config, group)) as asked:
        asked.committed(wanted[0][:1], patience)  # a commit itself would wait long without permission for the group
        for portion in wanted:
            asked.commit(portion, patience)


class _Group:
    """A consumer with the group's id, and the errors that its client reported."""

    def __init__(self, config: Mapping[str, str], name: str) -> None:
        self.config = dict(config)
        self._name = name
        self._troubles: deque[KafkaError] = deque(maxlen=_KEPT_TROUBLES)
        ours = {"group.id": name, "enable.auto.commit": "false", "error_cb": self._troubles.append}
        self.client = new_client(Consumer, client_config(config, "consumer", ours))

    def close(self) -> None:
        self.client.close()

    def troubles(self, _since: float) -> list[KafkaError]:
        event = self.client.poll(0)
        if event is not None and event.error() is not None:
            self._troubles.append(event.error())
        return list(self._troubles)

    def committed(self, wanted: list[KafkaPartition], patience: Patience) -> list[Any]:
        return self._answer(lambda seconds: self.client.committed(wanted, min(seconds, _TRY_SECONDS)), patience)

    def commit(self, wanted: list[KafkaPartition], patience: Patience) -> None:
        self._answer(lambda _: self.client.commit(offsets=wanted, asynchronous=False), patience)

    def _answer(self, call: Callable[[float], Sequence[Any]], patience: Patience) -> list[Any]:
        """The coordinator's answer, without deleted partitions."""

        def ask(groups: Sequence[str], seconds: float) -> list[Future[Any]]:
            return [at_once(lambda: _existing(call, seconds)) for _ in groups]

        (answer,) = gather(self, ask, [repr(self._name)], patience).values()
        return list(answer)


def _existing(call: Callable[[float], Sequence[Any]], seconds: float) -> list[Any]:
    try:
        answers = call(seconds)
    except KafkaException as failure:
        if failure.args[0].code() in UNKNOWN:
            return []
        raise
    for error in (answer.error for answer in answers if answer.error is not None):
        if error.code() not in UNKNOWN:
            raise KafkaException(error)
    return [answer for answer in answers if answer.error is None]
