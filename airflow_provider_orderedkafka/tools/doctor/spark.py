"""Check which Spark a spark-submit starts, and whether it goes with this package, its Python and its Java."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.hooks.spark_process import interpreter_environment
from airflow_provider_orderedkafka.tools.doctor.finding import Finding
from airflow_provider_orderedkafka.tools.embedded.java import installed_java

Version = tuple[int, int]

OLDEST, NEWEST = (3, 5), (4, 3)
PYTHON_3_12_FROM, JAVA_24_FROM = (4, 0), (4, 2)
_CORE = re.compile(r"spark-core_(?P<scala>[\d.]+)-(?P<full>(?P<major>\d+)\.(?P<minor>\d+)\S*)\.jar")


def spark_behind(binary: str) -> Iterator[Finding]:
    """A finding on the Spark of this program; none where it cannot be seen."""
    try:
        environment = interpreter_environment(binary)
    except SettingError:  # told by a finding of its own
        return
    found = shutil.which(binary, path=environment.get("PATH", os.environ.get("PATH")))
    home = environment.get("SPARK_HOME") or (found and str(Path(found).resolve().parents[1]))
    for jar in Path(home, "jars").glob("spark-core_*.jar") if home else ():
        if core := _CORE.fullmatch(jar.name):
            name = f"{core['full']} (Scala {core['scala']}) at {home}"
            python = sys.version_info[:2] if environment["PYSPARK_PYTHON"] == sys.executable else None
            yield fits(name, (int(core["major"]), int(core["minor"])), python, _java())


def fits(name: str, version: Version, python: Version | None, java: int | None) -> Finding:
    """Whether a Spark goes with a Python and a Java, as far as these are known."""
    if version < OLDEST:
        return Finding("spark", "broken", f"{name} is too old", "Name the spark-submit of Spark 3.5 or newer")
    if java is not None and java > 23 and version < JAVA_24_FROM:  # noqa: PLR2004 - Java 24 took away what they use
        return Finding("spark", "broken", f"{name} does not start on Java {java}", "Set JAVA_HOME to Java 17 or 21")
    if python is not None and python > (3, 11) and version < PYTHON_3_12_FROM:
        remedy = "Name an environment with Python 3.11 by PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON"
        return Finding("spark", "broken", f"{name} does not know Python {'.'.join(map(str, python))}", remedy)
    if version > NEWEST:
        return Finding("spark", "warning", f"{name} is newer than what was tried", "Try a load with it")
    return Finding("spark", "ok", name)


def _java() -> int | None:
    try:
        return installed_java().major
    except OrderedKafkaError:  # told by a finding of its own
        return None
