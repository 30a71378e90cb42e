"""Where a load writes: `KafkaOutput`, `IcebergOutput`, `DeltaOutput`, `FilesOutput`.

Cheap to import, frozen, and checked when they are made, so when the DAG file is parsed. The place of an output may be a
template: `rendered` makes the value of which it is none any more.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, Self, get_args

from .core.lanes import KeepOrder, OrderBy
from .core.notation.secrets import has_login, is_secret, masked
from .core.notation.spelling import arguments, meant
from .core.notation.subscriptions import TOPIC_NAMES, is_topic_name
from .core.order.positions import is_integer
from .errors import SettingError
from .load import is_absolute
from .storage import uri_of

BY_DAY: Final = ("days(order_time)",)

FILES: Final = ("parquet", "orc", "json", "csv", "avro")
"""The formats that are folders of files, and nothing else."""

TEMPLATED: Final = re.compile(r"\{[{%#]")
"""What a text has in it that is rendered before it is used."""

_TABLE: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_PARTITION: Final = re.compile(r"(?:(years|months|days|hours)\((\w+)\)|(bucket|truncate)\(\d+, *(\w+)\)|(\w+))")
_OF_A_CONNECTION: Final = ("bootstrap.", "sasl.", "security.", "ssl.")


@dataclass(frozen=True, slots=True)
class Package:
    """What brings a table format to Spark: a name in Maven, and its version for each Spark that it was tried with."""

    title: str
    name: str
    versions: Mapping[str, str]

    def of(self, spark: str, scala: str = "2.13") -> str:
        """The package for this Spark, which must be one of `versions`."""
        return f"{self.name.format(spark=spark, scala=scala)}:{self.versions[spark]}"

    @property
    def newest(self) -> str:
        return list(self.versions)[-1]


PACKAGES: Final[Mapping[str, Package]] = {
    "iceberg": Package(
        "Iceberg",
        "org.apache.iceberg:iceberg-spark-runtime-{spark}_{scala}",
        {"3.5": "1.11.0", "4.0": "1.11.0", "4.1": "1.12.0"},
    ),
    "delta": Package("Delta", "io.delta:delta-spark_{spark}_{scala}", {"4.1": "4.4.0", "4.2": "4.4.0"}),
}
"""What `make versions` tries; a pair that is not here is not known to be there."""

Guarantee = Literal["at_least_once", "exactly_once"]

NewColumns = Literal["add", "ignore", "fail"]
"""What becomes of a column of the rows that their table lacks."""

_OTHERWISE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mergeschema", "merge-schema"), "set new_columns='add' instead"),
    **dict.fromkeys(("branch", "replacewhere"), "batches are only added, to the table's main branch: leave it out"),
    **dict.fromkeys(
        ("txnappid", "txnversion", "usermetadata", "snapshot-property.orderedkafka"),
        "by it a batch is known: leave it out",
    ),
}
"""Options of a write that a load has no use for, and why."""

OPTIONS_VARIABLE = "ORDEREDKAFKA_OPTIONS"
"""The environment variable with more options of an application, secrets among them: a JSON object."""

OF_THE_SINK = "sink."
"""What options for the output's cluster begin with, where they travel with those for the source's."""

HAVE_IT_CREATED: Final = (
    "have it created, with KafkaOutput('...', create=NewTopics(partitions=6, config={'retention.ms': '86400000'}))"
)
"""The way out where a topic does not exist."""


@arguments()
@dataclass(frozen=True, slots=True)
class NewTopics:
    """How to create output topics that do not exist. One that exists stays as it is.

    :param partitions: How many partitions. None: the broker's default.
    :param replication: How many replicas. None: the broker's default.
    :param config: A topic's settings, such as `{"retention.ms": "86400000"}`.
    """

    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("partitions", "replication"):
            value = getattr(self, name)
            if value is not None and not is_integer(value, 1):
                raise SettingError(f"NewTopics: {name} must be a whole number from 1 on, found {value!r}")
        if not isinstance(self.config, Mapping):
            raise SettingError(
                "NewTopics: config must have a topic's settings, such as {'retention.ms': '86400000'}, found "
                f"{self.config!r}"
            )
        object.__setattr__(self, "config", {str(name): _text(value) for name, value in self.config.items()})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Place:
    """What outputs share that are a table or a folder."""

    __slots__ = ()

    kind: ClassVar[str]
    session: ClassVar[Mapping[str, str]] = {}

    @property
    def place(self) -> str:
        return str(getattr(self, "table", None) or self.path)  # type: ignore[attr-defined]  # without a table there is a path

    @property
    def of(self) -> str:
        """The output, for a message."""
        return f"{type(self).__name__}({self.place!r})"

    @property
    def short(self) -> str:
        """The output as `named` takes it."""
        return f"{getattr(self, 'format', self.kind)}:{self.place}"

    @property
    def templated(self) -> bool:
        return TEMPLATED.search(self.place) is not None

    def rendered(self, render: Callable[[str], str]) -> Self:
        name = "path" if getattr(self, "table", None) is None else "table"
        return replace(self, **{name: render(self.place)})  # type: ignore[type-var]  # each of them is a dataclass

    @property
    def uri(self) -> str:
        if getattr(self, "table", None) is not None:
            return f"{self.kind}://{self.place.replace('.', '/')}"
        return uri_of(self.place)


@arguments(
    options="librdkafka's settings go into producer= without 'kafka.', others are arguments of their own",
    dead_letters="set it with rows=Rows(bad_records=Allow(10, to=...))",
)
@dataclass(frozen=True, slots=True)
class KafkaOutput:
    """Topics of Kafka, which must not be among those that the load reads.

    :param topic: The topic to write to. It has to exist, unless `create` says how to create it. (may be a template)
    :param topics: Instead of `topic`, where a transform makes a column `topic`: the topics that it may name.
    :param keep_order: Which order the output keeps: that of each `"key"`, of each `"partition"`, or none (None).
    :param writers: Number of tasks that write in parallel. None: as many as the order allows.
    :param create: How to create topics that do not exist, such as `NewTopics(partitions=6)`.
    :param kafka_conn_id: ID of the Airflow connection to the cluster. None: the one that the load reads.
    :param use_partition: True: each row needs the column `partition`, which says where it goes. False: that is ignored.
    :param include_headers: Whether to write the column `headers`.
    :param provenance: Whether each record says in headers where it came from. Without, what a killed run wrote is
        written twice.
    :param guarantee: `"at_least_once"`, or `"exactly_once"`: consumers with `read_committed` see each row once.
    :param producer: librdkafka's settings for writing, such as `{"compression.type": "zstd"}`.
    """

    kind: ClassVar[str] = "kafka"

    topic: str | None = None
    topics: tuple[str, ...] = ()
    keep_order: OrderBy | None = "key"
    writers: int | None = None
    create: NewTopics | None = None
    kafka_conn_id: str | None = None
    use_partition: bool = False
    include_headers: bool = True
    provenance: bool = True
    guarantee: Guarantee = "at_least_once"
    producer: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _hold_tuple(self, "topics")
        if (self.topic is None) == (not self.topics):
            raise SettingError(
                f"{self.of} names either one topic or, with topics=, those that a column 'topic' may name, found "
                f"topic={self.topic!r} and topics={self.topics!r}"
            )
        for name in self.named:
            if not isinstance(name, str) or not (TEMPLATED.search(name) or is_topic_name(name)):
                raise SettingError(f"{self.of}: {name!r} cannot be a topic's name; {TOPIC_NAMES}")
        if self.keep_order not in (*get_args(OrderBy), None):
            raise SettingError(
                f"{self.of}: keep_order must be 'key', 'partition' or None, found {self.keep_order!r}; for one order "
                "of all rows, use 'partition' and a topic of one partition"
            )
        if self.writers is not None and not is_integer(self.writers, 1):
            raise SettingError(f"{self.of}: writers must be a whole number from 1 on, found {self.writers!r}")
        if self.guarantee not in get_args(Guarantee) or (self.exactly_once and not self.provenance):
            raise SettingError(
                f"{self.of}: guarantee must be 'at_least_once' or, with provenance, 'exactly_once', found "
                f"{self.guarantee!r} and provenance={self.provenance!r}"
            )
        if not isinstance(self.create, NewTopics | None):
            raise SettingError(f"{self.of}: create must be NewTopics(partitions=..., ...), found {self.create!r}")
        self._check_producer()

    def _check_producer(self) -> None:
        _check_options(self, "producer")
        for name in self.producer:
            if name.lower().startswith(_OF_A_CONNECTION):
                raise SettingError(
                    f"{self.of}: {name!r} belongs to a cluster's Airflow connection, which keeps its secrets: name one "
                    "with kafka_conn_id="
                )
        _check_no_secret(self, "producer")

    @property
    def of(self) -> str:
        return "KafkaOutput"

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == "exactly_once"

    @property
    def order(self) -> KeepOrder:
        return self.keep_order or "none"

    @property
    def named(self) -> tuple[str, ...]:
        return self.topics if self.topic is None else (self.topic,)

    @property
    def place(self) -> str:
        return ", ".join(self.named)

    @property
    def templated(self) -> bool:
        return any(TEMPLATED.search(name) for name in self.named)

    def rendered(self, render: Callable[[str], str]) -> "KafkaOutput":
        return replace(self, topic=self.topic and render(self.topic), topics=tuple(map(render, self.topics)))

    @property
    def uri(self) -> str | None:
        """None: the asset of a topic is named after its cluster, which the connection knows."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table(_Place):
    """What the tables of lakes share: how one is made that is missing, and the options of each write."""

    create: bool = True
    upsert: tuple[str, ...] = ()
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    new_columns: NewColumns = "fail"

    @property
    def layout(self) -> tuple[str, ...]:
        """How a table that is made is partitioned, but for what its format does for upserts."""
        named: tuple[str, ...] | None = self.partition_by
        return named if named is not None else () if self.upsert else BY_DAY


