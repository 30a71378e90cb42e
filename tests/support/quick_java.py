"""Java virtual machines that start with less work: the tests start many, and none lives long.

Two things help: flags, and Spark's classes as they lie in memory once they are loaded. Those are made once for a
checkout, in `.cache`, and more than halve what a start of Spark costs.
"""

import fcntl
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pyspark

from airflow_provider_orderedkafka.embedded.java import installed_java

HOME = Path(__file__).parents[2] / ".cache" / "tests"
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""They compile less, at the price of a speed that short runs do not reach."""

WARM_UP = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.parallelize(range(2), 2).map(abs).collect()
rows = spark.range(9).where("id > 1").mapInArrow(lambda batches: batches, "id long").coalesce(1)
rows.selectExpr("id", "cast(id as string) as text").collect()
"""


@cache
def environment() -> dict[str, str]:
    """What makes each spark-submit start in this way."""
    return {"SPARK_LAUNCHER_OPTS": FLAGS, "SPARK_SUBMIT_OPTS": f"{FLAGS} -XX:SharedArchiveFile={_classes()}"}


def _classes() -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    archive = HOME / f"spark-{pyspark.__version__}-java-{installed_java().version}.jsa"
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    return archive


def _make(archive: Path) -> None:
    made, program = archive.with_suffix(".new"), archive.with_suffix(".py")
    program.write_text(WARM_UP)
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.bindAddress": "127.0.0.1"}
    options = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    subprocess.run(
        [Path(sys.executable).parent / "spark-submit", "--master", "local[2]", *options, program],
        cwd=HOME,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LAUNCHER_OPTS": FLAGS,
            "SPARK_SUBMIT_OPTS": f"{FLAGS} -XX:ArchiveClassesAtExit={made}",
        },
        check=True,
        capture_output=True,
        timeout=300,
    )
    made.replace(archive)
