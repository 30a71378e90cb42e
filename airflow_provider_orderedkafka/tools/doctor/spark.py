"""Check which Spark a spark-submit starts, and whether it goes with this package, its Java, its Python and packages."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.hooks.spark_process import interpreter_environment
from airflow_provider_orderedkafka.tools.doctor.finding import Finding
from airflow_provider_orderedkafka.tools.embedded.java import installed_java

Version = tuple[int, int]

OLDEST, NEWEST = (3, 5), (4, 3)
PYTHON_3_12_FROM, JAVA_24_FROM = (4, 0), (4, 2)
BEFORE_4_0 = {"pyarrow": "<19", "numpy": "<2", "pandas": "<2.3"}
"""What Spark 3.5 goes with."""

_ANSWER_SECONDS = 30
_QUESTION = """
import importlib.metadata, json
print(json.dumps({each.metadata["name"].lower(): each.version for each in importlib.metadata.distributions()}))
"""
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
            version = int(core["major"]), int(core["minor"])
            python = sys.version_info[:2] if environment["PYSPARK_PYTHON"] == sys.executable else None
            yield fits(name, version, python, _java())
            if OLDEST <= version < PYTHON_3_12_FROM:
                yield from goes_with(name, _packages(environment["PYSPARK_PYTHON"]))


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


def goes_with(name: str, packages: Mapping[str, str]) -> Iterator[Finding]:
    """A finding where a Spark before 4.0 stands beside packages that are too new for it."""
    from packaging.specifiers import SpecifierSet

    found = {each: packages[each] for each in BEFORE_4_0 if each in packages}
    wrong = [each for each, version in found.items() if version not in SpecifierSet(BEFORE_4_0[each])]
    if wrong:
        beside = " and ".join(f"{each} {found[each]}" for each in wrong)
        install = " ".join(["pip install", *(f'"{each}{BEFORE_4_0[each]}"' for each in wrong)])
        yield Finding("spark", "warning", f"{name} beside {beside}", f"In its Python's environment: {install}")


def _packages(python: str) -> dict[str, str]:
    """What is installed for this Python, by name; empty where it does not say."""
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter that Spark would run
            [python, "-c", _QUESTION], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True
        )
        return dict(json.loads(answer.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}


def _java() -> int | None:
    try:
        return installed_java().major
    except OrderedKafkaError:  # told by a finding of its own
        return None
