"""The texts of `--help` of the applications."""

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
options of the source (--option); with --range, only the first two:
  kafka.*               settings of the Kafka client, such as
                        kafka.bootstrap.servers; kafka.isolation.level is
                        read_committed (the default) or read_uncommitted
  sliceOffsets          approximate number of offsets that one task reads at a
                        time (100,000)
  subscribe             topics, separated by commas; or subscribePattern, assign
  startingOffsets       where the first range starts: earliest, latest (the
                        default: the first run loads nothing, the next one
                        what is new since then), committed:GROUP, or offsets
                        as JSON; or startingTimestamp
  endingOffsets         where to stop: latest (the default) or offsets as JSON;
                        or endingTimestamp
  maxOffsetsPerTrigger  maximum number of offsets in one batch
  minOffsetsPerTrigger  minimum number of new offsets that starts a range ...
  maxTriggerDelay       ... unless the last one was this long ago (15m)
  transactionWait       how long an open transaction holds back what is newer
                        than its first record (15m)
  grace                 leave out what is newer than this, such as 5s, so that
                        late records are still in order
  futureTolerance       how far ahead of the present a timestamp may be before
                        it counts as missing (5m)
  failOnDataLoss        false: count deleted offsets instead of failing
  includeHeaders        true: read and write the records' headers

options of the output (--sink-option), to Kafka:
  kafka.*               settings of another cluster than the source's
  keepOrder             which order to keep: key (the default), partition, none
  provenance            false: write no header that says where a row came from;
                        a killed run then writes some rows twice
  deadLetterTopic       topic for rows that cannot be written
  outputTopics          topics that a column 'topic' may name
  usePartition          true: write each row to the partition in its column
  writers               number of tasks that write in parallel

options of the output (--sink-option), to tables (ordered_table.py):
  path                  a folder; or table=CATALOG.SCHEMA.NAME
  format                parquet (the default), or another format of Spark's
  ...                   all others are options of the format

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
