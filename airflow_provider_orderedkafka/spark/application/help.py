"""The texts of `--help` of the applications."""

from textwrap import fill

from airflow_provider_orderedkafka.spark.connector.option_tables import APPLICATION_SINK, SOURCE

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

MORE = """\
options of the source (--option); with --range, only kafka.* and sliceOffsets:
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
    python -m airflow_provider_orderedkafka.spark.bundle bundle.zip
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
    """The epilog: options, examples, exit codes."""
    told = {
        "source": SOURCE.told("how", "topics", "span", "pace"),
        "sink": APPLICATION_SINK.told("sink", "application"),
        "tables": APPLICATION_SINK.told("table"),
    }
    return MORE.format(**{name: "\n".join(map(_entry, entries)) for name, entries in told.items()})


def _entry(told: tuple[str, str]) -> str:
    name, text = told
    return fill(text, WIDTH, initial_indent=f"  {name:<{INDENT - 2}}", subsequent_indent=" " * INDENT)
