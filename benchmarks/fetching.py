"""How many bytes a broker sends for what is read in order, over those that it sends to one plain consumer.

    make bench ARGS=fetching                          every shape, with producer batches of 16 kB and of 1 MB
    python -m benchmarks.fetching --only "100 x 5 kB" --share 0.5

A proxy between reader and broker counts what comes back. What is read are the tasks of `spark.read` as Spark runs them
on two cores, in two processes without Spark; and `reader.read`, which needs none.
"""

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.proxied import ProxiedKafka

from benchmarks.data import Data, write
from benchmarks.peers import options

SHAPES = [
    Data("8 x 1 kB", 400_000, 1_000, [1] * 8),
    Data("100 x 5 kB", 400_000, 5_000, [1] * 100),
    Data("97 % in one of 8", 400_000, 1_000, [97 * 7 / 3] + [1] * 7),
    Data("32 x 100 B", 400_000, 100, [1] * 32),
]
BATCHES = {"16 kB": 16_000, "1 MB": 1_000_000}
CORES = 2


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


def tasks(servers: str, topic: str, _: int) -> int:
    """The tasks of `spark.read`, two at a time, each process going on with the next one as Spark's do."""
    from airflow_provider_orderedkafka.spark.connector.batch_reader import partitions_of
    from airflow_provider_orderedkafka.spark.connector.options import parse_options
    from airflow_provider_orderedkafka.spark.connector.stream import Stream

    given = parse_options({"kafka.bootstrap.servers": servers, "subscribe": topic}, stream=False)
    stream = Stream(given)
    packed = [pickle.dumps((given, each)) for each in partitions_of(stream, *stream.whole())]
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        return sum(pool.imap(_task, packed))


def _task(packed: bytes) -> int:
    from airflow_provider_orderedkafka.spark.connector.batch_reader import read_partition

    given, partition = pickle.loads(packed)
    return sum(batch.num_rows for batch in read_partition(given, partition, None))


def alone(servers: str, topic: str, _: int) -> int:
    """Without Spark."""
    from airflow_provider_orderedkafka.reader import read

    with read(servers, topic) as batches:
        return sum(batch.num_rows for batch in batches)


READERS = {"one plain consumer": plain, "tasks of spark.read": tasks, "reader.read": alone}


def measure(kafka: ProxiedKafka, topic: str, data: Data, only: list[str]) -> None:
    """Print what each reader was sent, and its share of what the plain one was."""
    needed = 0
    for name, read in READERS.items():
        if only and name not in only and read is not plain:
            continue
        before, begun = kafka.proxy.answered, time.perf_counter()
        rows = read(kafka.proxied_servers, topic, data.records)
        seconds, sent = time.perf_counter() - begun, kafka.proxy.answered - before
        assert rows == data.records, f"{name} has {rows:,} rows of {data.records:,}"
        needed = needed or sent
        print(f"  {name:20} {sent / 1e6:9.1f} MB   x {sent / needed:4.2f}   {seconds:5.1f} s", flush=True)


def main() -> None:
    parser = options(__doc__, share=True)
    parser.add_argument("--only", choices=[data.name for data in SHAPES], action="append")
    parser.add_argument("--batch", choices=BATCHES, action="append")
    parser.add_argument("--reader", choices=READERS, action="append", default=[])
    arguments = parser.parse_args()
    for data in SHAPES:
        if arguments.only and data.name not in arguments.only:
            continue
        for batch in arguments.batch or BATCHES:
            with tempfile.TemporaryDirectory() as work, ProxiedKafka(Path(work) / "kafka") as kafka:
                part = data.scaled(arguments.share)
                print(f"{part.records:,} records, {data.name}, producer batches of {batch}", flush=True)
                topic = write(kafka.bootstrap_servers, f"orders-{os.getpid()}", part, batch=BATCHES[batch])
                measure(kafka, topic, part, arguments.reader)


if __name__ == "__main__":
    main()
