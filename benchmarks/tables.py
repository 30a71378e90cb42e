"""How fast JSON orders get into a table in time order: our application, and Spark's own connector with `foreachBatch`.

    python -m benchmarks.tables                  2 million x 300 B into Iceberg and Delta, medians of three runs
    python -m benchmarks.tables --records 200000 --runs 1 --only delta

The application decodes, plans, notes and counts; its rows say where they came from. The connector decodes with
`from_json` and appends each micro-batch, sorted by time or as it comes; a batch that is tried again is there twice. All
get batches of as many offsets, and take turns at being the first. After each run all decoded columns are compared with
what was produced, and the order within files and from file to file of a batch, before any time is printed; that of the
connector as it comes is none. Iceberg runs with Spark 4.1, as there is none for 4.2, in an environment of its own.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import psutil
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from airflow_provider_orderedkafka.core.codec import encode
from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput
from airflow_provider_orderedkafka.spark.app import run_available_now
from benchmarks.data import Data, key, write
from benchmarks.peers import TUNED, session
from benchmarks.processor import processor
from broker import LocalKafka

SCHEMA = "order long, customer string, sku string, amount double, note string"
ORDER = ("order_time", "topic", "partition", "offset")
SIZE, PARTITIONS, BATCHES = 300, 8, 4
ROOT = Path(__file__).parents[1]


class Lake(NamedTuple):
    """A table format: the pyspark and the package that go together, and what the session needs for it."""

    pyspark: str
    package: str
    settings: Mapping[str, str]


OF_DELTA = {
    "spark.databricks.delta.snapshotPartitions": "2",  # as the application has it
    "spark.databricks.delta.formatCheck.enabled": "false",  # the check looks into the files themselves
}
LAKES = {
    "delta": Lake("4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0", {**DeltaOutput.session, **OF_DELTA}),
    "iceberg": Lake(
        "4.1.3",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.cache-enabled": "false",  # the check reads what a query's session wrote
        },
    ),
}


def order(number: int) -> bytes:
    """An order of 300 B."""
    found = {"order": number, "customer": f"c-{number % 9_973}", "sku": f"{number * 7_919 % 100_003:06}"}
    found |= {"amount": number % 10_000 / 100, "note": ""}
    return json.dumps({**found, "note": "x" * (SIZE - len(json.dumps(found)))}).encode()


@dataclass(frozen=True)
class Place:
    """Where all read, where they write, and how many offsets a batch has."""

    spark: SparkSession
    folder: Path
    servers: str
    topic: str
    batch: int
    format: str

    def table(self, name: str) -> DeltaOutput | IcebergOutput:
        """A table in the format's simplest kind of catalog, without partitions."""
        if self.format == "delta":
            return DeltaOutput(str(self.folder / name), partition_by=())
        return IcebergOutput(f"lake.shop.{name}", partition_by=())

    def rows(self, name: str) -> DataFrame:
        """The table's rows, with `file` and `at`: the file that each is in, and its place there."""
        if self.format == "delta":
            files = self.spark.read.format("delta").load(str(self.folder / name)).inputFiles()
            return self.spark.read.parquet(*files).selectExpr(
                "*", "_metadata.file_path AS file", "_metadata.row_index AS at"
            )
        return self.spark.table(f"lake.shop.{name}").selectExpr("*", "_file AS file", "_pos AS at")

    def remove(self, name: str) -> None:
        """Give back the disk."""
        if self.format == "delta":
            shutil.rmtree(self.folder / name)
        else:
            self.spark.sql(f"DROP TABLE lake.shop.{name} PURGE")


