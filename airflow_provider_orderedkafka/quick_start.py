"""A Spark that starts from its classes as they lie in memory once they are loaded.

    make()                 run a small Spark program; as it ends, Java writes down the classes that it had loaded
    environment()          what makes spark-submit start from them; empty where nothing was made

Loading and checking thousands of classes from Spark's jars is what a start of Spark mostly takes. Java itself sees
whether the archive fits its own version and Spark's jars; where it does not, it starts as if there was none.

What is next is that Python compiles hundreds of modules at each start, where nobody has written down what came of it:
pip does as it installs, uv does not, and images often forbid it (PYTHONDONTWRITEBYTECODE). The program does it, too.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from airflow_provider_orderedkafka.cache import cache_directory
from airflow_provider_orderedkafka.errors import OrderedKafkaError

OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable whose options spark-submit gives to the Java that becomes the driver."""

QUIETLY = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""An archive that no longer fits is no reason to write lines into a load's log."""

_USE, _MAKE = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="
_SECONDS = 600
_SAID_LAST = 3
_PROGRAM = """
import sys
from contextlib import suppress
from pathlib import Path
from pyspark.sql import SparkSession, functions as f
with suppress(ImportError):  # a Python of its own for drivers may not have it
    import airflow_provider_orderedkafka.spark.app
    import airflow_provider_orderedkafka.spark.kafka_lanes
spark = SparkSession.builder.config("spark.sql.adaptive.enabled", "false").getOrCreate()
same = lambda batches: batches
spark.sparkContext.parallelize(range(2), 2).map(abs).collect()
rows = spark.range(0, 9, 1, 2).mapInArrow(same, "id long").observe("read", f.count(f.lit(1)))
rows = rows.withColumn("source", f.struct("id")).withColumn("text", f.col("id").cast("string")).where("id > 1")
rows = rows.withColumn("seq", f.monotonically_increasing_id())
rows.coalesce(1).select("id", "text").mapInArrow(same, "id long, text string").collect()
rows.repartition(2, "id").sortWithinPartitions("seq").collect()
rows.write.parquet(sys.argv[1])
Path("turns").mkdir()
for turn in "ab":
    Path("turns", turn).write_text(turn)
turns = spark.readStream.format("text").schema("value string").option("maxFilesPerTrigger", 1).load("turns")
query = turns.writeStream.foreachBatch(lambda frame, number: rows.collect()).trigger(availableNow=True)
query.start(checkpointLocation="query").awaitTermination()
spark.stop()
"""


def own_spark() -> Path | None:
    """Where SPARK_HOME says that Spark is, else where pyspark has its own."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")  # finds it without importing it
    return Path(spec.origin).parent if spec and spec.origin else None


def archive() -> Path:
    """Where the archive of this Spark is, or would be."""
    place = sha256(str(own_spark()).encode()).hexdigest()[:8]
    return cache_directory() / "spark-classes" / f"{place}.jsa"


def compiled() -> bool:
    """Say whether what Python compiled of pyspark is written down: if not, each start compiles it anew."""
    spec = find_spec("pyspark")
    return bool(spec and spec.origin and Path(cache_from_source(spec.origin)).exists())


def environment() -> dict[str, str]:
    """What makes spark-submit start from the archive; options that are set already stay, an archive of theirs too."""
    made, given = archive(), os.environ.get(OPTIONS, "")
    return {} if _USE in given or not made.exists() else {OPTIONS: f"{given} {started_from(made)}".strip()}


def started_from(made: Path) -> str:
    """The options of Java with which it starts from an archive."""
    return " ".join([*QUIETLY, _quoted(f"{_USE}{made}")])


def make(into: Path | None = None, options: Sequence[str] = ()) -> Path:
    """Write the archive anew; a Java that starts with other `options` may not take it.

    Raises `OrderedKafkaError` with what Spark or Java said last, where they did not come to an end.
    """
    made = into or archive()
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            _make(Path(folder), options).replace(made)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OrderedKafkaError(
            f"{made} cannot be written ({error}); ORDEREDKAFKA_CACHE names another cache directory"
        ) from error
    return made


def _make(folder: Path, options: Sequence[str]) -> Path:
    fresh = folder / "classes.jsa"
    said = _run(folder, {OPTIONS: " ".join([*options, _quoted(f"{_MAKE}{fresh}")])})
    if not fresh.exists():
        raise OrderedKafkaError(f"Java ended without writing the classes down; it said: {said}")
    return fresh


def _run(folder: Path, options: Mapping[str, str]) -> str:
    home = own_spark()
    if home is None:
        raise OrderedKafkaError("there is no Spark here: run `pip install pyspark`, or set SPARK_HOME")
    (folder / "program.py").write_text(_PROGRAM, "utf-8")
    settings = ("spark.ui.enabled=false", "spark.log.level=ERROR", "spark.driver.bindAddress=127.0.0.1")
    arguments = [part for setting in settings for part in ("--conf", setting)]
    done = subprocess.run(  # noqa: S603 - the Spark that loads start, too
        [home / "bin" / "spark-submit", "--master", "local[2]", *arguments, "program.py", str(folder / "table")],
        cwd=folder,
        env={**os.environ, **interpreter(), "SPARK_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "", **options},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
    )
    said = " / ".join(done.stdout.strip().splitlines()[-_SAID_LAST:])
    if done.returncode:
        raise OrderedKafkaError(f"Spark did not run (exit code {done.returncode}); it said: {said}")
    return said


def interpreter() -> dict[str, str]:
    """The Python of driver and executors: this one, unless the environment names another."""
    return {name: os.environ.get(name, sys.executable) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option
