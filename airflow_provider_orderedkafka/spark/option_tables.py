"""The options of source and sink as tables, which `--help` and the documents print."""

from typing import Final, get_args

from airflow_provider_orderedkafka.core.cuts import FUTURE_TOLERANCE
from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.durations import format_duration
from airflow_provider_orderedkafka.kafka.config import ISOLATION as ISOLATION_LEVEL
from airflow_provider_orderedkafka.kafka.config import PREFIX
from airflow_provider_orderedkafka.spark.option_parsing import (
    Option,
    Table,
    count,
    duration,
    filled,
    flag,
    keep_order,
    moment,
    names,
    one_of,
    range_document,
    spark_duration,
    start,
    subscription,
)

SLICE_OFFSETS: Final = 100_000
ISOLATION: Final = PREFIX + ISOLATION_LEVEL

_KAFKA_HELP: Final = (
    "librdkafka's configuration, such as `kafka.security.protocol`; `kafka.bootstrap.servers` is required. A key that "
    "only Java's client has is refused with its equivalent"
)
_OUTAGE: Final = "an outage is ridden out by itself; leave it out"

SOURCE: Final = Table(
    (
        Option("kafka.*", None, "how", _KAFKA_HELP, beside_range=True),
        Option(
            *("sliceOffsets", count, "how", "about how many offsets one Spark partition holds", str(SLICE_OFFSETS)),
            beside_range=True,
        ),
        Option("subscribe", subscription, "topics", "topics, separated by commas"),
        Option("subscribePattern", subscription, "topics", "a regular expression that matches whole names"),
        Option("assign", subscription, "topics", 'partitions by topic: `{"orders": [0, 1]}`'),
        Option(
            *("range", range_document, "topics"),
            "a range that was written down, as JSON or as a path: it says what to read, from where to where, and how",
            elsewhere="give the range with --range",
            beside_range=True,
        ),
        Option(
            *("startingOffsets", start, "span"),
            "`earliest`, `latest`, `committed:<group>`, a moment, `-2h`, or offsets: "
            '`{"orders": [23, -2]}` or `{"orders": {"0": 23, "1": -2}}` (-2 earliest, -1 latest)',
            unset="`earliest`, for streams `latest`",
            in_application="`latest`: the first run loads nothing, the next one what came since",
        ),
        Option(
            *("startingTimestamp", moment, "span"),
            "a moment for all partitions: `2026-01-31T12:00:00Z`, or milliseconds since 1970",
        ),
        Option(
            *("endingOffsets", start, "span", "as `startingOffsets`; for streams too, which then end there"),
            unset="the end",
        ),
        Option("endingTimestamp", moment, "span", "the first moment that is not read any more"),
        Option(
            *("grace", duration, "span"),
            "end so long before the present, as `5s`: what is written late by no more than that is still in order",
            unset="none",
        ),
        Option(
            *("transactionWait", duration, "span"),
            "with `grace` or an end in time: how long an open transaction keeps the end back to its first record",
            default="15m",
        ),
        Option(
            *("minOffsetsPerTrigger", count, "pace", "wait for so many new offsets, on the first batch too"),
            unset="none",
            stream_only=True,
        ),
        Option(
            *("maxTriggerDelay", spark_duration, "pace"),
            "... but never longer than this; Spark's `15min` and milliseconds will do, too",
            default="15m",
            unset="with a minimum",
            stream_only=True,
        ),
        Option(
            *("maxOffsetsPerTrigger", count, "pace"),
            "the most of one batch; cut by time, not pro rata, so the order holds between batches",
            unset="none",
            stream_only=True,
        ),
        Option(
            ISOLATION, one_of(*get_args(Isolation)), "how", "`read_committed` or `read_uncommitted`", "read_committed"
        ),
        Option("includeHeaders", flag, "how", "whether the column `headers` is there", "false"),
        Option(
            *("failOnDataLoss", flag, "how"),
            "`false`: offsets that are gone are counted, and reading goes on behind them",
            default="true",
        ),
        Option(
            *("futureTolerance", duration, "how"),
            "how far a timestamp may be ahead of the present before it counts as missing",
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

SINK: Final = Table(
    (
        Option(
            *("kafka.*", None, "sink", "librdkafka's settings; `kafka.bootstrap.servers` is required"),
            in_application="the source's, unless `kafka.bootstrap.servers` names another cluster",
        ),
        Option("topic", filled, "sink", "where every row goes; it wins over the column"),
        Option(
            *("outputTopics", names, "sink", "which topics the column `topic` may name, separated by commas"),
            unset="any",
        ),
        Option(
            *("usePartition", flag, "sink", "`true`: each row needs a partition; `false`: the column is ignored"),
            unset="where given",
            in_application="`false`",
        ),
        Option("includeHeaders", flag, "sink", "`false`: the column `headers` is ignored", "true"),
        Option("deadLetterTopic", filled, "sink", "where rows go that cannot be written", unset="none"),
        Option(
            *("provenance", flag, "sink", "`true`: each row must say where it came from; `false`: that is not written"),
            unset="where the rows have it",
            in_application="`true`; without it, what a killed run wrote is written twice",
        ),
    ),
    of=" of the sink",
    means_nothing="has no meaning for the sink",
    instead={
        "path": "where to write is the option 'topic'; call save() or start() without a path",
        "subscribe": "this is an option of reading; where to write is 'topic'",
        "keepOrder": "call keep_order(df) before writing",
    },
    ignored=frozenset({"checkpointlocation", "queryname"}),
)

APPLICATION_SINK: Final = Table(
    (
        *SINK.options,
        Option(
            *("keepOrder", keep_order, "application", "which rows stay in order: `key`, `partition` or `none`", "key")
        ),
        Option("writers", count, "application", "how many tasks write side by side; 1 keeps the order of all rows"),
    ),
    of=SINK.of,
    means_nothing=SINK.means_nothing,
    instead={name: instead for name, instead in SINK.instead.items() if name != "keepOrder"},
)

TABLE_SINK: Final = Table(
    (
        Option("path", filled, "table", "a folder, in which each batch has its own; or else `table`"),
        Option("table", filled, "table", "a table of a catalog, as CATALOG.SCHEMA.NAME"),
        Option("format", filled, "table", "any of Spark's; all other options are the format's own", "parquet"),
    )
)