def application(place: Place, name: str) -> None:
    """The packaged application, as it is run without Airflow."""
    options = {"kafka.bootstrap.servers": place.servers, "subscribe": place.topic, "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = str(place.batch)
    argv = [part for item in options.items() for part in ("--option", "=".join(item))]
    decode = json.dumps({"value": {"kind": "json", "schema": SCHEMA}})
    argv += ["--checkpoint", str(place.folder / f"checkpoint-{name}"), "--decode", decode]
    with contextlib.redirect_stdout(io.StringIO()):
        run_available_now(argv=[*argv, "--output", json.dumps(encode(place.table(name)))])


def connector(place: Place, name: str, *order: str, **more: str) -> None:
    """What one writes by hand; the number of the batch is for the check."""
    where = {"kafka.bootstrap.servers": place.servers, "subscribe": place.topic, "startingOffsets": "earliest"}
    options = {**where, **more}
    stream = place.spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=place.batch).load()
    rows = stream.withColumn("value", f.from_json(f.col("value").cast("string"), SCHEMA))
    rows = rows.withColumnRenamed("timestamp", "order_time")

    def append(batch: DataFrame, number: int) -> None:
        found = (batch.orderBy(*order) if order else batch).withColumn("batch", f.lit(number))
        if place.format == "delta":
            found.write.format("delta").mode("append").save(str(place.folder / name))
        elif place.spark.catalog.tableExists(f"lake.shop.{name}"):
            found.writeTo(f"lake.shop.{name}").append()
        else:
            found.writeTo(f"lake.shop.{name}").create()

    place_of_it = str(place.folder / f"checkpoint-{name}")
    query = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", place_of_it).foreachBatch(append)
    query.start().awaitTermination()


class Contender(NamedTuple):
    """Who writes, and the column with the number of the batch, where rows are in order by promise."""

    run: Callable[[Place, str], None]
    batch: str | None = None


AS_IT_COMES, SORTED = "connector, as it comes", "connector, sorted"
CONTENDERS = {
    AS_IT_COMES: Contender(connector),
    f"{AS_IT_COMES}, tuned": Contender(lambda place, name: connector(place, name, **TUNED)),
    SORTED: Contender(lambda place, name: connector(place, name, *ORDER), "batch"),
    f"{SORTED}, tuned": Contender(lambda place, name: connector(place, name, *ORDER, **TUNED), "batch"),
    "orderedkafka": Contender(application, "_orderedkafka.batch"),
}


class Cost(NamedTuple):
    """How long it took, and how much of the processor, broker and all."""

    seconds: float
    processor: float


class Total(NamedTuple):
    """How many rows there are, and the sum of the hashes of their keys and all their decoded columns."""

    rows: int
    hashes: Decimal


def check(rows: DataFrame, batch: str | None, produced: Total) -> str:
    """See that each order is there once, as it was produced, and in its place; gives the number of files."""
    found, different = total(rows), f.countDistinct("topic", "partition", "offset")
    assert found == produced, f"the table has {found}, and {produced} were produced"
    [[orders, places, files]] = rows.agg(f.countDistinct("value.order"), different, f.countDistinct("file")).collect()
    assert orders == places == found.rows, f"{orders} different orders from {places} places, of {found.rows}"
    if batch is not None:
        within, between = disorder(rows, batch)
        assert (within, between) == (0, 0), f"{within} rows and {between} files are out of order"
    return f"{files} files, {'in order' if batch else 'not in order'}"


def disorder(rows: DataFrame, batch: str) -> tuple[int, int]:
    """How many rows come before the one ahead of them in their file, and how many files of a batch overlap."""
    placed = rows.select(f.col(batch).alias("batch"), "file", "at", f.struct(*ORDER).alias("place"))
    ahead = f.lag("place").over(Window.partitionBy("file").orderBy("at"))
    within = placed.withColumn("ahead", ahead).where("ahead >= place")
    files = placed.groupBy("batch", "file").agg(f.min("place").alias("first"), f.max("place").alias("last"))
    ahead = f.lag("last").over(Window.partitionBy("batch").orderBy("first"))
    return within.count(), files.withColumn("ahead", ahead).where("ahead >= first").count()


def total(rows: DataFrame) -> Total:
    hashes = f.sum(f.xxhash64("key", "value").cast("decimal(38)"))
    [found] = rows.agg(f.count(f.lit(1)), hashes).collect()
    return Total(*found)


def produced(spark: SparkSession, records: int) -> Total:
    """What has to be there, by the functions that made the records."""
    return total(spark.range(records).mapInArrow(_made, f"key binary, value struct<{SCHEMA}>"))


def _made(batches: Iterator) -> Iterator:
    import pyarrow as pa

    for batch in batches:
        numbers = batch.column(0).to_pylist()
        values = pa.array([json.loads(order(number)) for number in numbers])
        yield pa.RecordBatch.from_pydict({"key": [key(number) for number in numbers], "value": values})


