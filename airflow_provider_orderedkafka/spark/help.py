"""What `--help` of the applications says around their arguments."""

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
options of the source (--option), with --range only the first two:
  kafka.*               the client's settings: kafka.bootstrap.servers, and so
                        on; kafka.isolation.level is read_committed (the
                        default) or read_uncommitted
  sliceOffsets          offsets that one task reads at a time (100,000)
  subscribe             topics, separated by commas; or subscribePattern, assign
  startingOffsets       where the first range starts: earliest, latest (the
                        default: the first run loads nothing, the next one
                        what came since), committed:GROUP, or JSON of offsets;
                        or startingTimestamp, a moment
  endingOffsets         where to stop: latest (the default) or JSON of offsets;
                        or endingTimestamp
  maxOffsetsPerTrigger  the offsets of one batch (five million, or about 4 GiB,
                        fewer with very many partitions)
  minOffsetsPerTrigger  load nothing where fewer offsets are new ...
  maxTriggerDelay       ... unless the last range is so long ago (15m)
  transactionWait       how long an open transaction keeps back what is newer
                        than its first record (15m)
  grace                 leave out what is newer than this, such as 5s, so that
                        order also holds from range to range
  futureTolerance       how far ahead of the present a timestamp may be before
                        it counts as missing (5m)
  failOnDataLoss        false: what retention took is counted, not an error
  includeHeaders        true: the records' headers are read and written, too

options of the output (--sink-option), to Kafka:
  kafka.*               another cluster than the source's
  keepOrder             key (the default), partition or none
  provenance            false: no header that says where a row came from; what
                        a killed run wrote is then written twice
  deadLetterTopic       where rows go that cannot be written
  outputTopics          which topics a column 'topic' may name
  usePartition          true: rows go where a column 'partition' says
  writers               how many tasks write side by side

options of the output (--sink-option), to tables (ordered_table.py):
  path                  a folder; or table=CATALOG.SCHEMA.NAME
  format                parquet (the default), or any other of Spark's
  ...                   all others are the format's own

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
