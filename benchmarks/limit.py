"""What the first rows of a topic cost: our row limit, and the `limit()` of Spark's streams on its own connector.

    python -m benchmarks.limit                   a million of 5 million rows, medians of three alternating runs
    python -m benchmarks.limit --runs 1 --share 0.05

Both copy into a topic, in batches of 500,000 offsets. Ours must be the first rows in order, each once: that is checked
before any time is printed. What Spark's limit takes are any rows of each batch: how many of them are among the first
ones is printed. Shuffles are the stages that wrote shuffle files, as Spark's status store has them.
"""

import contextlib
import io
import statistics
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import SparkSession

from airflow_provider_orderedkafka.spark.app import run_available_now
from benchmarks import writing
from benchmarks.peers import CONNECTOR, options, session
from benchmarks.processor import processor
from broker import LocalKafka

RECORDS, SIZE = 5_000_000, 100
SHARE_OF_LIMIT, BATCHES = 0.2, 10


@dataclass(frozen=True)
class Task:
    """So many rows of a topic, read in batches of so many offsets."""

    servers: str
    source: str
    records: int
    limit: int
    batch: int


@dataclass(frozen=True)
class Taken:
    seconds: float
    processor: float
    rows_read: int
    shuffles: int
    output: str


def ours(_: SparkSession, task: Task, folder: Path) -> int:
    options = {"subscribe": task.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(task.batch)}
    options["kafka.bootstrap.servers"] = task.servers
    argv = [part for item in options.items() for part in ("--option", "=".join(item))]
    argv += ["--checkpoint", str(folder / "checkpoint"), "--output-topic", folder.name, "--row-limit", str(task.limit)]
    with contextlib.redirect_stdout(io.StringIO()):
        found = run_available_now(argv=argv)
    assert found is not None
    return found.rows_read


def connector(spark: SparkSession, task: Task, folder: Path) -> int:
    options = {"subscribe": task.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(task.batch)}
    options["kafka.bootstrap.servers"] = task.servers
    rows = spark.readStream.format("kafka").options(**options).load().limit(task.limit).select("key", "value")
    writer = rows.writeStream.format("kafka").option("topic", folder.name)
    writer.option("kafka.bootstrap.servers", task.servers).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(each.numInputRows for each in query.recentProgress)


CONTENDERS = {"connector, limit()": connector, "orderedkafka, --row-limit": ours}


def shuffles(spark: SparkSession) -> int:
    """How many stages have written shuffle files until now."""
    gateway = spark.sparkContext._gateway
    store, nothing = spark._jsc.sc().statusStore(), gateway.jvm.java.util.ArrayList()
    stages = store.stageList(None, False, False, gateway.new_array(gateway.jvm.double, 0), nothing)  # noqa: FBT003 - Spark's own signature
    return sum(stages.apply(number).shuffleWriteRecords() > 0 for number in range(stages.size()))


def run(name: str, spark: SparkSession, task: Task, directory: Path) -> Taken:
    folder = directory / f"output-{uuid.uuid4().hex}"
    writing.make(task.servers, folder.name)
    before, spent, begun = shuffles(spark), processor(), time.perf_counter()
    read = CONTENDERS[name](spark, task, folder)
    seconds, spent = time.perf_counter() - begun, processor() - spent
    return Taken(seconds, spent, read, shuffles(spark) - before, folder.name)


def numbers(task: Task, topic: str) -> np.ndarray:
    """The numbers of the records in a topic, sorted."""
    consumer = Consumer({"bootstrap.servers": task.servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(writing.PARTITIONS)])
    found = []
    while messages := consumer.consume(10_000, 3):
        found += [int.from_bytes(message.value()[:8], "big") for message in messages]
    consumer.close()
    return np.sort(np.array(found, np.int64))


def first_rows(task: Task) -> np.ndarray:
    """The numbers of the first rows in order: by time, then partition, then offset."""
    consumer = Consumer({"bootstrap.servers": task.servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    consumer.assign([TopicPartition(task.source, p, OFFSET_BEGINNING) for p in range(writing.PARTITIONS)])
    rows = np.zeros((task.records, 4), np.int64)
    for place in range(task.records):
        message = consumer.poll(30)
        assert message is not None
        number = int.from_bytes(message.value()[:8], "big")
        rows[place] = message.timestamp()[1], message.partition(), message.offset(), number
    consumer.close()
    order = np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))
    return np.sort(rows[order, 3][: task.limit])


def main() -> None:
    arguments = options(__doc__, 3, share=True).parse_args()
    records = int(RECORDS * arguments.share)
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as kafka:
        task = Task(kafka.bootstrap_servers, "source", records, int(records * SHARE_OF_LIMIT), records // BATCHES)
        writing.fill(task.servers, task.source, records, SIZE)
        spark = session(Path(work))
        print(f"the first {task.limit:,} of {records:,} rows of {SIZE} B, in {BATCHES} batches; {CONNECTOR}")
        first, notes = first_rows(task), {}
        for name in CONTENDERS:  # the first run of each warms up, and is the one that is checked
            found = numbers(task, run(name, spark, task, Path(work)).output)
            notes[name] = f"{len(found):,} rows written, {len(np.intersect1d(found, first)):,} of the first ones"
            assert name == "connector, limit()" or np.array_equal(found, first), f"{name} is wrong: {notes[name]}"
        taken: dict[str, list[Taken]] = {name: [] for name in CONTENDERS}
        for _ in range(arguments.runs):
            for name in CONTENDERS:
                taken[name].append(run(name, spark, task, Path(work)))
        spark.stop()
    for name, runs in taken.items():
        report(name, runs, notes[name])


def report(name: str, runs: list[Taken], note: str) -> None:
    seconds = [each.seconds for each in runs]
    read = max(each.rows_read for each in runs)
    print(
        f"{name:28} {statistics.median(seconds):6.1f} s ({min(seconds):.1f} to {max(seconds):.1f}), "
        f"{statistics.median(each.processor for each in runs):.1f} s of the processor, {read:,} rows read "
        f"({read * SIZE / 1e6:,.0f} MB of values), {max(each.shuffles for each in runs)} shuffles; {note}"
    )


if __name__ == "__main__":
    main()
