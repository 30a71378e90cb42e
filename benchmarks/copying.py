"""How fast a topic is copied in the order of its keys: our application's direct lane, and Spark's own connector.

    python -m benchmarks.copying                 2 million x 1 kB, medians of five alternating runs
    python -m benchmarks.copying --runs 1 --share 0.1

The application keeps timestamps and writes provenance, a checkpoint, notes and a report; all of that is in its time.
The connector reads, by its defaults and tuned, repartitions by key, sorts and writes, without timestamps. Order and
completeness of each output are checked before any time is printed.
"""

import contextlib
import io
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_orderedkafka.spark.app import run_available_now
from benchmarks.peers import options, session
from benchmarks.writing import CONNECTORS, RECORDS, Contender, compared, fill, report
from broker import LocalKafka

TARGET = 0.5
"""At most this share of the connector's time."""


def application(
    checkpoints: Path, *argv: str, lane: str = "direct lane", **how: Any
) -> Callable[[SparkSession, str, str, str], None]:
    """The packaged application, as it is run without Airflow."""

    def write(_: SparkSession, servers: str, source: str, output: str) -> None:
        options = {"kafka.bootstrap.servers": servers, "subscribe": source, "startingOffsets": "earliest"}
        given = [part for item in options.items() for part in ("--option", "=".join(item))]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            place = ["--checkpoint", str(checkpoints / output), "--output-topic", output]
            run_available_now(argv=[*place, *given, *argv], **how)
        assert f"by the {lane}" in said.getvalue(), said.getvalue()

    return write


def main() -> None:
    arguments = options(__doc__, share=True).parse_args()
    records = int(RECORDS * arguments.share)
    with tempfile.TemporaryDirectory() as directory, LocalKafka(Path(directory) / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        source = f"source-{uuid.uuid4().hex}"
        fill(servers, source, records)
        spark = session(Path(directory))
        contenders = [
            *CONNECTORS,
            Contender("orderedkafka, direct lane", application(Path(directory)), keeps_timestamps=True),
        ]
        found = compared(spark, servers, source, records, contenders, runs=arguments.runs)
        spark.stop()
    report(found, lambda share: f"{share:4.2f} of the connector's time (target {TARGET})")


if __name__ == "__main__":
    main()
