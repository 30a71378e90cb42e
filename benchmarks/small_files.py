"""What a load's small commits leave of a table, and what the maintenance that docs/tables.md has takes off again.

    python -m benchmarks.small_files          144 commits of 1,000 orders: half a day of a load every five minutes
    python -m benchmarks.small_files --commits 48 --only delta

For Iceberg and Delta, with the same application, versions and orders as in `benchmarks.tables`. Each reading counts all
rows, before its time is printed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame

from benchmarks.data import Data, write
from benchmarks.tables import LAKES, PARTITIONS, ROOT, SIZE, Place, application, opened, order, python_with
from broker import LocalKafka

RECORDS, NAME = 1_000, "orders"
"""How many orders a commit has, and the table."""

SOME = 24
"""Over so many commits is measured what one takes."""

FUTURE = "TIMESTAMP '2100-01-01 00:00:00'"
MAINTENANCE = {
    "iceberg": (
        "CALL lake.system.rewrite_data_files(table => 'shop.orders')",
        f"CALL lake.system.expire_snapshots(table => 'shop.orders', older_than => {FUTURE})",
    ),
    "delta": (
        "OPTIMIZE delta.`{path}`",
        "SET spark.databricks.delta.retentionDurationCheck.enabled = false",
        "VACUUM delta.`{path}` RETAIN 0 HOURS",
    ),
}


class Left(NamedTuple):
    """What a table has on disk."""

    data: int
    others: int
    megabytes: float
    largest: float

    def __str__(self) -> str:
        return (
            f"{self.data} files of rows, {self.others} of metadata with {self.megabytes:.1f} MB, the largest with "
            f"{self.largest:.2f} MB"
        )


def left(folder: Path) -> Left:
    """What there is in a table's folder; `.crc` files are Hadoop's."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")]
    rows = [path for path in files if path.suffix == ".parquet" and "_delta_log" not in path.parts]
    others = [path.stat().st_size / 1e6 for path in set(files) - set(rows)]
    return Left(len(rows), len(others), sum(others), max(others))


def commits(folder: Path) -> list[float]:
    """When the table's commits were made."""
    found = [*folder.glob("_delta_log/*.json"), *folder.glob("metadata/v*.metadata.json")]
    return sorted(path.stat().st_mtime for path in found)


def report(place: Place, records: int) -> Iterator[str]:
    """Load the orders, and say what that left, before the maintenance and after it."""
    folder = place.folder / ("warehouse/shop/orders" if place.format == "iceberg" else NAME)
    application(place, NAME)
    gaps = [after - before for before, after in pairwise(commits(folder))]
    first, last = statistics.median(gaps[:SOME]), statistics.median(gaps[-SOME:])
    yield f"{len(gaps)} commits: {first:.2f} s each of the first {SOME}, {last:.2f} s each of the last"
    yield f"before maintenance: {left(folder)}; read in {read(place, records):.2f} s"
    begun = time.perf_counter()
    for statement in MAINTENANCE[place.format]:
        place.spark.sql(statement.format(path=folder)).collect()
    taken = time.perf_counter() - begun
    yield f"after {taken:.1f} s of maintenance: {left(folder)}; read in {read(place, records):.2f} s"


def read(place: Place, records: int) -> float:
    """The median time in which all rows are read."""
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        [[found]] = rows(place).selectExpr("count(value.note)").collect()
        taken.append(time.perf_counter() - begun)
        assert found == records, f"{found} rows of {records}"
    return statistics.median(taken)


def rows(place: Place) -> DataFrame:
    """The table, as its format reads it."""
    if place.format == "iceberg":
        return place.spark.table(f"lake.shop.{NAME}")
    return place.spark.read.format("delta").load(str(place.folder / NAME))


def measure(name: str, servers: str, topic: str, count: int) -> None:
    lake = LAKES[name]
    print(f"{name}: {RECORDS:,} orders of {SIZE} B a commit, {lake.package}, pyspark {lake.pyspark}")
    with opened(name, servers, topic, RECORDS) as place:
        for line in report(place, count * RECORDS):
            print(f"  {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=144)
    parser.add_argument("--only", choices=LAKES, action="append")
    parser.add_argument("--at", nargs=2, metavar=("SERVERS", "TOPIC"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if arguments.at:
        measure(arguments.only[0], *arguments.at, arguments.commits)
        return
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as broker:
        servers = broker.bootstrap_servers
        data = Data(NAME, arguments.commits * RECORDS, SIZE, [1] * PARTITIONS)
        topic = write(servers, NAME, data, order)
        for name in arguments.only or LAKES:
            flags = ["--commits", str(arguments.commits), "--only", name, "--at", servers, topic]
            command = [python_with(LAKES[name].pyspark), "-m", "benchmarks.small_files", *flags]
            subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


if __name__ == "__main__":
    main()
