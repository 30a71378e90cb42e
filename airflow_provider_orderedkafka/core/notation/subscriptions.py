"""Subscriptions as in Spark's connector: a list of topics, a pattern, or partitions.

                                             in Python                    as an option of Spark
Named(("orders", "refunds"))                 ["orders", "refunds"]        subscribe         orders,refunds
Matching("orders-.*")                        re.compile("orders-.*")      subscribePattern  orders-.*
Assigned((TopicPartition("orders", 0),))     {"orders": [0]}              assign            {"orders": [0]}

A `Discovery` is what that means on a cluster at one moment.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...errors import SettingError
from ..order.positions import TopicPartition, is_integer
from .starts import ByTopic, Explicit, Start, read_json

Topics = str | Sequence[str] | re.Pattern[str] | Mapping[str, Sequence[int]]
"""How topics are written in Python: names, a pattern that matches whole names, or partitions by topic."""

TOPIC_NAMES: Final = "Kafka allows 1 to 249 letters, digits and ._-"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(value: object) -> bool:
    """Whether Kafka accepts it as the name of a topic."""
    return isinstance(value, str) and _TOPIC.fullmatch(value) is not None and value not in {".", ".."}


@dataclass(frozen=True, slots=True)
class Named:
    topics: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(map(repr, self.topics))


@dataclass(frozen=True, slots=True)
class Matching:
    """Every topic whose whole name matches a regular expression, but for Kafka's own."""

    pattern: str

    def __str__(self) -> str:
        return f"topics like {self.pattern!r}"


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partitions by name and number, in order."""

    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.partitions))


Subscription = Named | Matching | Assigned


def names(subscription: Subscription) -> tuple[str, ...]:
    """The named topics. A pattern names none: what it matches later are new partitions."""
    if isinstance(subscription, Assigned):
        return tuple(dict.fromkeys(partition.topic for partition in subscription.partitions))
    return subscription.topics if isinstance(subscription, Named) else ()


def reads(subscription: Subscription, topic: str) -> bool:
    """Whether the topic, or a part of it, is among what is read, wherever it is."""
    if isinstance(subscription, Matching):
        return re.fullmatch(subscription.pattern, topic) is not None
    return topic in names(subscription)


def covers(subscription: Subscription, partition: TopicPartition) -> bool:
    """Whether the partition is among what is read, where it exists."""
    if isinstance(subscription, Assigned):
        return partition in subscription.partitions
    return reads(subscription, partition.topic)


def lacking(
    subscription: Subscription, topics: Container[str], partitions: Container[TopicPartition]
) -> Subscription | None:
    """What it names that is neither among these topics nor among these partitions."""
    if isinstance(subscription, Assigned):
        left = tuple(partition for partition in subscription.partitions if partition not in partitions)
        return Assigned(left) if left else None
    new = tuple(topic for topic in names(subscription) if topic not in topics)
    return Named(new) if new else None


def within(start: Start, wanted: Subscription) -> Start:
    """The part of a start that is about what is wanted."""
    if isinstance(start, Explicit):
        return Explicit(tuple((partition, offset) for partition, offset in start.offsets if covers(wanted, partition)))
    if isinstance(start, ByTopic):
        return ByTopic(tuple((topic, within(each, wanted)) for topic, each in start.starts if reads(wanted, topic)))
    return start


def check_start(start: Start, subscription: Subscription) -> None:
    """Raise `SettingError` for a start that names what is not read, or leaves out some of what is named."""
    if isinstance(start, ByTopic):
        _check_named([topic for topic, _ in start.starts], subscription)
        for _, each in start.starts:
            _check_offsets(each, subscription)
    elif isinstance(start, Explicit):
        _check_named([partition.topic for partition, _ in start.offsets], subscription)
        _check_offsets(start, subscription)


def _check_named(named: Sequence[str], subscription: Subscription) -> None:
    if odd := [topic for topic in named if not reads(subscription, topic)]:
        raise SettingError(f"the start names {odd[0]!r}, which is not read: leave it out")
    if missing := sorted({*names(subscription)} - {*named}):
        raise SettingError(f"the start leaves out {missing[0]!r}, which is read: give it one, such as 'earliest'")


def _check_offsets(start: Start, subscription: Subscription) -> None:
    if not (isinstance(start, Explicit) and isinstance(subscription, Assigned)):
        return  # how many partitions a topic has is not known here
    named, topics = [partition for partition, _ in start.offsets], {partition.topic for partition, _ in start.offsets}
    if odd := [partition for partition in named if partition not in subscription.partitions]:
        raise SettingError(f"the start names {odd[0]}, which is not read: leave it out")
    if missing := [p for p in subscription.partitions if p.topic in topics and p not in named]:
        raise SettingError(f"the start leaves out {missing[0]}, which is read: give it an offset, or -2 for earliest")


@dataclass(frozen=True, slots=True)
class Topic:
    """`id` is spelled as Kafka's own tools do; `compacted` is also true if the topic's settings may not be read.

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


