"""The options of source, sink and applications as tables, from which `--help` and the documents are made.

Spark passes options in lower case. An error suggests the nearest known option, or says which values an option takes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, get_args

from ...core.batches import SLICE_OFFSETS
from ...core.codec import PACKED, unpacked
from ...core.documents import Isolation, Range
from ...core.lanes import KeepOrder
from ...core.notation.spelling import format_duration, meant, parse_duration
from ...core.notation.starts import parse_moment, parse_start
from ...core.notation.subscriptions import Subscription, parse_subscription
from ...core.order.cuts import FUTURE_TOLERANCE
from ...core.order.positions import whole_number
from ...decoding.registry import PREFIX as REGISTRY
from ...errors import SettingError
from ...kafka.clients.config import ISOLATION as ISOLATION_LEVEL
from ...kafka.clients.config import PREFIX
from ...loads.mirror import group_of
from ...outputs import Guarantee

OF_LOADS: Final = group_of("")
_OF_SPARK: Final = re.compile(r"(\d+)(min)?")

Parse = Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `parse` makes its value of its text and name. `help` is Markdown, for `--help` and the documents.

    A name that ends with `*` stands for all that begin so, which are for others to parse.

    `default` is a text, as it would be given; `unset` says in words what holds without one, or when the default does.
    `in_application` says so where an application has another; `elsewhere`, how an application gets it otherwise.
    `group` names the option's table in the documents.
    """

    name: str
    parse: Parse | None
    group: str
    help: str
    default: str = ""
    unset: str = ""
    in_application: str = ""
    elsewhere: str = ""
    stream_only: bool = False
    with_range: bool = False

    @property
    def shown(self) -> str:
        return f"`{self.default}` {self.unset}".strip() if self.default else self.unset

    @property
    def full_help(self) -> str:
        default = self.in_application or self.shown
        return (f"{self.help} (default: {default})" if default else self.help).replace("`", "")


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one place. `instead` refuses some of them, with a way out; `ignored` are Spark's."""

    options: tuple[Option, ...]
    of: str = ""
    means_nothing: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()

    @property
    def parsers(self) -> dict[str, Parse]:
        return {option.name: option.parse for option in self.options if option.parse is not None}

    def parsed(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The options but `kafka.*` and the like, parsed; raises `SettingError` for one that is unknown or wrong."""
        parsers = self.parsers
        others = tuple(option.name.removesuffix("*") for option in self.options if option.parse is None)
        canonical = {name.lower(): name for name in parsers}
        values = {}
        for name, text in given.items():
            known = canonical.get(name.lower())
            if known is not None:
                values[known] = parsers[known](text, known)
            elif not name.lower().startswith(others) and name.lower() not in self.ignored:
                raise self._unknown(name)
        return values

    def value(self, values: Mapping[str, Any], name: str) -> Any:
        if name in values:
            return values[name]
        return next(o.parse(o.default, name) for o in self.options if o.name == name and o.parse is not None)

    def _unknown(self, given: str) -> SettingError:
        for name, instead in self.instead.items():
            if given.lower() == name.lower():
                return SettingError(f"option {name!r} {self.means_nothing}: {instead}")
        names = [option.name for option in self.options]
        hint = meant(given, names, f"known are {', '.join(map(repr, names))}")
        return SettingError(f"unknown option {given!r}{self.of}: {hint}")

    def of_group(self, group: str) -> list[Option]:
        return [option for option in self.options if option.group == group]


def count(text: str, name: str) -> int:
    number = whole_number(text)
    if number is None:
        raise SettingError(f"option {name!r} must be a whole number from 1 on, found {text!r}")
    return number


def flag(text: str, name: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise SettingError(f"option {name!r} must be 'true' or 'false', found {text!r}")
    return text.strip().lower() == "true"


def one_of(*allowed: str) -> Parse:

    def parse(text: str, name: str) -> str:
        if text not in allowed:
            *most, last = map(repr, allowed)
            raise SettingError(f"option {name!r} must be {', '.join(most)} or {last}, found {text!r}")
        return text

    return parse


def keep_order(text: str, name: str) -> KeepOrder:
    found: KeepOrder = one_of(*get_args(KeepOrder))(text.lower(), name)
    return found


def filled(text: str, name: str) -> str:
    if not text.strip():
        raise SettingError(f"option {name!r} must not be empty")
    return text.strip()


def group(text: str, name: str) -> str:
    """A consumer group, but for those of loads in Airflow."""
    found = filled(text, name)
    if found.startswith(OF_LOADS):
        raise SettingError(
            f"option {name!r} must be a group of your own, found {found!r}: in groups that begin with {OF_LOADS!r}, "
            "loads in Airflow keep a copy of their ledgers"
        )
    return found


def names(text: str, name: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not found:
        raise SettingError(f"option {name!r} must be topics separated by commas, found {text!r}")
    return found


def spark_duration(text: str, name: str) -> int:
    """As Spark's connector reads it, too: a number alone is milliseconds, and minutes may be `min`."""
    found = _OF_SPARK.fullmatch(text.strip().lower())
    return parse_duration(found[1] + ("m" if found[2] else "ms") if found else text, name)


def range_document(text: str, name: str) -> Range:
    """A range, as JSON, packed, or as the path of its file."""
    if text.lstrip().startswith("{"):
        return Range.from_text(text)
    if text.startswith(PACKED):
        return Range.from_text(unpacked(text))
    try:
        found = Path(text).read_text("utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingError(
            f"{name!r} must be a range document, as JSON or packed, or a path to one, found {text!r}: {why}"
        ) from error
    return Range.from_text(found)


def subscription(text: str, name: str) -> Subscription:
    return parse_subscription(name, text)


ISOLATION: Final = PREFIX + ISOLATION_LEVEL

_KAFKA_HELP: Final = (
    "librdkafka's configuration, such as `kafka.security.protocol`; `kafka.bootstrap.servers` is required. Properties "
    "of the Java client are refused; for usual ones, the error names the equivalent"
)
_SLICES_HELP: Final = (
    "approximate number of offsets in a Spark partition. The default grows, up to 64 MiB of records, where producers' "
    "batches are large: a broker sends a whole batch to each task that needs a part"
)
_OUTAGE: Final = "the source waits for a broker without it; leave it out"

SOURCE: Final = OptionTable(
    (
        Option("kafka.*", None, "how", _KAFKA_HELP, with_range=True),
        Option(*("sliceOffsets", count, "how", _SLICES_HELP, str(SLICE_OFFSETS)), with_range=True),
        Option("subscribe", subscription, "topics", "topics, separated by commas"),
        Option("subscribePattern", subscription, "topics", "a regular expression that matches whole names"),
        Option("assign", subscription, "topics", 'partitions by topic: `{"orders": [0, 1]}`'),
        Option(
            *("range", range_document, "topics"),
            "a range document, as JSON, packed, or as a path: it says what to read, from where to where, and how",
            elsewhere="give the range with --range",
            with_range=True,
        ),
        Option(
            *("startingOffsets", parse_start, "span"),
            "`earliest`, `latest`, `committed:<group>` (0 where the group has none; an error if it has none at all), a "
            'timestamp, `-2h`, or offsets: `{"orders": [23, -2]}` or `{"orders": {"0": 23, "1": -2}}` (-2 earliest, '
            '-1 latest); or one for each topic: `{"orders": "earliest", "metrics": "-1h"}`',
            unset="`earliest`, for streams `latest`",
            in_application="`latest`: the first run loads nothing, the next one what is new since then",
        ),
        Option(
            *("startingTimestamp", parse_moment, "span"),
            "a timestamp for all partitions: `2026-01-31T12:00:00Z`, or milliseconds since 1970",
        ),
        Option(
            *("endingOffsets", parse_start, "span", "as `startingOffsets`; a stream then ends there"), unset="the end"
        ),
        Option("endingTimestamp", parse_moment, "span", "the first timestamp that is no longer read"),
        Option(
            *("grace", parse_duration, "span"),
            "end this long before the present, such as `5s`, so that records written up to this late are in order",
            unset="none",
        ),
        Option(
            *("rowLimit", count, "span"),
            "maximum number of rows, the first ones in order; for a stream, over all its batches",
            unset="none",
            elsewhere="give it with --row-limit",
        ),
        Option(
            *("transactionWait", parse_duration, "span"),
            "with `grace` or `endingTimestamp`: how long an open transaction holds the end back to its first record",
            default="15m",
        ),
        Option(
            *("minOffsetsPerTrigger", count, "pace", "minimum number of new offsets that starts a batch"),
            unset="none",
            stream_only=True,
        ),
        Option(
            *("maxTriggerDelay", spark_duration, "pace"),
            "start a batch with fewer offsets this long after the last one; the first batch starts at once. Also "
            "`15min` or milliseconds, as in Spark",
            default="15m",
            unset="with a minimum",
            stream_only=True,
        ),
        Option(
            *("maxOffsetsPerTrigger", count, "pace"),
            "maximum number of offsets in a batch; cut by time, not pro rata, so the order holds between batches",
            unset="none",
            in_application="five million, or fewer: about 4 GiB, and less with very many partitions",
            stream_only=True,
        ),
        Option(
            ISOLATION, one_of(*get_args(Isolation)), "how", "`read_committed` or `read_uncommitted`", "read_committed"
        ),
        Option("includeHeaders", flag, "how", "`true`: read the headers, into the column `headers`", "false"),
        Option(
            *("commitGroup", group, "how"),
            "a consumer group that shows how far a stream or a load has come: offsets are committed there, so that "
            "Kafka's tools show the lag, and never read",
            unset="none",
            stream_only=True,
        ),
        Option(
            *("failOnDataLoss", flag, "how"), "`false`: count deleted offsets, and continue after them", default="true"
        ),
        Option(
            *("futureTolerance", parse_duration, "how"),
            "how far ahead of the present a timestamp may be before it counts as missing",
            default=format_duration(FUTURE_TOLERANCE),
        ),
    ),
    means_nothing="of Spark's connector has no meaning here",
    instead={
        "minPartitions": "a Spark partition is a slice: set 'sliceOffsets'",
        "maxRecordsPerPartition": "a Spark partition is a slice: set 'sliceOffsets'",
        "groupIdPrefix": "no consumer group is used for reading; leave it out",
        "startingOffsetsByTimestamp": "one moment holds for all partitions: set 'startingTimestamp'",
        "endingOffsetsByTimestamp": "one moment holds for all partitions: set 'endingTimestamp'",
        "startingOffsetsByTimestampStrategy": "a partition without a record from that moment on is read from its end; "
        "leave it out",
        "kafkaConsumer.pollTimeoutMs": _OUTAGE,
        "fetchOffset.numRetries": _OUTAGE,
        "fetchOffset.retryIntervalMs": _OUTAGE,
    },
)

APPLICATION_SOURCE: Final = replace(
    SOURCE,
    options=(
        *SOURCE.options,
        Option(
            *(f"{REGISTRY}*", None, "registry"),
            "the schema registry, where `--decode` names one: `registry.url`, which is required, and other properties "
            "of Confluent's client, such as `registry.basic.auth.user.info` (`login:password`)",
        ),
    ),
)

SINK: Final = OptionTable(
    (
        Option(
            *("kafka.*", None, "sink", "librdkafka's settings; `kafka.bootstrap.servers` is required"),
            in_application="the source's, unless `kafka.bootstrap.servers` names another cluster",
        ),
        Option("topic", filled, "sink", "the topic of every row; overrides the column"),
        Option(
            *("outputTopics", names, "sink", "topics that the column `topic` may name, separated by commas"),
            unset="any",
        ),
        Option(
            *("usePartition", flag, "sink", "`true`: each row needs a partition; `false`: ignore the column"),
            unset="where given",
            in_application="`false`",
        ),
        Option("includeHeaders", flag, "sink", "`false`: ignore the column `headers`", "true"),
        Option("deadLetterTopic", filled, "sink", "topic for rows that cannot be written", unset="none"),
        Option(
            *("provenance", flag, "sink"),
            "`true`: each row must say where it came from; `false`: write no such header",
            unset="where the rows have it",
            in_application="`true`; without it, what a killed run wrote is written twice",
        ),
    ),
    of=" of the sink",
    means_nothing="has no meaning for the sink",
    instead={
        "path": "the option 'topic' says where to write; call save() or start() without a path",
        "subscribe": "this is an option of reading; name the output with 'topic'",
        "keepOrder": "call keep_order(df) before writing",
        "guarantee": "exactly once needs a range, which df.write and writeStream have not; load with KafkaOutput",
    },
    ignored=frozenset({"checkpointlocation", "queryname"}),
)

APPLICATION_SINK: Final = replace(
    SINK,
    options=(
        *(option for option in SINK.options if option.name not in ("topic", "deadLetterTopic")),
        Option(
            *("keepOrder", keep_order, "application"),
            "which rows stay in order: those of each `key`, those of each output `partition`, or `none`",
            default="key",
        ),
        Option(
            *("writers", count, "application", "number of tasks that write in parallel; 1 keeps the order of all rows"),
            unset="as many as the order allows",
        ),
        Option(
            *("guarantee", one_of(*get_args(Guarantee)), "application"),
            "`exactly_once`: consumers with `read_committed` see each row once, however an attempt ends",
            default="at_least_once",
        ),
    ),
    instead={
        "topic": "name it with --output-topic",
        "path": "name tables and files with --output, such as parquet:/data/orders",
        "subscribe": "this is an option of reading; name the output with --output-topic",
        "deadLetterTopic": "say how many there may be, and where they go: --bad-records 10 --dead-letters orders-dead",
    },
    ignored=frozenset(),
)
