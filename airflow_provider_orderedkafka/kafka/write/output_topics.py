"""Look up output topics before anything is written, and create those that do not exist, as a load says.

    look_up_outputs(kafka, topics)          ->  what each takes
    made_ready(config, topics, new)         ->  remarks about what was found and done

A principal that may not read a topic's settings can still write: then Kafka's default bounds a record's size, and for
the rest the broker decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from airflow_provider_orderedkafka.core.notation.spelling import counted
from airflow_provider_orderedkafka.core.notation.subscriptions import Named, Topic
from airflow_provider_orderedkafka.errors import AccessDeniedError, SettingError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, DENIED, Patience, check_allowed, gather
from airflow_provider_orderedkafka.kafka.clients.pools import admin
from airflow_provider_orderedkafka.kafka.lookup.survey import Kafka
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from airflow_provider_orderedkafka.outputs import EXAMPLE, NewTopics

DEFAULT_MAX_BYTES: Final = 1_048_588
_ANY_TIME: Final = 2**63 - 1
_BATCH_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """An output topic: its partitions, and which records it accepts.

    `max_bytes` bounds a record; `ahead` and `behind` are how many milliseconds its timestamp may be off the broker's
    clock. A compacted topic requires keys; None if the principal may not read the topic's settings. `stamps` means that
    the broker sets the timestamp. `operations` are those that the principal may do; empty if Kafka does not say.
    `cluster` is the id of the cluster that it is on.
    """

    name: str
    id: str
    partitions: int
    max_bytes: int = DEFAULT_MAX_BYTES
    compacted: bool | None = False
    ahead: int = _ANY_TIME
    behind: int = _ANY_TIME
    stamps: bool = False
    operations: frozenset[str] = frozenset()
    cluster: str = ""


def look_up_outputs(kafka: Kafka, topics: Iterable[str]) -> dict[str, OutputTopic]:
    """Look these topics up; raises what `discover` does, and AccessDeniedError if one of them may not be written."""
    names = tuple(sorted(set(topics)))
    if not names:
        return {}
    found = kafka.discover(Named(names))
    for topic in found.topics:
        check_allowed(topic.name, topic.operations, "WRITE", "to write to it")
    return {topic.name: _output(topic, found.cluster_id) for topic in found.topics}


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


def _output(topic: Topic, cluster: str) -> OutputTopic:
    settings = topic.settings
    by_log = settings.get("message.timestamp.type") == "LogAppendTime"
    return OutputTopic(
        topic.name,
        topic.id,
        topic.partitions,
        max_bytes=int(settings.get("max.message.bytes", DEFAULT_MAX_BYTES)),
        compacted="compact" in settings["cleanup.policy"] if settings else None,
        ahead=_ANY_TIME if by_log else int(settings.get("message.timestamp.after.max.ms", _ANY_TIME)),
        behind=_ANY_TIME if by_log else int(settings.get("message.timestamp.before.max.ms", _ANY_TIME)),
        stamps=by_log,
        operations=topic.operations,
        cluster=cluster,
    )


_WRONG: Final = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.POLICY_VIOLATION,
}
"""Why Kafka creates no topic, whoever asks and however often."""

NEEDED: Final = ("WRITE", "READ")
"""What the application does with an output, perhaps as another principal than the one that asks here."""


def made_ready(config: Mapping[str, str], topics: Iterable[str], new: NewTopics | None) -> list[str]:
    """Create those topics that do not exist, if it is said how; remarks about what was found and done.

    A topic that exists stays as it is. `UnknownTopicError` for a topic that does not, and is not to be created.
    """
    found = (_ready(config, topic, new) for topic in topics)
    return [remark for remark in found if remark]


def _ready(config: Mapping[str, str], topic: str, new: NewTopics | None) -> str | None:
    try:
        (there,) = discover(config, Named((topic,))).topics
    except AccessDeniedError as error:
        return f"whether output topic {topic!r} exists cannot be seen from here: {error}"
    except UnknownTopicError as error:
        if new is None:
            raise UnknownTopicError(f"output {error}; or have it created, with {EXAMPLE}", topic=topic) from error
        return _create(config, topic, new)
    lacking = " and ".join(each for each in NEEDED if there.operations and each not in there.operations)
    if lacking:
        return f"output topic {topic!r}: the principal of this connection lacks {lacking}, which the application needs"
    if new is None or new.partitions in {None, there.partitions}:
        return None
    found = counted(there.partitions, "partition")
    return f"output topic {topic!r} exists, with {found}, not {new.partitions}: it stays as it is"


def _create(config: Mapping[str, str], topic: str, new: NewTopics) -> str:
    from confluent_kafka.admin import NewTopic

    asked = admin(config)
    wanted = NewTopic(topic, new.partitions or -1, new.replication or -1, config=dict(new.config))

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        made = asked.client.create_topics([wanted], request_timeout=seconds)
        return [_judged(made[name], topic) for name in questions]

    gather(asked, ask, [topic], Patience(DEADLINE, "the creation of topic"), look_again=asked.look_again)
    partitions = discover(config, Named((topic,))).topics[0].partitions
    return f"output topic {topic!r} was created, with {counted(partitions, 'partition')}"


def _judged(made: Future[Any], topic: str) -> Future[Any]:
    """The same outcome, but for a topic that another task has created, and for what a person has to mend."""
    judged: Future[Any] = Future()
    try:
        made.result()
        judged.set_result(True)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() in DENIED:
            raise AccessDeniedError(
                f"Kafka refuses to create topic {topic!r}: {reason.str()}; the principal needs CREATE on it"
            ) from error
        if reason.code() in _WRONG:
            raise SettingError(f"Kafka does not create topic {topic!r} as create= says: {reason.str()}") from error
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            judged.set_result(True)
        else:
            judged.set_exception(error)
    return judged
