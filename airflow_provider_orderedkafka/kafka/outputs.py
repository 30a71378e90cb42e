"""Output topics: what the cluster says of them before anything is written.

    look_up_outputs(config, topics, seconds=30) -> dict[str, Output]     UnknownTopicError names what is missing

Nothing is created by asking. A principal that may not read a topic's settings can still write: then the broker's
defaults are taken, and the broker has the last word.
"""

import difflib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_orderedkafka.errors import AccessDeniedError, UnknownTopicError, UnreachableError

SECONDS: Final = 30.0
DEFAULT_MAX_BYTES: Final = 1_048_588
_ANY_TIME: Final = 2**63 - 1
_BATCH_BYTES: Final = 1_000_000
_SHOWS_AFTER: Final = 2.0
_LOOK_SECONDS: Final = 0.1
_LONGER: Final = 1.0
_QUIET: Final = {"log_level": "0"}


@dataclass(frozen=True, slots=True)
class Output:
    """A topic that may be written: how many partitions it has, and what it takes.

    `max_bytes` bounds a record, `ahead` and `behind` say how many milliseconds its timestamp may be off the broker's
    clock; a compacted topic takes no record without a key.
    """

    name: str
    partitions: int
    max_bytes: int = DEFAULT_MAX_BYTES
    compacted: bool = False
    ahead: int = _ANY_TIME
    behind: int = _ANY_TIME


def look_up_outputs(config: Mapping[str, str], topics: Iterable[str], seconds: float = SECONDS) -> dict[str, Output]:
    """What the cluster says of these topics; an error names the first that is unknown, or who did not answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    names = sorted(set(topics))
    if not names:
        return {}
    admin = AdminClient(_QUIET | {name: value for name, value in config.items() if name not in _PRODUCERS_ONLY})
    try:
        partitions = _described(admin, names, seconds)
        settings = _settings(admin, [name for name in names if name in partitions], seconds)
        missing = [name for name in names if name not in partitions]
        there = admin.list_topics(timeout=seconds).topics if missing else {}
    except (KafkaException, TimeoutError) as error:
        raise UnreachableError(
            f"{config.get('bootstrap.servers')!r} did not answer within {seconds:g} s for the output topics "
            f"{', '.join(map(repr, names))}: is it up and reachable?"
        ) from error
    if missing:
        raise UnknownTopicError(_unknown(missing[0], there, config))
    return {name: _output(name, partitions[name], settings[name]) for name in names}


_PRODUCERS_ONLY: Final = frozenset(
    {"partitioner", "linger.ms", "compression.type", "compression.codec", "compression.level", "batch.size"}
    | {"batch.num.messages", "message.max.bytes", "queue.buffering.max.messages", "queue.buffering.max.kbytes"}
    | {"queue.buffering.max.ms", "message.timeout.ms", "delivery.timeout.ms", "request.timeout.ms", "acks"}
    | {"request.required.acks", "enable.idempotence", "enable.gapless.guarantee", "sticky.partitioning.linger.ms"}
    | {"retries", "message.send.max.retries", "max.in.flight", "max.in.flight.requests.per.connection"}
)


def with_limits(config: Mapping[str, str], outputs: Mapping[str, Output]) -> dict[str, str]:
    """The configuration with which a producer suits its topics, unless the user's own says otherwise.

    What a record may take is known for each topic, so the producer's own bound is as high as it can be; a batch may
    be no larger than the smallest of the topics takes.
    """
    sizes = (output.max_bytes for output in outputs.values())
    return {"batch.size": str(min(_BATCH_BYTES, *sizes, _BATCH_BYTES)), **config}


def _described(admin: Any, names: list[str], seconds: float) -> dict[str, int]:
    """The number of partitions of each topic that exists; one that was just made may need a moment to show."""
    from confluent_kafka import TopicCollection

    found: dict[str, int] = {}
    deadline = time.monotonic() + _SHOWS_AFTER
    while missing := [name for name in names if name not in found]:
        answers = admin.describe_topics(TopicCollection(missing), request_timeout=seconds)
        found |= {name: count for name, answer in answers.items() if (count := _partitions(name, answer, seconds))}
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_SECONDS if len(found) < len(names) else 0)
    return found


def _partitions(name: str, answer: Any, seconds: float) -> int:
    """How many partitions the topic has; 0 for one that does not exist."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        return len(answer.result(seconds + _LONGER).partitions)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise AccessDeniedError(f"the output topic {name!r} may not be described: grant DESCRIBE, WRITE") from error
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
            return 0
        raise


def _unknown(name: str, there: Iterable[str], config: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, [topic for topic in there if not topic.startswith("__")], n=1)
    hint = f"did you mean {near[0]!r}?" if near else "create it first."
    return f"the output topic {name!r} does not exist at {config.get('bootstrap.servers')!r}; {hint}"


def _settings(admin: Any, names: list[str], seconds: float) -> dict[str, dict[str, str]]:
    """The topics' own settings, where the principal may see them."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found = {}
    for resource, answer in admin.describe_configs(resources, request_timeout=seconds).items():
        try:
            found[resource.name] = {name: entry.value for name, entry in answer.result(seconds + _LONGER).items()}
        except KafkaException:
            found[resource.name] = {}
    return found


def _output(name: str, partitions: int, settings: Mapping[str, str]) -> Output:
    by_log = settings.get("message.timestamp.type") == "LogAppendTime"
    return Output(
        name,
        partitions,
        max_bytes=int(settings.get("max.message.bytes", DEFAULT_MAX_BYTES)),
        compacted="compact" in settings.get("cleanup.policy", ""),
        ahead=_ANY_TIME if by_log else int(settings.get("message.timestamp.after.max.ms", _ANY_TIME)),
        behind=_ANY_TIME if by_log else int(settings.get("message.timestamp.before.max.ms", _ANY_TIME)),
    )
