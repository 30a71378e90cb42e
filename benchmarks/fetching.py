"""How many bytes a broker sends for what is read in order, over those that it sends to one plain consumer.

    make bench ARGS=fetching                          every shape, with producer batches of 16 kB and of 1 MB
    python -m benchmarks.fetching --only "100 x 5 kB" --share 0.5
    python -m benchmarks.fetching --tasks             over 1 to 16 tasks instead
    python -m benchmarks.fetching --connector         and Spark's connector
    python -m benchmarks.fetching --only "a million" --brokers 3       5 kB in 100 partitions with three replicas

A proxy between reader and broker counts what comes back. What is read are the tasks of `spark.read` as Spark runs them
on two cores, in two processes without Spark; and `reader.read`, which needs none. The peers are one plain consumer, one
that pauses nine of ten partitions in turn, and Spark's connector. Beside the wall stands the processor's time of the
whole tree: the reader, the proxy and the broker.
"""

import argparse
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.proxied import ProxiedKafka

from benchmarks.data import Data, write
from benchmarks.peers import options
from benchmarks.processor import processor

Reader = Callable[[str, str, int], int]

SHAPES = [
    Data("8 x 1 kB", 400_000, 1_000, [1] * 8),
    Data("100 x 5 kB", 400_000, 5_000, [1] * 100),
    Data("97 % in one of 8", 400_000, 1_000, [97 * 7 / 3] + [1] * 7),
    Data("32 x 100 B", 400_000, 100, [1] * 32),
    Data("a million", 1_000_000, 5_000, [1] * 100),
]
USUAL = [data.name for data in SHAPES if data.name != "a million"]  # that one takes 15 GB of disk, and its time
BATCHES = {"16 kB": 16_000, "1 MB": 1_000_000}
CORES = 2
TASKS = (1, 2, 4, 8, 16)
TURN = 2_000
"""Records that the consumer that pauses takes of some partitions before it goes on to the next ones."""


def plain(servers: str, topic: str, records: int) -> int:
    """Everything once, by one consumer."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "plain", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    rows = 0
    while rows < records:
        rows += len(consumer.consume(10_000, 1.0))
    consumer.close()
    return rows


def pausing(servers: str, topic: str, records: int) -> int:
    """Everything once, by one consumer that listens to a tenth of its partitions at a time, as whoever merges does."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "pausing", "enable.auto.commit": False})
    numbers = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    every = [TopicPartition(topic, number) for number in numbers]
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    consumer.pause(every)
    rows, turn, size = 0, 0, max(len(every) // 10, 1)
    while rows < records:
        some = [every[(turn + place) % len(every)] for place in range(size)]
        consumer.resume(some)
        rows += len(consumer.consume(TURN, 0.2))
        consumer.pause(some)
        turn += size
    consumer.close()
    return rows


def connector(servers: str, topic: str, _: int) -> int:
    """Spark's own, without an order."""
    from benchmarks.peers import session

    with tempfile.TemporaryDirectory() as work:
        spark = session(Path(work))
        read = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        rows = read.option("startingOffsets", "earliest").load().selectExpr("length(value)", "length(key)").rdd.count()
        spark.stop()
    return rows


def tasks(servers: str, topic: str, _: int, offsets: int | None = None) -> int:
    """The tasks of `spark.read`, two at a time, each process going on with the next one as Spark's do."""
    from airflow_provider_orderedkafka.spark.connector.batch import partitions_of
    from airflow_provider_orderedkafka.spark.connector.options import parse_options
    from airflow_provider_orderedkafka.spark.connector.stream import Stream

    more = {} if offsets is None else {"sliceOffsets": str(offsets)}
    given = parse_options({"kafka.bootstrap.servers": servers, "subscribe": topic, **more}, stream=False)
    stream = Stream(given)
    packed = [pickle.dumps((given, each)) for each in partitions_of(stream, *stream.whole())]
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        return sum(pool.imap(_task, packed))


def _task(packed: bytes) -> int:
    from airflow_provider_orderedkafka.spark.connector.batch import read_partition

    given, partition = pickle.loads(packed)
    return sum(batch.num_rows for batch in read_partition(given, partition, None))


def alone(servers: str, topic: str, _: int) -> int:
    """Without Spark."""
    from airflow_provider_orderedkafka.reader import read

    with read(servers, topic) as batches:
        return sum(batch.num_rows for batch in batches)


READERS = {"one plain consumer": plain, "tasks of spark.read": tasks, "reader.read": alone, "one that pauses": pausing}
CONNECTOR = {"Spark's connector": connector}


def measure(kafka: ProxiedKafka, topic: str, data: Data, readers: Mapping[str, Reader]) -> None:
    """Print what each reader was sent, and its share of what the first one was."""
    needed = 0
    for name, read in readers.items():
        before, begun, worked = kafka.answered, time.perf_counter(), processor()
        rows = read(kafka.proxied_servers, topic, data.records)
        seconds, sent = time.perf_counter() - begun, kafka.answered - before
        assert rows == data.records, f"{name} has {rows:,} rows of {data.records:,}"
        needed = needed or sent
        used = f"{seconds:5.1f} s, processor {processor() - worked:5.1f} s"
        print(f"  {name:20} {sent / 1e6:9.1f} MB   x {sent / needed:4.2f}   {used}", flush=True)


def chosen(arguments: argparse.Namespace, data: Data) -> dict[str, Reader]:
    """Who reads: the plain one first."""
    if arguments.tasks:
        several = {f"{count} tasks": partial(tasks, offsets=-(-data.records // count) + 1) for count in TASKS}
        return {"one plain consumer": plain, **several}
    readers = {**READERS, **(CONNECTOR if arguments.connector else {})}
    return {n: read for n, read in readers.items() if read is plain or not arguments.reader or n in arguments.reader}


def main() -> None:
    parser = options(__doc__, share=True)
    parser.add_argument("--only", choices=[data.name for data in SHAPES], action="append")
    parser.add_argument("--batch", choices=BATCHES, action="append")
    parser.add_argument("--reader", choices=READERS, action="append", default=[])
    parser.add_argument("--tasks", action="store_true", help="over numbers of tasks, by `sliceOffsets`")
    parser.add_argument("--connector", action="store_true", help="Spark's connector, too")
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=1, help="and as many replicas")
    arguments = parser.parse_args()
    brokers = arguments.brokers
    for data in SHAPES:
        if data.name not in (arguments.only or USUAL):
            continue
        for batch in arguments.batch or BATCHES:
            with tempfile.TemporaryDirectory() as work, ProxiedKafka(Path(work) / "kafka", brokers) as kafka:
                part = data.scaled(arguments.share)
                print(f"{part.records:,} records, {data.name}, producer batches of {batch}", flush=True)
                name, size = f"orders-{os.getpid()}", BATCHES[batch]
                topic = write(kafka.bootstrap_servers, name, part, batch=size, replicas=brokers)
                measure(kafka, topic, part, chosen(arguments, part))


if __name__ == "__main__":
    main()
