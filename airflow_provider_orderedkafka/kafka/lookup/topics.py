"""Ask a cluster in bulk: for topics and partitions, their ends, the offsets of times; read and write those of groups.

No topic is created by this. It is also checked that a topic is the one that was planned, and was not deleted and
created again.

`AdminClient.list_offsets` answers with futures, so any number of partitions and times costs one round trip and the
broker's work. For a partition that does not exist it never answers, so after a while its existence is checked. If the
connection is lost before an answer came, librdkafka 2.16 gives an invalid offset without an error: that is no answer.

Groups are read and written without joining them, and not by the admin client: librdkafka 2.16 ends the whole process
when an admin client asks for a group's offsets while the group's coordinator is moving or not there yet.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from itertools import cycle
from typing import Any, Final, Literal, NamedTuple

from confluent_kafka import OFFSET_INVALID, Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from ...core.documents import Isolation
from ...core.next_range import created_again
from ...core.notation.spelling import listed, meant
from ...core.notation.subscriptions import Assigned, Discovery, Matching, Named, Subscription, Topic
from ...core.order.marks import NOT_KNOWN, LogEnd
from ...core.order.positions import Offsets, TopicPartition
from ...core.order.timeline import Answer
from ...errors import AccessDeniedError, OrderedKafkaError, TopicChangedError, UnknownTopicError, UnreachableError
from ..clients.answers import DEADLINE, UNKNOWN, Patience, at_once, gather
from ..clients.config import client_config, new_client
from ..clients.pools import Admin, admin

_SHORT: Final = 1.0
"""Seconds for the first try of a blocking call, after which reported refusals are checked."""

_RECHECK_SECONDS: Final = 4.0


def discover(config: Mapping[str, str], subscription: Subscription, deadline: float = DEADLINE) -> Discovery:
    """Raises UnknownTopicError with the nearest name, AccessDeniedError, or UnreachableError at the deadline."""
    asked = admin(config)
    match subscription:
        case Named(names):
            wanted = names
        case Matching(pattern):
            wanted = _matching(asked, pattern, deadline)
        case Assigned(partitions):
            wanted = tuple(dict.fromkeys(partition.topic for partition in partitions))
    described = _describe(asked, wanted, deadline)
    if isinstance(subscription, Matching):
        described = {name: topic for name, topic in described.items() if not topic.is_internal}
    settings = _settings(asked, tuple(described), deadline)
    topics = tuple(_topic(described[name], settings[name]) for name in sorted(described))
    return Discovery(_cluster_id(asked, deadline), topics, _partitions(subscription, topics))


def topic_ids(config: Mapping[str, str], names: Sequence[str], deadline: float = DEADLINE) -> dict[str, str]:
    """The topics' present ids by name; raises what `discover` raises."""
    return {name: _id(described) for name, described in _describe(admin(config), names, deadline).items()}


def check_topics(config: Mapping[str, str], topics: Iterable[str], planned: Mapping[str, str], deadline: float) -> None:
    """Raise TopicChangedError if a topic's id has changed, UnknownTopicError if a topic is gone."""
    check_ids(topic_ids(config, sorted(set(topics)), deadline), planned)


def check_ids(topics: Mapping[str, str], planned: Mapping[str, str]) -> None:
    """Raise TopicChangedError if one of these ids is not the planned one."""
    for name, found in topics.items():
        if found != planned.get(name, found):
            raise TopicChangedError(
                f"{created_again(name, planned[name], found)}, so a range of the old one cannot be finished. Give it "
                'up with `orderedkafka ledger abandon <load> --reason "created again"`, then begin in the new topic '
                f'with `orderedkafka ledger rewind <load> --topic {name} --to earliest --reason "created again"`; the '
                "ledger has nothing to do with an interval or a replay: start another replay instead; by hand, name a "
                "new checkpoint",
                topic=name,
            )


def recheck(config: Mapping[str, str], partitions: Iterable[TopicPartition], planned: Mapping[str, str]) -> None:
    """Like `check_topics`, and UnknownTopicError if a partition is gone; passes if Kafka does not answer in seconds."""
    partitions = list(partitions)
    try:
        check_topics(config, (partition.topic for partition in partitions), planned, _RECHECK_SECONDS)
    except UnreachableError:
        return
    check_partitions(admin(config), partitions, Patience(_RECHECK_SECONDS, "the partitions of"))


