"""Subscriptions as in Spark's connector: a list of topics, a pattern, or partitions.

Named(("orders", "refunds"))                    subscribe          "orders,refunds"
Matching("orders-.*")                           subscribePattern   "orders-.*"
Assigned((TopicPartition("orders", 0),))        assign             {"orders": [0]}

A `Discovery` is what that means on a cluster at one moment.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_orderedkafka.core.notation.starts import read_json
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import SettingError

TOPIC_NAMES: Final = "Kafka allows 1 to 249 letters, digits and ._-"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(value: object) -> bool:
    """Whether Kafka accepts it as the name of a topic."""
    return isinstance(value, str) and _TOPIC.fullmatch(value) is not None and value not in {".", ".."}


@dataclass(frozen=True, slots=True)
class Named:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """Every topic whose whole name matches a regular expression, but for Kafka's own."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partitions by name and number, in order."""

    partitions: tuple[TopicPartition, ...]


Subscription = Named | Matching | Assigned


def names(subscription: Subscription) -> tuple[str, ...]:
    """The named topics. A pattern names none: what it matches later are new partitions."""
    if isinstance(subscription, Assigned):
        return tuple(dict.fromkeys(partition.topic for partition in subscription.partitions))
    return subscription.topics if isinstance(subscription, Named) else ()


def only(subscription: Subscription, topics: Sequence[str]) -> Subscription:
    """The same for some of the topics that are named."""
    if isinstance(subscription, Assigned):
        return Assigned(tuple(partition for partition in subscription.partitions if partition.topic in topics))
    return Named(tuple(topics)) if isinstance(subscription, Named) else subscription


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster describes it.

    `id` is spelled as Kafka's own tools do. `compacted` is also true if the topic's settings may not be read.
    `operations` are what the principal is allowed to do, by name; empty if Kafka does not say. `settings` are empty if
    they may not be read.
    """

    name: str
    id: str
    partitions: int
    compacted: bool
    operations: frozenset[str] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a subscription means now: the cluster, the topics in order, and the partitions that take part, in order."""

    cluster_id: str
    topics: tuple[Topic, ...]
    partitions: tuple[TopicPartition, ...]

    @property
    def ids(self) -> dict[str, str]:
        return {topic.name: topic.id for topic in self.topics}

    @property
    def compacted(self) -> frozenset[str]:
        """The names of the topics whose records may be compacted away."""
        return frozenset(topic.name for topic in self.topics if topic.compacted)


def parse_subscription(kind: str, text: str) -> Subscription:
    """Read the option `subscribe`, `subscribePattern` or `assign`; a `SettingError` says what is wrong with it."""
    return _KINDS[kind](text, kind)


def _named(text: str, name: str) -> Named:
    topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
    if not topics:
        raise SettingError(f"{name!r} must name topics, such as 'orders,refunds', found {text!r}")
    return Named(topics)


def _matching(text: str, name: str) -> Matching:
    try:
        re.compile(text)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise SettingError(f"{name!r} must be a regular expression, found {text!r}: {error}") from error
    if not text:
        raise SettingError(f"{name!r} must be a regular expression, such as 'orders-.*', found {text!r}")
    return Matching(text)


def _assigned(text: str, name: str) -> Assigned:
    value = read_json(text, name)
    if not isinstance(value, dict) or not value:
        raise SettingError(f'{name!r} must name partitions by topic, such as {{"orders": [0, 1]}}, found {text!r}')
    return Assigned(
        tuple(sorted({TopicPartition(t, p) for t, numbers in value.items() for p in _numbers(t, numbers, name)}))
    )


def _numbers(topic: str, numbers: Any, name: str) -> list[int]:
    valid = isinstance(numbers, list) and all(type(each) is int and each >= 0 for each in numbers)
    if not valid or not numbers:
        raise SettingError(f"'{name}.{topic}' must be an array of partitions, such as [0, 1], found {numbers!r}")
    return list(numbers)


_KINDS: Final[dict[str, Callable[[str, str], Subscription]]] = {
    "subscribe": _named,
    "subscribePattern": _matching,
    "assign": _assigned,
}
