"""Where a load writes: `KafkaOutput`, `IcebergOutput`, `DeltaOutput`, `FilesOutput`.

Cheap to import, frozen, and checked when they are made, so when the DAG file is parsed. An output travels to the
application as one document: `--output '{"kind": "iceberg", "table": "lake.shop.orders", ...}'`.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from airflow_provider_orderedkafka.core.codec import PACKED, Document, canonical, unpacked
from airflow_provider_orderedkafka.core.notation.spelling import meant
from airflow_provider_orderedkafka.core.order.positions import is_integer
from airflow_provider_orderedkafka.core.outputs import SHAPING
from airflow_provider_orderedkafka.errors import DocumentError, SettingError

BY_DAY: Final = ("days(order_time)",)
FILES: Final = ("parquet", "orc", "json", "csv", "avro")
"""The formats that are folders of files, and nothing else."""

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TABLE: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_PARTITION: Final = re.compile(r"(?:(years|months|days|hours)\((\w+)\)|(bucket|truncate)\(\d+, *(\w+)\)|(\w+))")
_OF_A_CONNECTION: Final = ("kafka.bootstrap.", "kafka.sasl.", "kafka.security.", "kafka.ssl.")
_OWN: Final = {"topic": "topic", "outputTopics": "topics", "deadLetterTopic": "dead_letters", "writers": "writers"}
"""The options of the sink that are arguments of a `KafkaOutput`."""


class _Place(Document):
    """What outputs share that are a table or a folder. `shaping` names what determines which rows are written there."""

    __slots__ = ()

    kind: ClassVar[str]
    session: ClassVar[Mapping[str, str]] = {}
    shaping: ClassVar[tuple[str, ...]]

    @property
    def place(self) -> str:
        """The table, or the path."""
        return str(getattr(self, "table", None) or self.path)  # type: ignore[attr-defined]  # without a table there is a path

    @property
    def of(self) -> str:
        """The output, for a message."""
        return f"{type(self).__name__}({self.place!r})"

    @property
    def shape(self) -> dict[str, Any]:
        """What determines which rows are written, and where to."""
        return {name: getattr(self, name) for name in ("kind", *self.shaping)}

    @property
    def uri(self) -> str:
        if getattr(self, "table", None) is not None:
            return f"{self.kind}://{self.place.replace('.', '/')}"
        scheme = urlsplit(self.place).scheme
        if not scheme:
            return f"file://{self.place}"
        return self.place.replace("s3a://", "s3://", 1) if scheme == "s3a" else self.place


@dataclass(frozen=True, slots=True)
class KafkaOutput(Document):
    """Topics of Kafka. They must exist, and must not be among those that the load reads.

    :param topic: The topic to write to.
    :param topics: Instead of `topic`, where a transform makes a column `topic`: the topics that it may name.
    :param dead_letters: The topic for rows that cannot be written. None: such a row fails the load.
    :param kafka_conn_id: ID of the Airflow connection to the cluster. None: the one that the load reads.
    :param writers: Number of tasks that write in parallel. None: as many as the order allows.
    :param options: More options of the sink, such as `{"kafka.compression.type": "zstd"}`.
    """

    kind: ClassVar[str] = "kafka"

    topic: str | None = None
    topics: tuple[str, ...] = ()
    dead_letters: str | None = None
    kafka_conn_id: str | None = None
    writers: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _hold_tuple(self, "topics")
        _check_options(self, "options")
        if (self.topic is None) == (not self.topics):
            raise SettingError(
                f"{self.of} names either one topic or, with topics=, those that a column 'topic' may name, found "
                f"topic={self.topic!r} and topics={self.topics!r}"
            )
        named = [self.topic, *self.topics, self.dead_letters]
        for name in named:
            if name is not None and (not isinstance(name, str) or not _TOPIC.fullmatch(name)):
                raise SettingError(
                    f"{self.of}: {name!r} cannot be a topic's name; Kafka allows 1 to 249 letters, digits and ._- (a "
                    "template goes into output_topic=)"
                )
        if self.writers is not None and not is_integer(self.writers, 1):
            raise SettingError(f"{self.of}: writers must be a whole number from 1 on, found {self.writers!r}")
        for option in self.options:
            self._check_option(option)

    def _check_option(self, option: str) -> None:
        if option.lower().startswith(_OF_A_CONNECTION):
            raise SettingError(
                f"{self.of}: option {option!r} belongs to a cluster's Airflow connection, which keeps its secrets: "
                "name one with kafka_conn_id="
            )
        for name, argument in _OWN.items():
            if option.lower() == name.lower():
                raise SettingError(f"{self.of}: option {option!r} has an argument of its own: {argument}=")

    @property
    def of(self) -> str:
        """The output, for a message."""
        return "KafkaOutput"

    @property
    def shape(self) -> dict[str, Any] | None:
        """What determines, besides `topic`, which rows are written, and where to; None where nothing does."""
        shaping = {name.lower() for name in SHAPING}
        options = {name: value for name, value in self.options.items() if name.lower() in shaping}
        found = {"topics": self.topics, "kafka_conn_id": self.kafka_conn_id, "options": options}
        return {name: value for name, value in found.items() if value} or None

    @property
    def named(self) -> dict[str, str]:
        """The topics written to, with the argument that names each."""
        said = [(self.topic, "topic"), *((topic, "topics") for topic in self.topics)]
        return {topic: name for topic, name in [*said, (self.dead_letters, "dead_letters")] if topic is not None}

    @property
    def values(self) -> dict[str, Any]:
        """The values of the sink's options that are arguments here, where they are given."""
        return {name: value for name, argument in _OWN.items() if (value := getattr(self, argument))}

    @property
    def uri(self) -> str | None:
        """None: the asset of a topic is named after its cluster, which the connection knows."""
        return None