def _id(described: Any) -> str:
    return str(described.topic_id).replace("+", "-").replace("/", "_")


def _cluster_id(asked: Admin, deadline: float) -> str:
    """The cluster's id, empty if Kafka gives none.

    Not by `describe_cluster`: librdkafka 2.16 ends the process if a broker answers that it knows no broker. Clients
    older than 2.15 give it only together with the names of all topics.
    """

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        client = asked.client
        known = getattr(client, "cluster_id", None) or (lambda wait: client.list_topics(timeout=wait).cluster_id)
        return [at_once(lambda: known(seconds)) for _ in questions]

    found = gather(asked, ask, ["the cluster"], Patience(deadline, "the id of"))
    return str(found["the cluster"] or "")


def _topic(described: Any, settings: Mapping[str, str] | None) -> Topic:
    compacted = settings is None or "compact" in settings["cleanup.policy"]
    operations = frozenset(operation.name for operation in described.authorized_operations or ())
    return Topic(described.name, _id(described), len(described.partitions), compacted, operations, settings or {})


def _partitions(subscription: Subscription, topics: Sequence[Topic]) -> tuple[TopicPartition, ...]:
    if isinstance(subscription, Assigned):
        _check_numbers(subscription.partitions, {topic.name: topic.partitions for topic in topics})
        return subscription.partitions
    return tuple(TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions))


def check_partitions(asked: Admin, partitions: Iterable[TopicPartition], patience: Patience) -> None:
    """Raise UnknownTopicError if one of the partitions does not exist; pass if Kafka does not say."""
    partitions = sorted(partitions)
    names = tuple(dict.fromkeys(partition.topic for partition in partitions))
    try:
        described = _describe(asked, names, patience.left)
    except UnreachableError:
        return
    _check_numbers(partitions, {name: len(topic.partitions) for name, topic in described.items()})


def _check_numbers(partitions: Iterable[TopicPartition], counts: Mapping[str, int]) -> None:
    for partition in partitions:
        count = counts[partition.topic]
        if partition.partition >= count:
            there = "partition 0 alone" if count == 1 else f"the partitions 0 to {count - 1}"
            missing = f"{partition} does not exist: {partition.topic!r} has {there}"
            raise UnknownTopicError(missing, **partition._asdict())


def _matching(asked: Admin, pattern: str, deadline: float) -> tuple[str, ...]:
    names = _names(asked, deadline)
    found = tuple(name for name in names if re.fullmatch(pattern, name))
    if found:
        return found
    shown = listed([repr(name) for name in names]) if names else "none"
    raise UnknownTopicError(
        f"the pattern {pattern!r} matches no topic at {asked.servers!r}; it has to match a whole name (a prefix is "
        f"written 'orders.*'); topics there: {shown}"
    )


def _names(asked: Admin, deadline: float) -> list[str]:
    """All visible topics but Kafka's internal ones."""
    patience = Patience(deadline, "the topics of")

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        some = min(seconds, _SHORT) if patience.waited < _SHORT else seconds
        return [at_once(lambda: asked.metadata(some)) for _ in questions]

    found = gather(asked, ask, ["the cluster"], patience)["the cluster"]
    return sorted(name for name in found.topics if not name.startswith("__"))


def _describe(asked: Admin, names: Sequence[str], deadline: float) -> dict[str, Any]:
    patience = Patience(deadline, "the description of topic")

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        answers = asked.client.describe_topics(
            TopicCollection(list(questions)), include_authorized_operations=True, request_timeout=seconds
        )
        return [answers[name] for name in questions]

    try:
        return gather(asked, ask, names, patience, whom=asked.controller)
    except UnknownTopicError:
        raise _unknown(asked, names, patience) from None


def _unknown(asked: Admin, names: Sequence[str], patience: Patience) -> UnknownTopicError:
    there = _names(asked, max(patience.left, 1.0))
    lost = next((name for name in names if name not in there), names[0])
    hint = meant(lost, there, "create it first, or check that this principal may see it")
    return UnknownTopicError(f"topic {lost!r} does not exist at {asked.servers!r}; {hint}", topic=lost)


