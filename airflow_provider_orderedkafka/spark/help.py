"""What `--help` of the applications says around their arguments."""

from textwrap import fill

from airflow_provider_orderedkafka.spark.option_tables import APPLICATION_SINK, SOURCE, TABLE_SINK

WIDTH, INDENT = 80, 25

DESCRIPTION = """\
Load a range of Kafka offsets with Spark, in time order, and write a report.

A range is what one run reads: for each partition, from one offset to another.
With --range it is given, and loaded as it is. Without, the next range is
resolved from --option, written down under the checkpoint, and loaded. Where a
run did not come to its end, the next one takes its range up again; after
success the next range starts where the last one stopped.

A run can be killed at any moment. Run again with the same range and
checkpoint it goes on where it was: nothing is lost, and as long as provenance
is on nothing is written twice. Run again after success it does nothing."""

MORE = """\
options of the source (--option); beside --range only kafka.* and sliceOffsets:
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
  load a range that was resolved before
    spark-submit %(prog)s --checkpoint /data/checkpoints/r1 \\
        --range range.json --option kafka.bootstrap.servers=broker:9092 \\
        --output-topic orders-ordered
  write Parquet files
    spark-submit ordered_table.py --checkpoint /data/checkpoints/orders \\
        --option kafka.bootstrap.servers=broker:9092 --option subscribe=orders \\
        --option startingOffsets=earliest --sink-option path=/data/orders
  on a cluster, to which the package is shipped
    python -m airflow_provider_orderedkafka.spark.bundle bundle.zip
    spark-submit --master spark://host:7077 --py-files bundle.zip \\
        %(prog)s ...

exit codes:
  0    the range is loaded, there was nothing to load, or the limit is spent
  2    the command line or a setting is wrong
  65   a retry cannot mend it: a person has to decide, the message says what
  75   a retry can mend it: run the same command again
  130  it was interrupted, 143 it was told to end: run the same command again"""


def more() -> str:
    """The epilog: every option, examples, exit codes."""
    tables = {"source": SOURCE, "sink": APPLICATION_SINK, "tables": TABLE_SINK}
    return MORE.format(**{name: "\n".join(map(_entry, table.told())) for name, table in tables.items()})


def _entry(told: tuple[str, str]) -> str:
    name, text = told
    return fill(text, WIDTH, initial_indent=f"  {name:<{INDENT - 2}}", subsequent_indent=" " * INDENT)
