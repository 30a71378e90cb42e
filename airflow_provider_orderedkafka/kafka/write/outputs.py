"""Look up output topics, before anything is written.

A principal that may not read a topic's settings can still write: then Kafka's defaults are assumed, and the broker
decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider_orderedkafka.core.notation.subscriptions import Named, Topic
from airflow_provider_orderedkafka.kafka.clients.refusals import check_allowed
from airflow_provider_orderedkafka.kafka.lookup.topics import discover

DEFAULT_MAX_BYTES: Final = 1_048_588
_ANY_TIME: Final = 2**63 - 1
_BATCH_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """An output topic: its partitions, and which records it accepts.

    `max_bytes` bounds a record; `ahead` and `behind` are how many milliseconds its timestamp may be off the broker's
    clock. A compacted topic requires keys. `stamps` means that the broker sets the timestamp. `operations` are those
    that the principal may do; empty if Kafka does not say.
    """

    name: str
    id: str
    partitions: int
    max_bytes: int = DEFAULT_MAX_BYTES
    compacted: bool = False
    ahead: int = _ANY_TIME
    behind: int = _ANY_TIME
    stamps: bool = False
    operations: frozenset[str] = frozenset()


def look_up_outputs(config: Mapping[str, str], topics: Iterable[str]) -> dict[str, OutputTopic]:
    """Look these topics up; raises what `discover` does, and AccessDeniedError if one of them may not be written."""
    names = tuple(sorted(set(topics)))
    if not names:
        return {}
    found = discover(config, Named(names))
    for topic in found.topics:
        check_allowed(topic.name, topic.operations, "WRITE", "to write to it")
    return {topic.name: _output(topic) for topic in found.topics}


def check_readable(outputs: Iterable[OutputTopic]) -> None:
    """Raise AccessDeniedError if one of these may not be read: the attempt after a kill has to."""
    for output in outputs:
        check_allowed(output.name, output.operations, "READ", "to find in it what a killed attempt has written")


def with_limits(config: Mapping[str, str], outputs: Mapping[str, OutputTopic]) -> dict[str, str]:
    """The configuration, with limits that suit these topics, unless the user set them.

    Record sizes are checked for each topic, so the producer's own bound is as high as possible; a batch may be no
    larger than the smallest maximum of the topics.
    """
    sizes = (output.max_bytes for output in outputs.values())
    return {"batch.size": str(min(_BATCH_BYTES, *sizes, _BATCH_BYTES)), **config}


def _output(topic: Topic) -> OutputTopic:
    settings = topic.settings
    by_log = settings.get("message.timestamp.type") == "LogAppendTime"
    return OutputTopic(
        topic.name,
        topic.id,
        topic.partitions,
        max_bytes=int(settings.get("max.message.bytes", DEFAULT_MAX_BYTES)),
        compacted="compact" in settings.get("cleanup.policy", ""),
        ahead=_ANY_TIME if by_log else int(settings.get("message.timestamp.after.max.ms", _ANY_TIME)),
        behind=_ANY_TIME if by_log else int(settings.get("message.timestamp.before.max.ms", _ANY_TIME)),
        stamps=by_log,
        operations=topic.operations,
    )
