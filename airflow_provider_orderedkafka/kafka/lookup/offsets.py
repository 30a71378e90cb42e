"""Ask in bulk for the ends of partitions, the offsets of times, and the offsets of groups; write those of a group.

`AdminClient.list_offsets` answers with futures, so any number of partitions and times costs one round trip and the
broker's work. For a partition that does not exist it never answers, so after a while its existence is checked.

Groups are read and written without joining them, and not by the admin client: librdkafka 2.16 ends the whole process
when an admin client asks for a group's offsets while the group's coordinator is moving or not there yet.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from itertools import cycle
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Answer
from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, UNKNOWN, Patience, at_once, gather
from airflow_provider_orderedkafka.kafka.clients.config import client_config, new_client
from airflow_provider_orderedkafka.kafka.clients.pools import Admin, admin

from .topics import check_partitions

_log = logging.getLogger(__name__)

AT_ONCE: Final = 1_000
"""How many partitions to commit at once: with the longest names two thirds of a broker's limit of 1 MiB."""

_TRY_SECONDS: Final = 1.0
_SHOW_SECONDS: Final = 20.0
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


def show_place(config: Mapping[str, str], group: str, place: Offsets) -> None:
    """Commit a place for the group, for the lag that Kafka's tools show; what goes wrong with it is only logged."""
    places = [(partition, GroupOffset(offset, "")) for partition, offset in place.items()]
    portions = (dict(places[n : n + AT_ONCE]) for n in range(0, len(places), AT_ONCE))
    try:
        write_commits(config, group, *portions, deadline=_SHOW_SECONDS)
    except OrderedKafkaError as error:
        _log.warning("group %r does not show how far this has come: %s", group, error)


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


MOST_AT_ONCE: Final = 16_000
"""The most requests in flight, to bound memory and the broker's queue."""

MANY: Final = 4_000
"""How many answers to await for each connection."""

_Kind = Literal["earliest", "latest", "newest"]
_SPECS: Final[dict[_Kind, Callable[[], OffsetSpec]]] = {
    "earliest": OffsetSpec.earliest,
    "latest": OffsetSpec.latest,
    "newest": OffsetSpec.max_timestamp,
}
_LEVELS: Final[dict[Isolation, IsolationLevel]] = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}


class _Question(NamedTuple):
    when: _Kind | int
    partition: TopicPartition

    def __str__(self) -> str:
        return str(self.partition)


def log_starts(config: Mapping[str, str], partitions: Iterable[TopicPartition]) -> Offsets:
    questions = [_Question("earliest", partition) for partition in partitions]
    return _as_offsets(_ask(config, questions, "read_uncommitted", Patience(DEADLINE, "the log start of")))


def high_ends(
    config: Mapping[str, str],
    partitions: Iterable[TopicPartition],
    isolation: Isolation = "read_committed",
    deadline: float = DEADLINE,
) -> Offsets:
    """The offset up to which each partition can be read now: the last stable one, or the high watermark."""
    questions = [_Question("latest", partition) for partition in partitions]
    return _as_offsets(_ask(config, questions, isolation, Patience(deadline, "the high end of")))


def newest(
    config: Mapping[str, str], partitions: Iterable[TopicPartition], deadline: float = DEADLINE
) -> dict[TopicPartition, Answer]:
    """The highest timestamp of each partition and its offset.

    Brokers say none of a partition that is empty, nor of one whose newest record stands above the high watermark.
    """
    questions = [_Question("newest", partition) for partition in partitions]
    answers = _ask(config, questions, "read_uncommitted", Patience(deadline, "the highest timestamp of"))
    return {question.partition: answer for question, answer in answers.items() if answer.offset >= 0}


def first_at(
    config: Mapping[str, str],
    partitions: Sequence[TopicPartition],
    times: Sequence[int],
    isolation: Isolation = "read_committed",
    deadline: float = DEADLINE,
) -> list[dict[TopicPartition, Answer]]:
    """For each time, where the broker's index places it; a partition without such a record is left out."""
    questions = [_Question(time, partition) for time in dict.fromkeys(times) for partition in partitions]
    found: dict[_Kind | int, dict[TopicPartition, Answer]] = {time: {} for time in times}
    for start in range(0, len(questions), MOST_AT_ONCE):
        some = questions[start : start + MOST_AT_ONCE]
        answers = _ask(config, some, isolation, Patience(deadline, "the index of"))
        for question, answer in answers.items():
            if answer.offset >= 0:
                found[question.when][question.partition] = answer
    return [found[time] for time in times]


def committed(
    config: Mapping[str, str], group: str, partitions: Iterable[TopicPartition], deadline: float = DEADLINE
) -> dict[TopicPartition, int]:
    """The committed offsets of a group; partitions without one are left out."""
    commits = read_commits(config, group, partitions, deadline)
    return {partition: commit.offset for partition, commit in commits.items()}


def _as_offsets(answers: Mapping[_Question, Answer]) -> Offsets:
    return Offsets({question.partition: answer.offset for question, answer in answers.items()})


def _ask(
    config: Mapping[str, str], questions: Sequence[_Question], isolation: Isolation, patience: Patience
) -> dict[_Question, Answer]:
    asked = admin(config)

    def ask(some: Sequence[_Question], seconds: float) -> list[Future[Any]]:
        return _sent(asked, some, isolation, seconds)

    def recheck() -> None:
        check_partitions(asked, {question.partition for question in questions}, patience)

    def relearn(some: Sequence[_Question]) -> None:
        asked.relearn({question.partition.topic for question in some}, patience.left)

    answers = gather(asked, ask, questions, patience, recheck=recheck, relearn=relearn)
    return {question: Answer(answer.offset, answer.timestamp) for question, answer in answers.items()}


def _sent(asked: Admin, questions: Sequence[_Question], isolation: Isolation, seconds: float) -> list[Future[Any]]:
    by_when: dict[_Kind | int, list[int]] = {}
    for place, question in enumerate(questions):
        by_when.setdefault(question.when, []).append(place)
    futures: list[Any] = [None] * len(questions)
    clients = cycle(asked.side_by_side(len(questions) // MANY))
    for (when, places), client in zip(by_when.items(), clients, strict=False):
        spec = OffsetSpec.for_timestamp(when) if isinstance(when, int) else _SPECS[when]()
        wanted = {KafkaPartition(*questions[place].partition): spec for place in places}
        answers = client.list_offsets(wanted, isolation_level=_LEVELS[isolation], request_timeout=seconds)
        for place, future in zip(places, answers.values(), strict=True):
            futures[place] = future
    return futures