@dataclass(frozen=True, slots=True)
class IcebergOutput(_Place):
    """A table of an Iceberg catalog, to which each batch is appended as one snapshot, in the table's own layout.

    :param table: The table, as `catalog.schema.table`; Spark has to know the catalog.
    :param create: Whether to make the table if it is missing.
    :param partition_by: How a table that is made is partitioned: columns, or `years`, `months`, `days` or `hours` of a
        time column, `bucket(16, column)`, `truncate(4, column)`. `()`: not at all.
    :param identity: Whether each row has the column `_orderedkafka`, which says from which record of which range it is.
        Without it, a range cannot be loaded again, and a load whose interrupted commit has expired stops.
    :param properties: Table properties of a table that is made.
    :param options: Options of the write, such as `{"target-file-size-bytes": "134217728"}`.
    """

    kind: ClassVar[str] = "iceberg"
    shaping: ClassVar[tuple[str, ...]] = ("table", "identity")

    table: str
    create: bool = True
    partition_by: tuple[str, ...] = BY_DAY
    identity: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_table(self, self.table)
        _check_layout(self, lambda _: True, "")


@dataclass(frozen=True, slots=True)
class DeltaOutput(_Place):
    """A Delta table, to which each batch is appended as one commit, in the table's own layout.

    :param path: The table's location, such as `s3a://lake/orders`; or name a `table`.
    :param table: The table of a catalog, as `schema.table` or `catalog.schema.table`.
    :param create: Whether to make the table if it is missing.
    :param partition_by: How a table that is made is partitioned: columns, or `days` of a time column, which makes the
        generated column `<column>_day`. `()`: not at all.
    :param identity: Whether each row has the column `_orderedkafka`, which says from which record of which range it is.
        Without it, a range cannot be loaded again, and a load whose interrupted commit has expired stops.
    :param properties: Table properties of a table that is made.
    :param options: Options of the write, such as `{"mergeSchema": "true"}`.
    """

    kind: ClassVar[str] = "delta"
    shaping: ClassVar[tuple[str, ...]] = ("path", "table", "identity")
    session: ClassVar[Mapping[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    path: str | None = None
    table: str | None = None
    create: bool = True
    partition_by: tuple[str, ...] = BY_DAY
    identity: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.path is None) == (self.table is None):
            raise SettingError(
                f"DeltaOutput takes either path= or table=, found path={self.path!r} and table={self.table!r}"
            )
        if self.table is not None:
            _check_table(self, self.table)
        else:
            _hold_path(self)
        _check_layout(self, lambda found: found[1] in {None, "days"} and not found[3], "days(column) or a column")


@dataclass(frozen=True, slots=True)
class FilesOutput(_Place):
    """Files, with a folder for each batch: `<path>/range_id=<range>/batch=<number>`.

    `<path>/_orderedkafka/<range>/<number>.json` lists the files of a batch once it is complete: whoever reads those
    alone sees each row exactly once, at any moment.

    :param path: The folder, such as `s3a://lake/orders`.
    :param format: `parquet`, `orc`, `json`, `csv` or `avro`.
    :param options: Options of the format, such as `{"compression": "zstd"}`.
    """

    kind: ClassVar[str] = "files"
    shaping: ClassVar[tuple[str, ...]] = ("path", "format")

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _hold_path(self)
        _check_options(self, "options")
        if self.format not in FILES:
            hint = meant(str(self.format), FILES, "Delta and Iceberg have outputs of their own")
            raise SettingError(f"{self.of}: format must be one of {', '.join(FILES)}, found {self.format!r}; {hint}")


@dataclass(frozen=True, slots=True)
class CatalogOutput(_Place):
    """A table of Spark's own catalog or of Hive, partitioned by range and batch: a batch replaces its partition.

    Made of `--sink-option table=... --sink-option format=...` alone.
    """

    kind: ClassVar[str] = "catalog"

    table: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_table(self, self.table)

    @property
    def of(self) -> str:
        """The output, for a message."""
        return f"table {self.table!r}"


Output = KafkaOutput | IcebergOutput | DeltaOutput | FilesOutput
TableOutput = IcebergOutput | DeltaOutput | FilesOutput | CatalogOutput

_KINDS: Final[dict[str, type[Output]]] = {
    each.kind: each for each in (KafkaOutput, IcebergOutput, DeltaOutput, FilesOutput)
}


def named(text: str) -> Output:
    """The output of `<format>:<name>`, such as `topic:orders` or `iceberg:lake.shop.orders`; `SettingError` if none."""
    kind, _, name = text.partition(":")
    makers: dict[str, Callable[[], Output]] = {
        "topic": lambda: KafkaOutput(name),
        "iceberg": lambda: IcebergOutput(name),
        "delta": lambda: DeltaOutput(name) if _ABSOLUTE.match(name) else DeltaOutput(table=name),
        **{each: lambda: FilesOutput(name, kind) for each in FILES},
    }
    if kind not in makers:
        hint = meant(kind, makers, f"formats are {', '.join(makers)}")
        raise SettingError(
            f"an output is named '<format>:<name>', such as 'delta:/lake/orders', found {text!r}; {hint}"
        )
    return makers[kind]()


def to_text(output: Output) -> str:
    """The output as one document."""
    return canonical({"kind": output.kind, **output.to_value()})


def from_text(text: str) -> Output:
    """The output of a document, as JSON or packed; `SettingError` if it is none."""
    try:
        value = json.loads(unpacked(text) if text.startswith(PACKED) else text)
        kind = value.pop("kind")
        return _KINDS[kind].from_text(canonical(value))
    except DocumentError as error:
        raise SettingError(f"--output: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SettingError(
            f"--output must be a JSON object whose 'kind' is {', '.join(_KINDS)}, found {text[:80]!r}"
        ) from error


def table_output(given: Mapping[str, str]) -> TableOutput | None:
    """The output that the sink options `path`, `table` and `format` name; None if they name none."""
    options = dict(given)
    named = {name.lower(): options.pop(name) for name in given if name.lower() in {"path", "table", "format"}}
    path, table, kind = named.get("path"), named.get("table"), named.get("format", "parquet").lower()
    if path is not None and not _ABSOLUTE.match(path):
        path = os.path.abspath(path)  # noqa: PTH100 - a text, which may have a scheme
    if path is None and table is None:
        return None
    if path is not None and table is not None:
        raise SettingError(
            f"--sink-option path={path!r} and table={table!r} are both set: a load writes to one of them; leave one out"
        )
    makers: dict[str, Callable[[], TableOutput]] = {
        "delta": lambda: DeltaOutput(path, table, options=options),
        "iceberg": lambda: IcebergOutput(table or str(path), options=options),
    }
    if kind in makers:
        return makers[kind]()
    return CatalogOutput(table, kind, options) if table is not None else FilesOutput(str(path), kind, options)


def _check_table(output: Any, table: Any) -> None:
    if not isinstance(table, str) or not _TABLE.fullmatch(table):
        raise SettingError(
            f"{type(output).__name__}: a table is named 'catalog.schema.table', of letters, digits, '_' and '-', found "
            f"{table!r}"
        )


def _hold_path(output: Any) -> None:
    if not isinstance(output.path, str) or not _ABSOLUTE.match(output.path):
        raise SettingError(
            f"{type(output).__name__}: path must be absolute or a location such as 's3a://lake/orders', found "
            f"{output.path!r}: Spark would look for it somewhere else"
        )
    object.__setattr__(output, "path", output.path.rstrip("/"))


def _check_layout(output: Any, fits: Callable[["re.Match[str]"], bool], known: str) -> None:
    _hold_tuple(output, "partition_by")
    for name in ("create", "identity"):
        if not isinstance(getattr(output, name), bool):
            raise SettingError(f"{output.of}: {name} must be True or False, found {getattr(output, name)!r}")
    for name in ("properties", "options"):
        _check_options(output, name)
    for each in output.partition_by:
        found = _PARTITION.fullmatch(each)
        if found is None or not fits(found):
            shown = known or "a column, days(column), bucket(16, column) or truncate(4, column)"
            raise SettingError(f"{output.of}: partition_by takes {shown}, found {each!r}")


def _check_options(output: Any, name: str) -> None:
    found = getattr(output, name)
    if not isinstance(found, Mapping) or not all(isinstance(text, str) for item in found.items() for text in item):
        raise SettingError(f"{output.of}: {name} must be texts by name, such as {{'name': 'value'}}, found {found!r}")


def _hold_tuple(output: Any, name: str) -> None:
    value = getattr(output, name)
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise SettingError(f"{output.of}: {name} must be a tuple of texts, found {value!r}")
    object.__setattr__(output, name, tuple(found))
