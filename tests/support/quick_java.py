"""Java virtual machines that start with less work: the tests start many, and none lives long.

    python -m support.quick_java

makes what they need. Two things help: flags, and class-data sharing (AppCDS). The archive of Spark's classes is made
once for each Java and each Spark, in `.cache`, and more than halves what a start of Spark costs. Nobody waits for it:
until it is there, Java starts without it.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pyspark

from airflow_provider_orderedkafka.tools.doctor.installed import installed_java

OURS = Path(sys.prefix)
HOME = Path(__file__).parents[2] / ".cache" / "tests"
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""It compiles less, at the price of a speed that short runs do not reach; with room for what a long one compiles."""

FLAGS = (*FIRST_COMPILER.split(), "-XX:+UseSerialGC")

JARS = Path(pyspark.__file__).parent / "jars"
QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
OPTIONS = "SPARK_SUBMIT_OPTS"
SPARK_SUBMIT = Path(sys.executable).parent / "spark-submit"
_making: list[subprocess.Popen[bytes]] = []
"""What makes the archive; kept, as Python complains of one that is dropped while it runs."""

PROGRAM = """
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.builder.config("spark.sql.adaptive.enabled", "false").getOrCreate()
rows = spark.range(0, 9, 1, 2).mapInArrow(lambda batches: batches, "id long").observe("read", f.count(f.lit(1)))
rows = rows.withColumn("source", f.struct("id")).withColumn("seq", f.monotonically_increasing_id())
rows.repartition(2, "id").sortWithinPartitions("seq").collect()
rows.write.parquet("table")
stream = spark.readStream.format("text").schema("value string").load("turns").writeStream
stream = stream.foreachBatch(lambda frame, _: rows.collect()).trigger(availableNow=True)
stream.start(checkpointLocation="query").awaitTermination()
spark.stop()
"""


@cache
def environment(home: Path = OURS) -> dict[str, str]:
    """What makes each spark-submit of this environment start in this way; another one's Spark has other classes."""
    if home != OURS:
        return {OPTIONS: " ".join(FLAGS)}
    archive = _archive()
    if not archive.exists():
        _make_meanwhile()
    options = " ".join([*FLAGS, *QUIETLY, f"-XX:SharedArchiveFile={archive}"])
    return {"SPARK_LAUNCHER_OPTS": " ".join(FLAGS), OPTIONS: options}


def _make_meanwhile() -> None:
    own = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "support.quick_java"]
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    _making.append(subprocess.Popen(command, env=own, start_new_session=True, **silent))


def made() -> Path:
    """The archive, once it is there; whoever comes first makes it."""
    archive = _archive()
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            for stale in HOME.glob(f"*-{_place_and_jars()[0]}-*.jsa"):
                stale.unlink()
            _make(archive)
    return archive


def _archive() -> Path:
    place, jars = _place_and_jars()
    return HOME / f"spark-{pyspark.__version__}-java-{installed_java().version}-{place}-{jars}.jsa"


def _place_and_jars() -> tuple[str, str]:
    """Where Spark's jars are, and which: with an archive of others, Spark may not find its own classes."""
    stats = [(jar.name, jar.stat()) for jar in sorted(JARS.glob("*.jar"))]
    jars = "".join(f"{name} {stat.st_size} {stat.st_mtime_ns}\n" for name, stat in stats)
    return _short(str(JARS)), _short(jars)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _make(archive: Path) -> None:
    """As docs/tuning.md says."""
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        fresh = Path(folder, "classes.jsa")
        Path(folder, "program.py").write_text(PROGRAM)
        Path(folder, "turns").mkdir()
        Path(folder, "turns", "one").write_text("one")
        settings = {
            "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={fresh}",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
        }
        options = [part for item in settings.items() for part in ("--conf", "=".join(item))]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, OPTIONS: " ".join(FLAGS)}
        command = [SPARK_SUBMIT, "--master", "local[2]", *options, "program.py"]
        subprocess.run(command, cwd=folder, env=environment, check=True, timeout=1_800)
        fresh.replace(archive)


if __name__ == "__main__":
    made()
