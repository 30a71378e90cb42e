"""The settings of a write, the topics and columns that it needs, and its counts.

    look_up_outputs(kafka, topics)          ->  what each output topic takes
    made_ready(config, topics, new)         ->  remarks about what was found, and created as a load says

A principal that may not read a topic's settings can still write: then Kafka's default bounds a record's size, and for
the rest the broker decides.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from ...core.notation.spelling import counted
from ...core.notation.subscriptions import Named, Topic
from ...errors import AccessDeniedError, SettingError, UnknownTopicError
from ...outputs import HAVE_IT_CREATED, NewTopics
from ..clients.answers import DEADLINE, DENIED, Patience, check_allowed, gather
from ..clients.pools import admin
from ..lookup.survey import Kafka
from ..lookup.topics import discover
from ..provenance import ERROR, ORDINAL, SEQUENCE, SOURCE, SOURCE_FIELDS, SourceColumns, range_prefix
from .producer import PooledProducer, lend, producer_config
from .turns import Transaction, Turn

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


def check_exactly_once(outputs: Iterable[OutputTopic]) -> None:
    """Raise `SettingError` if one of these may lose records of which a later attempt would not know."""
    for output in outputs:
        if output.compacted is None:
            raise SettingError(
                f"exactly once needs topics that are not compacted, and whether {output.name!r} is cannot be seen: let "
                "the principal DESCRIBE_CONFIGS there, or set guarantee='at_least_once'"
            )
        if output.compacted:
            raise SettingError(
                f"exactly once needs topics that are not compacted, and {output.name!r} is (cleanup.policy): a killed "
                "attempt's rows may be gone before the next one looks. Write to another topic, or set "
                "guarantee='at_least_once'"
            )


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


def made_ready(
    config: Mapping[str, str], topics: Iterable[str], new: NewTopics | None, way_out: str = HAVE_IT_CREATED
) -> list[str]:
    """Create those topics that do not exist, if `new` says how; remarks about what was found and done.

    A topic that exists stays as it is. `UnknownTopicError` for another one that is not to be created, with the way out.
    """
    found = (_ready(config, topic, new, way_out) for topic in topics)
    return [remark for remark in found if remark]


def _ready(config: Mapping[str, str], topic: str, new: NewTopics | None, way_out: str) -> str | None:
    try:
        (there,) = discover(config, Named((topic,))).topics
    except AccessDeniedError as error:
        return f"whether output topic {topic!r} exists cannot be seen from here: {error}"
    except UnknownTopicError as error:
        if new is None:
            raise UnknownTopicError(f"output {error}; or {way_out}", topic=topic) from error
        return _create(config, topic, new)
    lacking = " and ".join(each for each in NEEDED if there.operations and each not in there.operations)
    if lacking:
        return f"output topic {topic!r}: the principal of this connection lacks {lacking}, which the application needs"
    if new is None or new.partitions in {None, there.partitions}:
        return None
    found = counted(there.partitions, "partition")
    return f"output topic {topic!r} exists, with {found}, not {new.partitions}: it stays as it is"


def _create(config: Mapping[str, str], topic: str, new: NewTopics) -> str:
    asked = admin(config)
    wanted = NewTopic(topic, new.partitions or -1, new.replication or -1, config=dict(new.config))

    def ask(questions: Sequence[str], seconds: float) -> list[Future[Any]]:
        made = asked.client.create_topics([wanted], request_timeout=seconds)
        return [_judged(made[name], topic) for name in questions]

    gather(asked, ask, [topic], Patience(DEADLINE, "the creation of topic"), whom=asked.controller)
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


UsePartition = Literal["never", "given", "always"]
Keyless = Literal["in runs", "one by one"]
Lend = Callable[[Mapping[str, str]], AbstractContextManager[PooledProducer]]

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"

_PAYLOAD: Final = ("binary", "string")
_ALLOWED: Final[dict[str, tuple[str, ...]]] = {
    "value": _PAYLOAD,
    "key": _PAYLOAD,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS_TYPE,),
    "timestamp": ("timestamp",),
    ERROR: ("string",),
}
_SOURCE_FIELDS: Final = dict(zip(SOURCE_FIELDS, ("string", "int", "bigint", "timestamp"), strict=True))
SOURCE_TYPE: Final = f"struct<{','.join(f'{name}:{kind}' for name, kind in _SOURCE_FIELDS.items())}>"

Column = tuple[str, str]
"""A column's name, and Spark's `simpleString` of its type."""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How rows become records.

    `config` is librdkafka's configuration. `topic` overrides a `topic` column. `use_partition`: use a `partition`
    column never, if given, or always (then null is an error). `range_id` switches provenance on; `source` says where
    source positions are: in the struct column `_source`, in the plain columns topic, partition, offset and order_time,
    or nowhere. `output_topics` are the names that a `topic` column may have; empty allows any. `outputs` is what
    `plan_write` found. `partitions` is over how many partitions of a topic the writer places rows, even if it has more
    by then; for other topics Kafka's client places them. `keyless` says how rows without a key are placed by their
    source: so that runs of them stay together, or one by one. `lend` lends a task the producer that it writes with,
    unless it has a `turn` to write exactly once, as the `writer` of that name.
    """

    config: Mapping[str, str] = field(repr=False)
    topic: str | None = None
    use_partition: UsePartition = "given"
    use_headers: bool = True
    dead_letter_topic: str | None = None
    range_id: str | None = None
    source: SourceColumns | None = None
    output_topics: tuple[str, ...] = ()
    outputs: Mapping[str, OutputTopic] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    keyless: Keyless = "in runs"
    lend: Lend = lend
    turn: Turn | None = None
    writer: str = ""

    def __post_init__(self) -> None:
        if self.range_id is not None:
            range_prefix(self.range_id)
        if self.dead_letter_topic is not None:
            check_apart(self.dead_letter_topic, [self.topic])

    @property
    def partitioner(self) -> str:
        """What places keys where rows name no partition, whichever of the settings' sources says it."""
        return producer_config(self.config)["partitioner"]

    def producer(self) -> AbstractContextManager[PooledProducer | Transaction]:
        """What a task writes with."""
        return self.lend(self.config) if self.turn is None else self.turn.writing(self.config, self.writer)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are known before a row is seen."""
        named = (self.topic,) if self.topic is not None else self.output_topics
        return frozenset(name for name in (*named, self.dead_letter_topic) if name is not None)


def check_apart(letters: str | None, outputs: Iterable[str | None]) -> None:
    """`SettingError` for dead letters among the rows, where they would be taken for these."""
    if letters in outputs:
        raise SettingError(f"'deadLetterTopic' must be another topic than the output, found {letters!r} for both")


@dataclass(frozen=True, slots=True)
class Written:
    """`by_topic` counts records, including dead letters; `bytes` are those of their keys and values.

    `spent` is the processor time of the tasks, in nanoseconds.
    """

    rows: int = 0
    dead_letters: int = 0
    bytes: int = 0
    by_topic: Mapping[str, int] = field(default_factory=dict)
    spent: int = 0

    @property
    def seen(self) -> int:
        return self.rows + self.dead_letters

    def __add__(self, other: "Written") -> "Written":
        return Written(
            self.rows + other.rows,
            self.dead_letters + other.dead_letters,
            self.bytes + other.bytes,
            dict(Counter(self.by_topic) + Counter(other.by_topic)),
            self.spent + other.spent,
        )

    @classmethod
    def total(cls, tallies: Iterable["Written"]) -> "Written":
        return sum(tallies, cls())


def check_columns(columns: Sequence[Column], settings: WriteSettings) -> None:
    """Raise `SettingError`, before anything runs, for columns that cannot be written."""
    types = _by_name(columns)
    if "value" not in types:
        raise SettingError(
            f"a column 'value' ({' or '.join(_PAYLOAD)}) is required, found {_listed(types)}: make one, as with "
            "to_json(struct(...)) of the others"
        )
    for name in used_columns(types, settings):
        allowed = _ALLOWED.get(name, ())
        if allowed and types[name] not in allowed:
            convert = f": convert it, as with cast({name} as string) or to_json({name})"
            way_out = convert if name in ("value", "key") else ""
            raise SettingError(f"column {name!r} is {types[name]}, but must be {' or '.join(allowed)}{way_out}")
    if settings.topic is None and "topic" not in types:
        raise SettingError("no output topic is set: set the option 'topic', or add a string column 'topic'")
    if settings.use_partition == "always" and "partition" not in types:
        raise SettingError(f"'usePartition' needs an int column 'partition', found {_listed(types)}")
    if settings.source is not None:
        _check_source(types, settings.source)


def used_columns(types: Mapping[str, str], settings: WriteSettings) -> list[str]:
    """The columns that shape a record."""
    ignored = {"topic"} if settings.topic is not None else set()
    ignored |= {"partition"} if settings.use_partition == "never" else set()
    ignored |= set() if settings.use_headers else {"headers"}
    return [name for name in _ALLOWED if name in types and name not in ignored]


def written_columns(columns: Sequence[Column], settings: WriteSettings) -> list[str]:
    """The columns that a write needs; others are ignored, as in Spark's sink."""
    types = _by_name(columns)
    used = used_columns(types, settings) + [name for name in (SEQUENCE, ORDINAL) if name in types]
    if settings.range_id is not None and settings.source == "struct":
        used.append(SOURCE)
    if settings.range_id is not None and settings.source == "columns":
        used += [name for name in _SOURCE_FIELDS if name in types and name not in used]
    return used


