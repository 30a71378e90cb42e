"""How fast a topic is copied in the order of its keys: our application's direct lane, and Spark's own connector.

    python -m benchmarks.copying                 2 million x 1 kB, medians of five alternating runs
    python -m benchmarks.copying --runs 1 --share 0.1

The application keeps timestamps and writes provenance, a checkpoint, notes and a report; all of that is in its time.
The connector reads, repartitions by key, sorts and writes, without timestamps. Order and completeness of each output
are checked before any time is printed.
"""

import argparse
import contextlib
import io
import os
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_orderedkafka.spark.app import run_available_now
from airflow_provider_orderedkafka.tools.embedded import EmbeddedKafka
from benchmarks.peers import CONNECTOR, session
from benchmarks.writing import PARTITIONS, RECORDS, SIZE, Contender, check, connector, drop, fill, run

TARGET = 0.5
"""At most this share of the connector's time."""


def application(checkpoints: Path) -> Callable[[SparkSession, str, str, str], None]:
    """The packaged application, as it is run without Airflow."""

    def write(_: SparkSession, servers: str, source: str, output: str) -> None:
        options = {"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"}
        argv = [part for item in options.items() for part in ("--option", "=".join(item))]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            run_available_now(argv=["--checkpoint", str(checkpoints / output), "--output-topic", output, *argv])
        assert "by the direct lane" in said.getvalue(), said.getvalue()

    return write


@dataclass(frozen=True)
class Taken:
    """One run: seconds on the clock, and of the processor."""

    wall: float
    processor: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of the records")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    records = int(RECORDS * arguments.share)
    with tempfile.TemporaryDirectory() as directory, EmbeddedKafka(Path(directory) / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        source = f"source-{uuid.uuid4().hex}"
        fill(servers, source, records)
        spark = session(Path(directory))
        contenders = [
            Contender("connector, repartition(key) + sort", connector, keeps_timestamps=False),
            Contender("orderedkafka, direct lane", application(Path(directory)), keeps_timestamps=True),
        ]
        print(f"{records:,} x {SIZE:,} B, {PARTITIONS} partitions to {PARTITIONS}; {CONNECTOR}")
        for each in contenders:  # the first run of each warms up, and is the one that is checked
            output = run(spark, servers, source, each)[2]
            check(servers, output, records, timestamps=each.keeps_timestamps)
            drop(servers, output)
        found: dict[str, list[Taken]] = {each.name: [] for each in contenders}
        for _ in range(arguments.runs):
            for each in contenders:
                wall, processor, output = run(spark, servers, source, each)
                found[each.name].append(Taken(wall, processor))
                drop(servers, output)
        spark.stop()
    report(found)


def report(found: dict[str, list[Taken]]) -> None:
    baseline, *_ = (statistics.median(each.wall for each in taken) for taken in found.values())
    for name, taken in found.items():
        walls = [each.wall for each in taken]
        wall, processor = statistics.median(walls), statistics.median(each.processor for each in taken)
        print(
            f"{name:36} {wall:6.1f} s ({min(walls):.1f} to {max(walls):.1f}), processor {processor:6.1f} s, "
            f"{wall / baseline:4.2f} of the connector's time (target {TARGET}); complete and in order"
        )


if __name__ == "__main__":
    main()
