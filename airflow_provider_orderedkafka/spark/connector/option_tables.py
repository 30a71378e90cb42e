"""The options of source, sink and applications as tables, from which `--help` and the documents are made."""

from dataclasses import replace
from typing import Final, get_args

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.notation.durations import format_duration
from airflow_provider_orderedkafka.core.order.cuts import FUTURE_TOLERANCE
from airflow_provider_orderedkafka.core.plan import SLICE_OFFSETS
from airflow_provider_orderedkafka.decoding.registry import PREFIX as REGISTRY
from airflow_provider_orderedkafka.kafka.clients.config import ISOLATION as ISOLATION_LEVEL
from airflow_provider_orderedkafka.kafka.clients.config import PREFIX
from airflow_provider_orderedkafka.spark.connector.option_parsing import (
    Option,
    OptionTable,
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

ISOLATION: Final = PREFIX + ISOLATION_LEVEL

_KAFKA_HELP: Final = (
    "librdkafka's configuration, such as `kafka.security.protocol`; `kafka.bootstrap.servers` is required. A property "
    "of the Java client is refused with its equivalent"
)
_OUTAGE: Final = "outages are waited out without it; leave it out"

SOURCE: Final = OptionTable(
    (
        Option("kafka.*", None, "how", _KAFKA_HELP, beside_range=True),
        Option(
            *("sliceOffsets", count, "how", "approximate number of offsets in a Spark partition", str(SLICE_OFFSETS)),
            beside_range=True,
        ),
        Option("subscribe", subscription, "topics", "topics, separated by commas"),
        Option("subscribePattern", subscription, "topics", "a regular expression that matches whole names"),
        Option("assign", subscription, "topics", 'partitions by topic: `{"orders": [0, 1]}`'),
        Option(
            *("range", range_document, "topics"),
            "a range document, as JSON, packed, or as a path: it says what to read, from where to where, and how",
            elsewhere="give the range with --range",
            beside_range=True,
        ),
        Option(
            *("startingOffsets", start, "span"),
            "`earliest`, `latest`, `committed:<group>`, a timestamp, `-2h`, or offsets: "
            '`{"orders": [23, -2]}` or `{"orders": {"0": 23, "1": -2}}` (-2 earliest, -1 latest)',
            unset="`earliest`, for streams `latest`",
            in_application="`latest`: the first run loads nothing, the next one what is new since then",
        ),
        Option(
            *("startingTimestamp", moment, "span"),
            "a timestamp for all partitions: `2026-01-31T12:00:00Z`, or milliseconds since 1970",
        ),
        Option(
            *("endingOffsets", start, "span", "as `startingOffsets`; a stream then ends there"),
            unset="the end",
        ),
        Option("endingTimestamp", moment, "span", "the first timestamp that is no longer read"),
        Option(
            *("grace", duration, "span"),
            "end this long before the present, such as `5s`, so that records written up to this late are in order",
            unset="none",
        ),
        Option(
            *("transactionWait", duration, "span"),
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
            "start a batch with fewer offsets this long after the last one; also `15min` or milliseconds, as in Spark",
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
            *("failOnDataLoss", flag, "how"),
            "`false`: count deleted offsets, and go on behind them",
            default="true",
        ),
        Option(
            *("futureTolerance", duration, "how"),
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
            *(
                "provenance",
                flag,
                "sink",
                "`true`: each row must say where it came from; `false`: write no such header",
            ),
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

APPLICATION_SINK: Final = replace(
    SINK,
    options=(
        *SINK.options,
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
            *("path", filled, "table"),
            "a folder, with a folder for each batch, or with `format=delta` a Delta table; or `table`",
        ),
        Option(
            *("table", filled, "table"),
            "a table of a catalog, as CATALOG.SCHEMA.NAME; with `format=iceberg` or `delta`, batches are appended",
        ),
        Option(
            *("format", filled, "table", "`iceberg`, `delta` or a format of files; all other options are its own"),
            default="parquet",
        ),
    ),
    instead={"subscribe": SINK.instead["subscribe"]},
    ignored=frozenset(),
)