@contextlib.contextmanager
def opened(format_: str, servers: str, topic: str, batch: int) -> Iterator[Place]:
    """A session with a table format, and an empty folder."""
    lake = LAKES[format_]
    with tempfile.TemporaryDirectory() as folder:
        settings = {**lake.settings, "spark.jars.packages": lake.package, "spark.sql.shuffle.partitions": "2"}
        if format_ == "iceberg":
            settings["spark.sql.catalog.lake.warehouse"] = f"{folder}/warehouse"
        spark = session(Path(folder), lake.pyspark, settings)
        yield Place(spark, Path(folder), servers, topic, batch, format_)
        spark.stop()


def measure(format_: str, servers: str, topic: str, records: int, runs: int) -> None:
    """Let all take turns with one format, and check each; the first turn warms up."""
    batch = records // BATCHES + PARTITIONS  # the connector rounds each partition's share
    with opened(format_, servers, topic, batch) as place:
        expected = produced(place.spark, records)
        taken: dict[str, list[Cost]] = {name: [] for name in CONTENDERS}
        notes: dict[str, str] = {}
        for turn in range(runs + 1):
            for name in turned(turn):
                cost, notes[name] = timed(place, CONTENDERS[name], expected)
                taken[name].append(cost)
    lake = LAKES[format_]
    print(f"{format_}: {records:,} orders of {SIZE} B, {lake.package}, pyspark {lake.pyspark}, {runs} runs")
    report(taken, notes)


def turned(turn: int) -> list[str]:
    """The contenders, each of them the first in its turn."""
    names = list(CONTENDERS)
    first = turn % len(names)
    return names[first:] + names[:first]


def timed(place: Place, contender: Contender, expected: Total) -> tuple[Cost, str]:
    """What one costs, and what is to be said of its table."""
    name = f"orders_{uuid4().hex}"
    everybody = psutil.Process().parent()  # whoever started the broker, and this process
    os.sync()  # what others have left to be written is not this one's
    begun, worked = time.perf_counter(), processor(everybody)
    contender.run(place, name)
    cost = Cost(time.perf_counter() - begun, processor(everybody) - worked)
    note = check(place.rows(name), contender.batch, expected)
    place.remove(name)
    return cost, note


def report(taken: dict[str, list[Cost]], notes: dict[str, str]) -> None:
    medians = {name: Cost(*map(statistics.median, zip(*costs[1:], strict=True))) for name, costs in taken.items()}
    for name, (_, *costs) in taken.items():
        spread = f"{min(costs).seconds:.1f} to {max(costs).seconds:.1f}"
        seconds, worked = medians[name]
        shares = ", ".join(
            f"{seconds / medians[peer].seconds:.2f} of {peer!r} (processor {worked / medians[peer].processor:.2f})"
            for peer in (f"{SORTED}, tuned", f"{AS_IT_COMES}, tuned")
        )
        print(f"  {name:29} {seconds:6.1f} s ({spread}), processor {worked:6.1f} s; {shares}; {notes[name]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=LAKES, action="append")
    parser.add_argument("--at", nargs=2, metavar=("SERVERS", "TOPIC"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if arguments.at:
        measure(arguments.only[0], *arguments.at, arguments.records, arguments.runs)
        return
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as broker:
        servers = broker.bootstrap_servers
        topic = write(servers, "orders", Data("orders", arguments.records, SIZE, [1] * PARTITIONS), order)
        for name in arguments.only or LAKES:
            flags = ["--records", str(arguments.records), "--runs", str(arguments.runs), "--only", name]
            command = [python_with(LAKES[name].pyspark), "-m", "benchmarks.tables", *flags, "--at", servers, topic]
            subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


def python_with(pyspark: str) -> str:
    """A Python with this pyspark: this one, or that of an environment which is built the first time."""
    from importlib.metadata import version

    if version("pyspark") == pyspark:
        return sys.executable
    sys.path.insert(0, str(ROOT / "tests"))
    from support.another_spark import environment

    needed = (f"pyspark=={pyspark}", "confluent-kafka", "pyarrow", "numpy", "pandas<3", "psutil")
    return str(environment(needed) / "bin" / "python")


if __name__ == "__main__":
    main()