@arguments()
@dataclass(frozen=True, slots=True)
class IcebergOutput(_Table):
    """A table of an Iceberg catalog, to which each batch is appended as one snapshot, in the table's own layout.

    :param table: The table, as `catalog.schema.table`; Spark has to know the catalog. (may be a template)
    :param create: Whether to make the table if it is missing.
    :param upsert: The columns of a key: the table has the last row of each. `()`: rows are added.
    :param partition_by: How a table that is made is partitioned: columns, or `years`, `months`, `days` or `hours` of a
        time column, `bucket(16, column)`, `truncate(4, column)`. `()`: not at all. None: by the day of `order_time`, or
        by `bucket(16, ...)` of the first column of `upsert` that is no boolean.
    :param properties: Table properties of a table that is made.
    :param options: Options of the write, such as `{"target-file-size-bytes": "134217728"}`.
    :param new_columns: What becomes of columns of the rows that the table lacks: `"add"` adds them, and widens those
        that are too narrow, `"ignore"` leaves them out, and `"fail"` refuses the rows.
    """

    kind: ClassVar[str] = "iceberg"
    of_upserts: ClassVar[Mapping[str, str]] = {
        "format-version": "2",
        **{f"write.{each}.mode": "merge-on-read" for each in ("merge", "update", "delete")},
    }

    table: str

    def __post_init__(self) -> None:
        _check_table(self, self.table)
        if "." not in self.table and not self.templated:
            raise SettingError(
                f"{self.of}: the name of a table begins with its catalog, such as 'lake.shop.{self.table}', which "
                "spark.sql.catalog.lake defines: give that setting to Spark with conf="
            )
        _check_layout(self, lambda _: True, "")


