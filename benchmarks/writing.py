"""How fast a topic is written back in the order of its keys: ours, and Spark's own connector.

    python -m benchmarks.writing                 2 million x 1 kB, medians of five alternating runs
    python -m benchmarks.writing --runs 1 --share 0.1

Everybody reads 8 partitions and writes 8. The connector sorts by time what `repartition(key)` gave it, and loses the
timestamps, once by its defaults and once with four options for its consumers; ours keeps them. Order and completeness
of each output are checked before any time is printed.
"""

import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_orderedkafka.spark.connector.source import OrderedKafkaDataSource
from airflow_provider_orderedkafka.spark.ordering import keep_order
from benchmarks.peers import CONNECTOR, TUNED, options, session
from benchmarks.processor import processor
from broker import LocalKafka

PARTITIONS = 8
RECORDS, SIZE, KEYS = 2_000_000, 1_000, 10_007
BASE = 1_700_000_000_000
NUMBER = np.dtype(">u8")


@dataclass(frozen=True)
class Contender:
    name: str
    write: Callable[[SparkSession, str, str, str], None]
    keeps_timestamps: bool


def connector(spark: SparkSession, servers: str, source: str, output: str, **more: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest", **more}
    rows = spark.read.format("kafka").options(**options).load()
    ordered = rows.repartition("key").sortWithinPartitions("timestamp", "partition", "offset")
    writer = ordered.select("key", "value").write.format("kafka").option("topic", output)
    writer.option("kafka.bootstrap.servers", servers).option("kafka.acks", "all").save()


CONNECTORS = [
    Contender("connector, repartition(key) + sort", connector, keeps_timestamps=False),
    Contender("tuned, repartition(key) + sort", partial(connector, **TUNED), keeps_timestamps=False),
]


def ours(*, provenance: bool, writers: int | None) -> Callable[[SparkSession, str, str, str], None]:
    def write(spark: SparkSession, servers: str, source: str, output: str) -> None:
        places = ", topic string, partition int, offset long, order_time timestamp" if provenance else ""
        rows = spark.read.schema(f"key binary, value binary, timestamp timestamp{places}").format("orderedkafka")
        rows = rows.option("kafka.bootstrap.servers", servers).option("subscribe", source)
        frame = keep_order(rows.load(), writers=writers)
        save(frame, servers, topic=output, usePartition="false", provenance=str(provenance).lower())

    return write


def save(frame: DataFrame, servers: str, **options: str) -> None:
    writer = frame.write.format("orderedkafka").mode("append").option("kafka.bootstrap.servers", servers)
    writer.options(**options).save()


def fill(servers: str, topic: str, records: int, size: int = SIZE) -> None:
    """Records of rising time; each value begins with its record's number."""
    make(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random", "linger.ms": 20})
    rest = np.random.default_rng(7).bytes(size - 8)
    for number in range(records):
        value, key = number.to_bytes(8, "big") + rest, b"%d" % (number * 7_919 % KEYS)
        while True:
            try:
                producer.produce(topic, value, key, timestamp=BASE + number // 4)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def make(servers: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    time.sleep(0.5)
    return topic


def check(servers: str, topic: str, records: int, *, timestamps: bool) -> None:
    """Every record once, those of a key in the order in which they were made, with their timestamps where promised."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    seen, last = np.zeros(records, bool), {}
    for _ in range(records):
        message = consumer.poll(30)
        assert message is not None, f"only {seen.sum():,} of {records:,} records are there"
        assert not message.error(), message.error()
        number = int.from_bytes(message.value()[:8], "big")
        assert not seen[number], f"record {number} is there twice"
        assert last.get(message.key(), -1) < number, f"record {number} of its key is out of order"
        assert not timestamps or message.timestamp()[1] == BASE + number // 4, f"record {number} lost its timestamp"
        seen[number], last[message.key()] = True, number
    assert consumer.poll(1) is None, "there are more records than there should be"
    consumer.close()


def run(spark: SparkSession, servers: str, source: str, each: Contender) -> tuple[float, float, str]:
    os.sync()  # nobody waits for the disk to take what the one before wrote
    output = make(servers, f"output-{uuid.uuid4().hex}")
    begun, used = time.perf_counter(), processor()
    each.write(spark, servers, source, output)
    return time.perf_counter() - begun, processor() - used, output


def drop(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(30)


def main() -> None:
    parser = options(__doc__, share=True)
    parser.add_argument("--writers", type=int, help="for ours; default: what keep_order chooses")
    arguments = parser.parse_args()
    records = int(RECORDS * arguments.share)
    contenders = [
        *CONNECTORS,
        Contender("orderedkafka", ours(provenance=True, writers=arguments.writers), keeps_timestamps=True),
        Contender(
            "orderedkafka, no provenance", ours(provenance=False, writers=arguments.writers), keeps_timestamps=True
        ),
    ]
    with tempfile.TemporaryDirectory() as directory, LocalKafka(Path(directory) / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        fill(servers, "source", records)
        spark = session(Path(directory))
        spark.dataSource.register(OrderedKafkaDataSource)
        found = compared(spark, servers, "source", records, contenders, runs=arguments.runs)
        spark.stop()
    report(found, lambda share: f"{1 / share:4.2f} times as fast as the connector")


def compared(
    spark: SparkSession,
    servers: str,
    source: str,
    records: int,
    contenders: list[Contender],
    *,
    runs: int,
    size: int = SIZE,
) -> dict[str, list[tuple[float, float]]]:
    """Seconds on the clock, and of the processor, of each contender's runs; they take turns."""
    print(f"{records:,} x {size:,} B, {PARTITIONS} partitions to {PARTITIONS}; {CONNECTOR}")
    for each in contenders:  # the first run of each warms up, and is the one that is checked
        output = run(spark, servers, source, each)[2]
        check(servers, output, records, timestamps=each.keeps_timestamps)
        drop(servers, output)
    found: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contenders}
    for _ in range(runs):
        for each in contenders:
            wall, worked, output = run(spark, servers, source, each)
            found[each.name].append((wall, worked))
            drop(servers, output)
    return found


def report(found: dict[str, list[tuple[float, float]]], share: Callable[[float], str]) -> None:
    """Print the medians, and what is told of a contender's share of the first one's time."""
    baseline = statistics.median(wall for wall, _ in next(iter(found.values())))
    for name, taken in found.items():
        wall, worked = (statistics.median(column) for column in zip(*taken, strict=True))
        print(
            f"{name:36} {wall:6.1f} s ({min(taken)[0]:.1f} to {max(taken)[0]:.1f}), processor {worked:6.1f} s, "
            f"{share(wall / baseline)}; complete and in order"
        )


if __name__ == "__main__":
    main()
