"""The peers that are measured against: Spark's own Kafka connector, and the session that everything runs in."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_orderedkafka.tools.doctor.installed import find_java
from broker.fetching import cache_directory, run_ivy

CONNECTOR = "Spark's connector 4.2.0 (with spark-token-provider-kafka 4.0.0, where the registry lacks 4.2.0)"
SPARK = "4.2.0"
TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.fetch.max.bytes": "104857600",
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.receive.buffer.bytes": "1048576",
}
"""Options of the connector by which its consumers ask for more at once."""


def connector_jars(spark: str = SPARK) -> list[Path]:
    """The connector's jars, fetched once, each alone: what it shares with Spark is there already."""
    directory = cache_directory() / f"benchmark-connector-{spark}"
    modules = (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", spark),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.13.1"),
    )
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=cache_directory()) as work:
            for module in modules:
                _fetch(module, Path(work))
            shutil.copytree(Path(work) / "jars", directory)
    return sorted(directory.glob("*.jar"))


def _fetch(module: tuple[str, str, str], work: Path) -> None:
    dependency = (
        f'<dependency org="{module[0]}" name="{module[1]}" rev="{module[2]}" conf="default" transitive="false"/>'
    )
    text = (
        '<ivy-module version="2.0"><info organisation="orderedkafka" module="benchmark"/>'
        f"<dependencies>{dependency}</dependencies></ivy-module>"
    )
    run_ivy(find_java(), text, work)


def session(directory: Path, spark: str = SPARK, more: Mapping[str, str] | None = None) -> SparkSession:
    """One Spark for all contenders: two threads, room enough that nobody is short of memory."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.jars": ",".join(map(str, connector_jars(spark))),
        "spark.local.dir": str(directory / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(more or {}),
    }
    builder = SparkSession.builder.master("local[2]").appName("orderedkafka-benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def options(doc: str | None, runs: int = 5, *, share: bool = False) -> argparse.ArgumentParser:
    """The command line of a benchmark."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=runs)
    if share:
        parser.add_argument("--share", type=float, default=1.0, help="of the records")
    return parser