def source_of(columns: Sequence[Column]) -> SourceColumns | None:
    types = _by_name(columns)
    if SOURCE in types:
        return "struct"
    return "columns" if types.keys() >= _SOURCE_FIELDS.keys() else None


def _by_name(columns: Sequence[Column]) -> dict[str, str]:
    twice = [name for name, count in Counter(name for name, _ in columns).items() if count > 1 and name in _ALLOWED]
    if twice:
        raise SettingError(f"column {twice[0]!r} is there twice: keep one of them")
    return dict(columns)


def _check_source(types: Mapping[str, str], source: SourceColumns) -> None:
    if source == "columns":
        for name, expected in _SOURCE_FIELDS.items():
            if types.get(name) != expected:
                found = types.get(name, "no such column")
                raise SettingError(f"provenance from plain columns needs {name!r} ({expected}), found {found}")
    elif SOURCE not in types:
        raise SettingError(
            f"provenance needs the column {SOURCE!r} that each row came with, found {_listed(types)}: "
            "keep it in the transform, or switch provenance off"
        )
    elif missing := [name for name, expected in _SOURCE_FIELDS.items() if f"{name}:{expected}" not in types[SOURCE]]:
        raise SettingError(
            f"column {SOURCE!r} is {types[SOURCE]}, but must be {SOURCE_TYPE}: {missing[0]!r} is missing"
        )


def _listed(types: Mapping[str, str]) -> str:
    return ", ".join(map(repr, types)) or "no columns"
