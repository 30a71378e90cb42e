"""Ask in bulk for the ends of partitions, the offsets of times, and the offsets of groups.

`AdminClient.list_offsets` answers with futures, so any number of partitions and times costs one round trip and the
broker's work. For a partition that does not exist it never answers, so after a while its existence is checked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import cycle
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.ports import Answer
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.clients.admin import Admin, admin
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, Patience, gather
from airflow_provider_orderedkafka.kafka.lookup.groups import read_commits
from airflow_provider_orderedkafka.kafka.lookup.topics import check_partitions

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
    """The highest timestamp of each partition and its offset, without empty partitions."""
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
    """Send one request for each time and broker."""
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
