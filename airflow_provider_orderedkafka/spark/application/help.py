"""The texts of `--help` of the applications."""

import argparse
from textwrap import fill
from typing import Final

from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE
from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, APPLICATION_SOURCE, Option

WIDTH, INDENT = 80, 25

DESCRIPTION = """\
Load a range of Kafka offsets with Spark, in time order, and write a report.

A range says what one run reads: for each partition, from one offset to
another. With --range, that range is loaded. Without, the next range is planned
from the options, stored under the checkpoint, and loaded; if a run did not
finish, the next one continues with its range.

A run can be killed at any moment. Run it again with the same range and
checkpoint, and it continues where it was: nothing is lost and, with
provenance, nothing is written twice. After success, it does nothing."""

ARGUMENTS: Final[dict[str, tuple[tuple[str, str, str, str], ...]]] = {
    "what to load": (
        ("--work", "WORD", "text", argparse.SUPPRESS),
        ("--range", "RANGE", "text", "a range document, as JSON, packed, or as a path"),
        (
            *("--option", "NAME=VALUE", "pairs"),
            "an option of the source; can be repeated; see below. To hide secrets from process lists, put options as "
            f"a JSON object into the environment variable {OPTIONS_VARIABLE}",
        ),
        (
            *("--row-limit", "ROWS", "count"),
            "maximum number of rows to write, over all runs with this checkpoint: the first ones in order. Not with "
            "--range, which has its own",
        ),
    ),
    "how to write it": (
        (
            *("--decode", "JSON", "text"),
            "decode keys and values before the transform, such as "
            '\'{"value": {"kind": "avro", "registry": "main"}}\', with --option registry.url=...',
        ),
        (
            *("--transform", "MODULE:FUNCTION", "text"),
            "a function from DataFrame to DataFrame that does not shuffle, and keeps the column _source. Ship its "
            "module with --py-files if executors do not have it",
        ),
        (
            *("--arrow-transform", "MODULE:FUNCTION", "text"),
            "a function from pyarrow.RecordBatch to pyarrow.RecordBatch instead; faster: records never leave Python",
        ),
        (
            *("--output", "OUTPUT", "text"),
            "where to write, as FORMAT:NAME, such as iceberg:lake.shop.orders, or as JSON with a table's other "
            "settings; or name a topic, or a table or files by options",
        ),
        ("--output-topic", "TOPIC", "text", "the topic to write to"),
        ("--sink-option", "NAME=VALUE", "pairs", "an option of the output; can be repeated; see below"),
        ("--bad-records", "MOST", "count", "how many records of a run may be impossible to load; with --dead-letters"),
        (
            *("--dead-letters", "OUTPUT", "text"),
            "where the bytes of these go: a topic, or, for tables, another one, such as iceberg:lake.shop.orders_dead",
        ),
    ),
    "where to keep state and reports": (
        (
            *("--checkpoint", "LOCATION", "text"),
            "required: a folder on HDFS, in an object store or, with a local master, on local disk. With --range it "
            "belongs to that range; without, it has a folder for each range",
        ),
        ("--report", "FILE", "text", "where to copy the report; it is always written to <checkpoint>/report.json"),
        ("--attempt", "NUMBER", "count", argparse.SUPPRESS),
    ),
}
"""The arguments by groups: name, placeholder, kind of value, and help."""

MORE = """\
options of the source (--option); with --range, only kafka.*, registry.* and
sliceOffsets:
{source}

options of the output (--sink-option), to Kafka:
{sink}

options of the output (--sink-option), to tables (ordered_table.py):
{tables}

examples:
  copy what is new since the last run into a topic, in time order
    spark-submit %(prog)s --checkpoint /data/checkpoints/orders \\
        --option kafka.bootstrap.servers=broker:9092 \\
        --option subscribe=orders,refunds --option startingOffsets=earliest \\
        --output-topic orders-ordered
  load a given range
    spark-submit %(prog)s --checkpoint /data/checkpoints/r1 \\
        --range range.json --option kafka.bootstrap.servers=broker:9092 \\
        --output-topic orders-ordered
  write Parquet files
    spark-submit ordered_table.py --checkpoint /data/checkpoints/orders \\
        --option kafka.bootstrap.servers=broker:9092 --option subscribe=orders \\
        --option startingOffsets=earliest --sink-option path=/data/orders
  run on a cluster, and ship this package to it
    orderedkafka bundle bundle.zip
    spark-submit --master spark://host:7077 --py-files bundle.zip \\
        %(prog)s ...

exit codes:
  0    the range is loaded, there was nothing to load, or the row limit is
       reached
  2    the command line or a setting is wrong
  65   a retry will fail again: a person has to decide; the message says what
  75   a retry may succeed: run the same command again
  130  interrupted (143: terminated): run the same command again"""


def more() -> str:
    entries = {
        "source": [option for option in APPLICATION_SOURCE.options if not option.elsewhere],
        "sink": APPLICATION_SINK.of_group("sink", "application"),
        "tables": APPLICATION_SINK.of_group("table"),
    }
    return MORE.format(**{name: "\n".join(map(_entry, options)) for name, options in entries.items()})


def _entry(option: Option) -> str:
    start = f"  {option.name:<{INDENT - 2}}"
    return fill(option.full_help, WIDTH, initial_indent=start, subsequent_indent=" " * INDENT)
