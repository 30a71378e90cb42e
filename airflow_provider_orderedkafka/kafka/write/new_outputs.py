"""Create output topics that do not exist, as a load says.

made_ready(config, topics, new)  ->  remarks about what was found and done
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.outputs import EXAMPLE, NewOutput
from airflow_provider_orderedkafka.errors import AccessDeniedError, SettingError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.clients.admin import admin
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, Patience, gather
from airflow_provider_orderedkafka.kafka.clients.refusals import DENIED
from airflow_provider_orderedkafka.kafka.lookup.topics import discover

_WRONG: Final = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.POLICY_VIOLATION,
}
"""Why Kafka creates no topic, whoever asks and however often."""

NEEDED: Final = ("WRITE", "READ")
"""What the application does with an output, perhaps as another principal than the one that asks here."""


def made_ready(config: Mapping[str, str], topics: Iterable[str], new: NewOutput | None) -> list[str]:
    """Create those topics that do not exist, if it is said how; remarks about what was found and done.

    A topic that exists stays as it is. `UnknownTopicError` for a topic that does not, and is not to be created.
    """
    found = (_ready(config, topic, new) for topic in topics)
    return [remark for remark in found if remark]


def _ready(config: Mapping[str, str], topic: str, new: NewOutput | None) -> str | None:
    try:
        (there,) = discover(config, Named((topic,))).topics
    except AccessDeniedError as error:
        return f"whether output topic {topic!r} exists cannot be seen from here: {error}"
    except UnknownTopicError as error:
        if new is None:
            raise UnknownTopicError(
                f"output {error}; or have it created, with create_output={EXAMPLE}", topic=topic
            ) from error
        return _create(config, topic, new)
    lacking = " and ".join(each for each in NEEDED if there.operations and each not in there.operations)
    if lacking:
        return f"output topic {topic!r}: the principal of this connection lacks {lacking}, which the application needs"
    if new is None or new.partitions in {None, there.partitions}:
        return None
    return f"output topic {topic!r} exists, with {there.partitions} partitions, not {new.partitions}: it stays as it is"


def _create(config: Mapping[str, str], topic: str, new: NewOutput) -> str:
    from confluent_kafka.admin import NewTopic

    asked = admin(config)
    wanted = NewTopic(topic, new.partitions or -1, new.replication or -1, config=dict(new.config))

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        made = asked.client.create_topics([wanted], request_timeout=seconds)
        return [_judged(made[name], topic) for name in questions]

    gather(asked, ask, [topic], Patience(DEADLINE, "the creation of topic"), look_again=asked.look_again)
    partitions = discover(config, Named((topic,))).topics[0].partitions
    return f"output topic {topic!r} was created, with {partitions} partitions"


def _judged(made: Future[Any], topic: str) -> Future[Any]:
    """The same outcome, but for a topic that another task has created, and for what a person has to mend."""
    judged: Future[Any] = Future()
    try:
        made.result()
        judged.set_result(True)
    except KafkaException as error:
        told = error.args[0]
        if told.code() in DENIED:
            raise AccessDeniedError(
                f"Kafka refuses to create topic {topic!r}: {told.str()}; the principal needs CREATE on it"
            ) from error
        if told.code() in _WRONG:
            raise SettingError(f"Kafka does not create topic {topic!r} as create_output says: {told.str()}") from error
        if told.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            judged.set_result(True)
        else:
            judged.set_exception(error)
    return judged
