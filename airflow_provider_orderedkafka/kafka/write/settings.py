"""The settings of a write, the columns that they need, and its counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Literal

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.kafka.provenance import ERROR, ORDINAL, SEQUENCE, SOURCE, SourceColumns, range_prefix

from .output_topics import OutputTopic
from .producer import PooledProducer, lend

UsePartition = Literal["never", "given", "always"]
Keyless = Literal["in runs", "one by one"]
Lend = Callable[[Mapping[str, str]], AbstractContextManager[PooledProducer]]

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
SOURCE_TYPE: Final = "struct<topic:string,partition:int,offset:bigint,order_time:timestamp>"

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
_SOURCE_FIELDS: Final = {"topic": "string", "partition": "int", "offset": "bigint", "order_time": "timestamp"}

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
    source: so that runs of them stay together, or one by one. `lend` lends a task the producer that it writes with.
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

    def __post_init__(self) -> None:
        if self.range_id is not None:
            range_prefix(self.range_id)
        if self.dead_letter_topic is not None and self.dead_letter_topic == self.topic:
            raise SettingError(
                f"'deadLetterTopic' must be another topic than the output, found {self.topic!r} for both"
            )

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are known before a row is seen."""
        named = (self.topic,) if self.topic is not None else self.output_topics
        return frozenset(name for name in (*named, self.dead_letter_topic) if name is not None)


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows were written, and how many became dead letters.

    `by_topic` counts records, including dead letters; `bytes` are those of their keys and values.
    """

    rows: int = 0
    dead_letters: int = 0
    bytes: int = 0
    by_topic: Mapping[str, int] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        return self.rows + self.dead_letters

    def __add__(self, other: "Written") -> "Written":
        return Written(
            self.rows + other.rows,
            self.dead_letters + other.dead_letters,
            self.bytes + other.bytes,
            dict(Counter(self.by_topic) + Counter(other.by_topic)),
        )

    @classmethod
    def total(cls, tallies: Iterable["Written"]) -> "Written":
        return sum(tallies, cls())


def check_columns(columns: Sequence[Column], settings: WriteSettings) -> None:
    """Raise `SettingError`, before anything runs, for columns that cannot be written."""
    types = _by_name(columns)
    if "value" not in types:
        raise SettingError(f"a column 'value' ({' or '.join(_PAYLOAD)}) is required, found {_listed(types)}")
    for name in used_columns(types, settings):
        allowed = _ALLOWED.get(name, ())
        if allowed and types[name] not in allowed:
            raise SettingError(f"column {name!r} is {types[name]}, but must be {' or '.join(allowed)}{_hint(name)}")
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
    """Where these columns have source positions."""
    types = _by_name(columns)
    if SOURCE in types:
        return "struct"
    return "columns" if {"topic", "partition", "offset", "order_time"} <= set(types) else None


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


def _hint(name: str) -> str:
    return f": convert it, as with cast({name} as string) or to_json({name})" if name in ("value", "key") else ""
