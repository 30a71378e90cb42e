"""Discover topics and partitions, with what planning needs to know of them; no topic is created by this.

And check that a topic is the one that was planned, and was not deleted and created again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from airflow_provider_orderedkafka.core.next_range import created_again
from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.core.notation.subscriptions import (
    Assigned,
    Discovery,
    Matching,
    Named,
    Subscription,
    Topic,
)
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import (
    AccessDeniedError,
    TopicChangedError,
    UnknownTopicError,
    UnreachableError,
)
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, Patience, at_once, gather, listed
from airflow_provider_orderedkafka.kafka.clients.pools import Admin, admin

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
                f"{created_again(name, planned[name], found)}, so what was planned before cannot be finished. In "
                f"Airflow give it up with "
                f'`orderedkafka ledger abandon <load> --reason "created again"`, and begin in the new topic with '
                f'`orderedkafka ledger rewind <load> --topic {name} --to earliest --reason "created again"`; by hand, '
                "begin with a new checkpoint",
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
        return gather(asked, ask, names, patience, look_again=asked.look_again)
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
        found = gather(asked, ask, names, Patience(deadline, "the settings of topic"), look_again=asked.look_again)
    except AccessDeniedError:  # of one of them; which one it is shows when each is asked for alone
        alone = [{names[0]: None}] if len(names) == 1 else [_settings(asked, [name], deadline) for name in names]
        return {name: settings for each in alone for name, settings in each.items()}
    return {name: {key: entry.value for key, entry in found[name].items()} for name in names}
