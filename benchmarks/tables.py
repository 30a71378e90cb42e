"""How fast JSON orders get into a table in time order: our application, and Spark's own connector with `foreachBatch`.

    python -m benchmarks.tables                  2 million x 300 B into Iceberg and Delta, medians of three runs
    python -m benchmarks.tables --records 100000 --runs 1 --only delta

The application decodes, plans, notes and counts; its rows say where they came from. The connector decodes with
`from_json`, sorts each micro-batch by time and appends it; a batch that is tried again is there twice. Both get batches
of as many offsets. That each order is there once, and that files are in order, is checked before any time is printed.
Iceberg runs with Spark 4.1, as there is none for 4.2, in an environment of its own.
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_provider_orderedkafka.outputs import DeltaOutput, IcebergOutput, to_text
from airflow_provider_orderedkafka.spark.app import run_available_now
from airflow_provider_orderedkafka.tools.embedded import EmbeddedKafka
from benchmarks.data import Data, write
from benchmarks.peers import session

SCHEMA = "order long, customer string, sku string, amount double, note string"
SIZE = 300
ROOT = Path(__file__).parents[1]


class Lake(NamedTuple):
    """A table format: the pyspark and the package that go together, and what the session needs for it."""

    pyspark: str
    package: str
    settings: Mapping[str, str]


LAKES = {
    "delta": Lake(
        "4.2.0",
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        {**DeltaOutput.session, "spark.databricks.delta.snapshotPartitions": "2"},
    ),
    "iceberg": Lake(
        "4.1.3",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
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
    """Where both read, where they write, and how many offsets a batch has."""

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

    def read(self, name: str) -> DataFrame:
        """The table's rows."""
        if self.format == "delta":
            return self.spark.read.format("delta").load(str(self.folder / name))
        return self.spark.table(f"lake.shop.{name}")


def application(place: Place, name: str) -> None:
    """The packaged application, as it is run without Airflow."""
    options = {"kafka.bootstrap.servers": place.servers, "subscribe": place.topic, "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = str(place.batch)
    argv = [part for item in options.items() for part in ("--option", "=".join(item))]
    decode = json.dumps({"value": {"format": "json", "schema": SCHEMA}})
    argv += ["--checkpoint", str(place.folder / f"checkpoint-{name}"), "--decode", decode]
    with contextlib.redirect_stdout(io.StringIO()):
        run_available_now(argv=[*argv, "--output", to_text(place.table(name))])


def connector(place: Place, name: str) -> None:
    """What one writes by hand."""
    options = {"kafka.bootstrap.servers": place.servers, "subscribe": place.topic, "startingOffsets": "earliest"}
    stream = place.spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=place.batch).load()
    rows = stream.withColumn("value", f.from_json(f.col("value").cast("string"), SCHEMA))
    rows = rows.withColumnRenamed("timestamp", "order_time")

    def append(batch: DataFrame, _number: int) -> None:
        found = batch.orderBy("order_time", "topic", "partition", "offset")
        if place.format == "delta":
            found.write.format("delta").mode("append").save(str(place.folder / name))
        elif place.spark.catalog.tableExists(f"lake.shop.{name}"):
            found.writeTo(f"lake.shop.{name}").append()
        else:
            found.writeTo(f"lake.shop.{name}").create()

    place_of_it = str(place.folder / f"checkpoint-{name}")
    query = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", place_of_it).foreachBatch(append)
    query.start().awaitTermination()


CONTENDERS: dict[str, Callable[[Place, str], None]] = {"connector": connector, "orderedkafka": application}


def check(place: Place, name: str, records: int) -> str:
    """See that each order is there once, and how many files there are; in each, the rows are in their order."""
    rows = place.read(name).withColumns({"file": f.input_file_name(), "at": f.monotonically_increasing_id()})
    once = f.countDistinct("topic", "partition", "offset")
    [found] = rows.agg(
        f.count(f.lit(1)),
        once,
        f.sum("value.order"),
        f.countDistinct("file"),
    ).collect()
    assert found[:3] == (records, records, records * (records - 1) // 2), f"{name} is wrong: {found}"
    before = f.lag("order_time").over(_by_file())
    falls = rows.withColumn("before", before).where("before > order_time").count()
    assert not falls, f"{name}: {falls} rows are out of order in their files"
    return f"{found[3]} files"


def _by_file():
    from pyspark.sql import Window

    return Window.partitionBy("file").orderBy("at")


def measure(format_: str, servers: str, topic: str, records: int, runs: int) -> None:
    """Let both take turns with one format; the first turn warms up, and is checked."""
    lake = LAKES[format_]
    with tempfile.TemporaryDirectory() as folder:
        settings = {**lake.settings, "spark.jars.packages": lake.package}
        if format_ == "iceberg":
            settings["spark.sql.catalog.lake.warehouse"] = f"{folder}/warehouse"
        spark = session(Path(folder), lake.pyspark, settings)
        place = Place(spark, Path(folder), servers, topic, max(records // 4, 1), format_)
        taken: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        notes: dict[str, str] = {}
        for turn in range(runs + 1):
            for name, run in CONTENDERS.items():
                begun = time.perf_counter()
                run(place, f"{name}_{turn}")
                taken[name].append(time.perf_counter() - begun)
                notes.setdefault(name, check(place, f"{name}_{turn}", records))
        spark.stop()
    baseline = statistics.median(taken["connector"][1:])
    print(f"{format_}: {records:,} orders of {SIZE} B, {lake.package}, pyspark {lake.pyspark}, {runs} runs")
    for name, (_, *seconds) in taken.items():
        median, spread = statistics.median(seconds), f"{min(seconds):.1f} to {max(seconds):.1f}"
        print(f"  {name:14} {median:6.1f} s ({spread}), {median / baseline:4.2f} of the connector's; {notes[name]}")


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
    with tempfile.TemporaryDirectory() as work, EmbeddedKafka(Path(work) / "kafka") as broker:
        servers = broker.bootstrap_servers
        topic = write(servers, "orders", Data("orders", arguments.records, SIZE, [1] * 8), order)
        for name in arguments.only or LAKES:
            told = ["--records", str(arguments.records), "--runs", str(arguments.runs), "--only", name]
            command = [_python(LAKES[name].pyspark), "-m", "benchmarks.tables", *told, "--at", servers, topic]
            subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


def _python(pyspark: str) -> str:
    """A Python with this pyspark: this one, or that of an environment which is built the first time."""
    from importlib.metadata import version

    if version("pyspark") == pyspark:
        return sys.executable
    sys.path.insert(0, str(ROOT / "tests"))
    from support.another_spark import environment

    needed = (f"pyspark=={pyspark}", "confluent-kafka", "pyarrow", "numpy", "pandas<3")
    return str(environment(needed) / "bin" / "python")


if __name__ == "__main__":
    main()
