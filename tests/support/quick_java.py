"""Java virtual machines that start with less work: the tests start many, and none lives long.

Two things help: flags, and Spark's classes as they lie in memory once they are loaded. Those are made once for a
checkout, in `.cache`, and more than halve what a start of Spark costs.
"""

import fcntl
from functools import cache
from pathlib import Path

import pyspark

from airflow_provider_orderedkafka import quick_start
from airflow_provider_orderedkafka.embedded.java import installed_java

HOME = Path(__file__).parents[2] / ".cache" / "tests"
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""They compile less, at the price of a speed that short runs do not reach."""


@cache
def environment() -> dict[str, str]:
    """What makes each spark-submit start in this way."""
    options = " ".join([*FLAGS, quick_start.started_from(_classes())])
    return {"SPARK_LAUNCHER_OPTS": " ".join(FLAGS), quick_start.OPTIONS: options}


def _classes() -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    archive = HOME / f"spark-{pyspark.__version__}-java-{installed_java().version}.jsa"
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            quick_start.make(archive, FLAGS)
    return archive