@arguments()
@dataclass(frozen=True, slots=True)
class DeltaOutput(_Table):
    """A Delta table, to which each batch is appended as one commit, in the table's own layout.

    :param path: The table's location, such as `s3a://lake/orders`; or name a `table`. (may be a template)
    :param table: The table of a catalog, as `schema.table` or `catalog.schema.table`. (may be a template)
    :param create: Whether to make the table if it is missing.
    :param upsert: The columns of a key: the table has the last row of each. `()`: rows are added.
    :param partition_by: How a table that is made is partitioned: columns, or `days` of a time column, which makes the
        generated column `<column>_day`, in UTC. `()`: not at all. None: by the day of `order_time`; one of upserts is
        clustered by its key instead.
    :param properties: Table properties of a table that is made.
    :param options: Options of the write, such as `{"maxRecordsPerFile": "1000000"}`.
    :param new_columns: What becomes of columns of the rows that the table lacks: `"add"` adds them, and widens those
        that are too narrow, `"ignore"` leaves them out, and `"fail"` refuses the rows.
    """

    kind: ClassVar[str] = "delta"
    session: ClassVar[Mapping[str, str]] = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    of_upserts: ClassVar[Mapping[str, str]] = {"delta.enableDeletionVectors": "true"}

    path: str | None = None
    table: str | None = None

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