def subscription_of(topics: object) -> Subscription:
    """What topics in Python mean; a `SettingError` says what is wrong with them."""
    if isinstance(topics, re.Pattern) and isinstance(topics.pattern, str):
        return _matching(_with_flags(topics), "topics")
    if isinstance(topics, Mapping):
        return _assigned_of(topics, "topics")
    listed = (topics,) if isinstance(topics, str) else topics
    if not listed or not isinstance(listed, Iterable):
        raise SettingError(
            "'topics' must be names of topics, such as ['orders'], re.compile('orders-.*'), or partitions by topic, "
            f"such as {{'orders': [0, 1]}}, found {topics!r}"
        )
    wrong = [topic for topic in listed if not is_topic_name(topic)]
    if wrong:
        raise SettingError(
            f"'topics': {wrong[0]!r} cannot be a topic's name; {TOPIC_NAMES}; a pattern is re.compile('orders-.*')"
        )
    return Named(tuple(sorted(set(listed))))


_FLAGS: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}


def _with_flags(pattern: re.Pattern[str]) -> str:
    """The pattern's text, with the flags that it was compiled with and does not say itself."""
    missing = pattern.flags & ~re.compile(pattern.pattern).flags
    letters = "".join(letter for flag, letter in _FLAGS.items() if missing & flag)
    end = "\n" if "x" in letters else ""  # it may end in a comment
    return f"(?{letters}:{pattern.pattern}{end})" if letters else pattern.pattern


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
    if not isinstance(value, dict):
        raise SettingError(f'{name!r} must name partitions by topic, such as {{"orders": [0, 1]}}, found {text!r}')
    return _assigned_of(value, name)


def _assigned_of(value: Mapping[str, Any], name: str) -> Assigned:
    if not value:
        raise SettingError(f'{name!r} must name partitions by topic, such as {{"orders": [0, 1]}}, found none')
    for topic in value:
        if not is_topic_name(topic):
            raise SettingError(f"{name!r}: {topic!r} cannot be a topic's name; {TOPIC_NAMES}")
    return Assigned(
        tuple(sorted({TopicPartition(t, p) for t, numbers in value.items() for p in _numbers(t, numbers, name)}))
    )


def _numbers(topic: str, numbers: Any, name: str) -> list[int]:
    valid = isinstance(numbers, list | tuple | range) and all(is_integer(each) for each in numbers)
    if not valid or not numbers:
        raise SettingError(f"'{name}.{topic}' must be an array of partitions, such as [0, 1], found {numbers!r}")
    return list(numbers)


_KINDS: Final[dict[str, Callable[[str, str], Subscription]]] = {
    "subscribe": _named,
    "subscribePattern": _matching,
    "assign": _assigned,
}


def check_not_fed_back(load: str, sources: Subscription, outputs: Mapping[str, str]) -> None:
    """Raise `SettingError` if an output is also a source; `outputs` has the option that names each topic."""
    for topic in sorted(topic for topic in outputs if reads(sources, topic)):
        raise SettingError(
            f"load {load!r} reads {sources} and would write into {topic!r} "
            f"({outputs[topic]}={topic!r}): each run would load what the one before it wrote; name a topic that it "
            "does not read"
        )
