"""What a load costs beside its records: from start to the first row, over an empty Spark session; and tiny batches.

    python -m benchmarks.starting                medians of five alternating runs

Every run is a process of its own, started with spark-submit, as Airflow does. The empty one starts a session and says
so; the bare query is an available-now query over a Python source of one row, that says so when it has it: what Spark
itself needs for that. The others copy a few records in 20 batches; their first row is the first that a consumer of the
output gets, and a batch takes as long as lies between what is told of it and of the one before it. The output is
counted at the end. SPARK_SUBMIT_OPTS=-XX:SharedArchiveFile=... lets all of them start from an archive of classes.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks import writing
from benchmarks.peers import options
from benchmarks.processor import processor
from broker import LocalKafka

ROOT = Path(__file__).parents[1]
BATCHES, BATCH = 20, 50
TOLD = re.compile(r"batch \d+ of [^:]*\d:")
"""What is told of a batch that ended; of one that takes long it is told that it runs."""

AIMS, BATCH_AIM = {"direct lane": 4.0, "DataFrame lane": 6.0}, 0.4
EMPTY = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\nprint('ready', flush=True)\n"
QUERY = """
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class Stream(DataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}

    def latestOffset(self):
        return {"at": 1}

    def partitions(self, start, end):
        return [InputPartition(0)]

    def read(self, partition):
        yield (1,)


class Bare(DataSource):
    @classmethod
    def name(cls):
        return "bare"

    def schema(self):
        return "value int"

    def streamReader(self, schema):
        return Stream()


def report(frame, number):
    if frame.mapInArrow(lambda batches: batches, "value int").collect():
        print("ready", flush=True)


spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(Bare)
query = spark.readStream.format("bare").load().writeStream.foreachBatch(report)
query.trigger(availableNow=True).option("checkpointLocation", "bare").start().awaitTermination()
"""
EMPTY_SESSION = "an empty Spark session"
BARE = {EMPTY_SESSION: EMPTY, "a bare query": QUERY}
LANES: dict[str, Sequence[str]] = {
    "direct lane": (),
    "DataFrame lane": ("--transform", "benchmarks.transforms:unchanged"),
}


@dataclass(frozen=True)
class Taken:
    """Seconds to the first row, and for each batch; and of the processor for the whole run, broker and all."""

    first: float
    processor: float
    batches: list[float] = field(default_factory=list)


def submit(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.driver.host": "127.0.0.1", "spark.local.dir": str(folder)}
    options = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]", *options, *arguments]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with (folder / "errors").open("w") as errors:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=folder)


def ready(folder: Path, program: str, *options: str) -> Taken:
    """How long it takes until a program says that it is ready."""
    home = folder / uuid.uuid4().hex
    home.mkdir()
    (home / "program.py").write_text(program)
    begun, before = time.perf_counter(), processor()
    process = submit(home, *options, str(home / "program.py"))
    assert process.stdout is not None
    taken = next(time.perf_counter() - begun for line in process.stdout if line.startswith("ready"))
    process.stdout.read()
    assert process.wait(60) == 0
    return Taken(taken, processor() - before)


def load(folder: Path, servers: str, lane: str) -> Taken:
    output = writing.make(servers, f"output-{uuid.uuid4().hex}")
    options = {"kafka.bootstrap.servers": servers, "subscribe": "source", "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = str(BATCH)
    argv = [part for item in options.items() for part in ("--option", "=".join(item))]
    argv += ["--checkpoint", str(folder / output), "--output-topic", output, *LANES[lane]]
    first: list[tuple[Any, float]] = []
    consumer = Consumer({"bootstrap.servers": servers, "group.id": output, "fetch.wait.max.ms": 20})
    consumer.assign([TopicPartition(output, p, OFFSET_BEGINNING) for p in range(writing.PARTITIONS)])
    begun, before = time.perf_counter(), processor()
    waiter = Thread(target=lambda: first.append((consumer.poll(300), time.perf_counter() - begun)))
    waiter.start()
    process = submit(folder, str(ROOT / "spark_apps" / "ordered_replay.py"), *argv)
    assert process.stdout is not None
    seen = [time.perf_counter() for line in process.stdout if TOLD.match(line)]
    assert process.wait(60) == 0, (folder / "errors").read_text()
    spent = processor() - before
    waiter.join()
    rest = consumer.consume(2 * BATCHES * BATCH, 2)
    consumer.close()
    record, seconds = first[0]
    assert record is not None, "no row came"
    assert len(rest) + 1 == BATCHES * BATCH, f"{len(rest) + 1} rows were written"
    assert len(seen) == BATCHES, f"{len(seen)} batches were told"
    return Taken(seconds, spent, [later - earlier for earlier, later in pairwise(seen)])


def main() -> None:
    arguments = options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as kafka:
        writing.fill(kafka.bootstrap_servers, "source", BATCHES * BATCH)
        bare: dict[str, list[Taken]] = {name: [] for name in BARE}
        loads: dict[str, list[Taken]] = {lane: [] for lane in LANES}
        for _ in range(arguments.runs):
            for name, program in BARE.items():
                bare[name].append(ready(Path(work), program))
            for lane in LANES:
                loads[lane].append(load(Path(work), kafka.bootstrap_servers, lane))
    report(bare, loads)


def report(bare: dict[str, list[Taken]], loads: dict[str, list[Taken]]) -> None:
    own = statistics.median(each.first for each in bare[EMPTY_SESSION])
    for name, taken in bare.items():
        print(f"  {name:24} {_spread(taken)}, {_over(taken, own)}")
    for lane, taken in loads.items():
        batches = [seconds for each in taken for seconds in each.batches]
        middle, most = statistics.median(batches), max(batches)
        print(
            f"  {lane + ', first row':24} {_spread(taken)}, {_over(taken, own)} (aim {AIMS[lane]:.0f}); "
            f"a tiny batch takes {middle:.2f} s, at most {most:.2f} s (aim {BATCH_AIM})"
        )


def _over(taken: Sequence[Taken], own: float) -> str:
    spent = statistics.median(each.processor for each in taken)
    over = statistics.median(each.first for each in taken) - own
    return f"{over:+.2f} s over an empty session, {spent:.1f} s of the processor"


def _spread(taken: Sequence[Taken]) -> str:
    seconds = [each.first for each in taken]
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


if __name__ == "__main__":
    main()