@arguments()
@dataclass(frozen=True, slots=True)
class FilesOutput(_Place):
    """Files, with a folder for each write of a batch: `<path>/range_id=<range>/batch=<number>/<write>`.

    `<path>/_orderedkafka/<range>/<number>.json` lists the files of a batch once it is complete: a reader of those
    alone sees each row exactly once, at any moment.

    :param path: The folder, such as `s3a://lake/orders`. (may be a template)
    :param format: `parquet`, `orc`, `json`, `csv` or `avro`.
    :param options: Options of the format, such as `{"compression": "zstd"}`.
    """

    kind: ClassVar[str] = "files"

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _hold_path(self)
        _check_options(self, "options")
        _check_no_secret(self, "options")
        if self.format not in FILES:
            hint = meant(str(self.format), FILES, "Delta and Iceberg have outputs of their own")
            raise SettingError(f"{self.of}: format must be one of {', '.join(FILES)}, found {self.format!r}; {hint}")
        for name, value in self.options.items() if self.format == "json" else ():
            other = name.lower() in {"encoding", "charset"} and value.lower() != "utf-8"
            if other or (name.lower() == "linesep" and value.strip(" \t\r\n")):
                raise SettingError(
                    f"{self.of}: {name}={value!r} makes no JSON that is read as one object after the other, in UTF-8, "
                    "and another encoding loses the text that it lacks: leave it out"
                )


Output = KafkaOutput | IcebergOutput | DeltaOutput | FilesOutput
TableOutput = IcebergOutput | DeltaOutput | FilesOutput


def named(text: str) -> Output:
    """The output of `<format>:<name>`, such as `topic:orders` or `iceberg:lake.shop.orders`; `SettingError` if none."""
    kind, _, name = text.partition(":")
    makers: dict[str, Callable[[], Output]] = {
        "topic": lambda: KafkaOutput(name),
        "iceberg": lambda: IcebergOutput(name),
        "delta": lambda: DeltaOutput(name) if is_absolute(name) else DeltaOutput(table=name),
        **{each: lambda: FilesOutput(name, kind) for each in FILES},
    }
    if kind not in makers:
        is_topic = kind in {"kafka", text} and is_topic_name(name or text)
        hint = (
            f"did you mean 'topic:{name or text}'?"
            if is_topic
            else meant(kind, makers, f"formats are {', '.join(makers)}")
        )
        raise SettingError(
            f"an output is named '<format>:<name>', such as 'delta:/lake/orders', found {text!r}; {hint}"
        )
    return makers[kind]()