def _settings(asked: Admin, names: Sequence[str], deadline: float) -> dict[str, dict[str, str] | None]:
    """Each topic's settings; None if the principal may not read them."""

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in questions]
        return list(asked.client.describe_configs(resources, request_timeout=seconds).values())

    try:
        found = gather(asked, ask, names, Patience(deadline, "the settings of topic"), whom=asked.controller)
    except AccessDeniedError:  # of one of them; which one it is shows when each is asked for alone
        alone = [{names[0]: None}] if len(names) == 1 else [_settings(asked, [name], deadline) for name in names]
        return {name: settings for each in alone for name, settings in each.items()}
    return {name: {key: entry.value for key, entry in found[name].items()} for name in names}


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
        _log.warning("group %r could not be committed, so its lag shows too high for now: %s", group, error)


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
    return _as_offsets(_of_each(config, partitions, "earliest", Patience(DEADLINE, "the log start of")))


def high_ends(
    config: Mapping[str, str],
    partitions: Iterable[TopicPartition],
    isolation: Isolation = "read_committed",
    deadline: float = DEADLINE,
) -> Offsets:
    return _as_offsets(_of_each(config, partitions, "latest", Patience(deadline, "the high end of"), isolation))


def log_ends(config: Mapping[str, str], partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
    """Where each log ends, and its leader's epoch."""
    answers = _of_each(config, partitions, "latest", Patience(DEADLINE, "the end of"))
    return {partition: LogEnd(answer.offset, answer.epoch) for partition, answer in answers.items()}


def newest(
    config: Mapping[str, str], partitions: Iterable[TopicPartition], deadline: float = DEADLINE
) -> dict[TopicPartition, Answer]:
    """The highest timestamp of each partition and its offset.

    Brokers say none of a partition that is empty, nor of one whose newest record stands above the high watermark.
    """
    answers = _of_each(config, partitions, "newest", Patience(deadline, "the highest timestamp of"))
    return {partition: Answer(*answer[:2]) for partition, answer in answers.items() if answer.offset >= 0}


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
                found[question.when][question.partition] = Answer(*answer[:2])
    return [found[time] for time in times]


def committed(
    config: Mapping[str, str], group: str, partitions: Iterable[TopicPartition], deadline: float = DEADLINE
) -> dict[TopicPartition, int]:
    commits = read_commits(config, group, partitions, deadline)
    return {partition: commit.offset for partition, commit in commits.items()}


def _as_offsets(answers: Mapping[TopicPartition, "_OffsetAnswer"]) -> Offsets:
    return Offsets({partition: answer.offset for partition, answer in answers.items()})


def _of_each(
    config: Mapping[str, str],
    partitions: Iterable[TopicPartition],
    when: _Kind,
    patience: Patience,
    isolation: Isolation = "read_uncommitted",
) -> "dict[TopicPartition, _OffsetAnswer]":
    answers = _ask(config, [_Question(when, partition) for partition in partitions], isolation, patience)
    return {question.partition: answer for question, answer in answers.items()}


def _ask(
    config: Mapping[str, str], questions: Sequence[_Question], isolation: Isolation, patience: Patience
) -> "dict[_Question, _OffsetAnswer]":
    asked = admin(config)

    def ask(some: Sequence[_Question], seconds: float) -> list[_Sent]:
        return _sent(asked, some, isolation, seconds)

    def recheck() -> None:
        check_partitions(asked, {question.partition for question in questions}, patience)

    def leaders(seconds: float, _silent: object) -> object:
        return asked.leaders(dict.fromkeys(question.partition.topic for question in questions), seconds)

    return gather(asked, ask, questions, patience, recheck=recheck, whom=leaders)


class _OffsetAnswer(NamedTuple):
    """Kafka's answer, with the epoch of the leader or, for a time, of the record."""

    offset: int
    timestamp: int
    epoch: int


class _Sent:
    """The answer to come of `list_offsets`; KafkaException if it was lost."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> _OffsetAnswer:
        found = self._future.result(timeout)
        if found.offset == OFFSET_INVALID:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "the connection was lost before the answer came"))
        return _OffsetAnswer(
            found.offset, found.timestamp, NOT_KNOWN if found.leader_epoch is None else found.leader_epoch
        )


def _sent(asked: Admin, questions: Sequence[_Question], isolation: Isolation, seconds: float) -> list[_Sent]:
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
            futures[place] = _Sent(future)
    return futures