def no_catalog(output: IcebergOutput) -> str:
    catalog = output.table.partition(".")[0]
    return (
        f"{output.of}: Spark knows no catalog {catalog!r}: set spark.sql.catalog.{catalog}="
        "org.apache.iceberg.spark.SparkCatalog and its type and warehouse, by conf= in Airflow or --conf"
    )


def _check_table(output: Any, table: Any) -> None:
    if not isinstance(table, str) or not (TEMPLATED.search(table) or _TABLE.fullmatch(table)):
        raise SettingError(
            f"{type(output).__name__}: a table is named 'catalog.schema.table', of letters, digits, '_' and '-', found "
            f"{table!r}"
        )


def _hold_path(output: Any) -> None:
    if isinstance(output.path, str) and TEMPLATED.match(output.path):
        return
    if not isinstance(output.path, str) or not is_absolute(output.path):
        raise SettingError(
            f"{type(output).__name__}: path must be absolute or a location such as 's3a://lake/orders', found "
            f"{output.path!r}: Spark would look for it somewhere else"
        )
    if output.path != output.path.strip():
        raise SettingError(
            f"{type(output).__name__}: path begins or ends with white space, found {output.path!r}, which is another "
            "folder than the one without it: leave it out"
        )
    if has_login(output.path):
        raise SettingError(
            f"{type(output).__name__}: path {masked(output.path)!r} has a login or a signature, and outputs are shown "
            "on command lines and in logs: leave it out, and give it to Spark with conf=, or keep it where Spark runs"
        )
    object.__setattr__(output, "path", output.path.rstrip("/"))


def _check_layout(output: Any, fits: Callable[["re.Match[str]"], bool], known: str) -> None:
    _hold_tuple(output, "upsert")
    if len(set(map(str.lower, output.upsert))) < len(output.upsert) or "" in output.upsert:
        raise SettingError(f"{output.of}: upsert must name the columns of a key, each once, found {output.upsert!r}")
    if output.upsert and output.options:
        raise SettingError(
            f"{output.of}: upsert= merges rows, and a MERGE takes no options, found {dict(output.options)!r}: set "
            "properties= of the table, or leave options out"
        )
    if output.partition_by is not None:
        _hold_tuple(output, "partition_by")
    for name in ("properties", "options"):
        _check_options(output, name)
        _check_no_secret(output, name)
    if output.new_columns not in get_args(NewColumns):
        raise SettingError(f"{output.of}: new_columns must be 'add', 'ignore' or 'fail', found {output.new_columns!r}")
    for name in output.options:
        if name.lower() in _OTHERWISE:
            raise SettingError(f"{output.of}: no {name}={output.options[name]!r}: {_OTHERWISE[name.lower()]}")
    for each in output.partition_by or ():
        found = _PARTITION.fullmatch(each)
        if found is None or not fits(found):
            shown = known or "a column, days(column), bucket(16, column) or truncate(4, column)"
            raise SettingError(f"{output.of}: partition_by takes {shown}, found {each!r}")


def _check_options(output: Any, name: str) -> None:
    found = getattr(output, name)
    if not isinstance(found, Mapping) or not all(isinstance(text, str) for item in found.items() for text in item):
        raise SettingError(f"{output.of}: {name} must be texts by name, such as {{'name': 'value'}}, found {found!r}")


def _check_no_secret(output: Any, name: str) -> None:
    for option, value in getattr(output, name).items():
        if is_secret(option, value):
            raise SettingError(
                f"{output.of}: {option!r} among its {name} is a secret, and outputs are shown on command lines and in "
                "logs: give it to Spark with conf=, or keep it where Spark runs"
            )


def _hold_tuple(output: Any, name: str) -> None:
    value = getattr(output, name)
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise SettingError(f"{output.of}: {name} must be a tuple of texts, found {value!r}")
    object.__setattr__(output, name, tuple(found))
