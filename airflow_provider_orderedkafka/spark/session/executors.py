"""Check that there are executors, and that they have what tasks need."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_orderedkafka.compat.spark import python_of_workers, shipped_names
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.session.lazy import LOCAL

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OURS = __name__.split(".", 1)[0]
NEEDED = ("confluent_kafka", "pyarrow", "numpy")
"""What the executors import for every load."""

INSTALLED_BY = {"confluent_kafka": "confluent-kafka", "google.protobuf": "protobuf"}
"""By which name a package is installed, where it is another one."""

ANSWER_SECONDS = 60
_LOOK = """
import importlib.util, sys
for name in sys.argv[1:]:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    print(*([name] if found is None else []))
"""


class Missing(NamedTuple):
    """What an interpreter cannot import."""

    interpreter: str
    names: Sequence[str]


def check_executors(session: "SparkSession", more: Sequence[str] = ()) -> None:
    """Raise `SettingError` if the executors' Python lacks a package, with the ways to ship it.

    `more` names what this load imports there beyond what every load needs.
    """
    context, needed = session.sparkContext, (OURS, *NEEDED, *more)
    found = _missing_here(context, needed) if LOCAL.fullmatch(context.master) else _missing_there(context, needed)
    if found is None:
        return
    interpreter, names = found
    if OURS in names:
        raise SettingError(
            f"the executors' Python ({interpreter}) has no {OURS}: ship it with --py-files {OURS}.zip, which `python "
            f"-m {OURS}.spark.bundle {OURS}.zip` builds, or install it there"
        )
    packages = " and ".join(INSTALLED_BY.get(name, name) for name in names)
    raise SettingError(
        f"the executors' Python ({interpreter}) has no {packages}. Install it there, or point PYSPARK_PYTHON at an "
        f"interpreter that has it, or ship an environment: pack it with venv-pack and add --archives "
        f"environment.tar.gz#env --conf spark.pyspark.python=./env/bin/python. --py-files cannot ship packages with "
        f"compiled parts"
    )


def _missing_here(context: "SparkContext", needed: Sequence[str]) -> Missing | None:
    """What the workers of a local master lack, asked of their interpreter without a Spark job."""
    interpreter = python_of_workers(context)
    folders = [*_shipped(context), os.environ.get("PYTHONPATH", "")]
    try:
        answer = subprocess.run(  # noqa: S603 - Spark runs it too
            [interpreter, "-c", _LOOK, *needed],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))},
            check=True,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SettingError(
            f"the executors' Python {interpreter!r} does not run ({error}): point PYSPARK_PYTHON at an interpreter "
            f"that has {', '.join(INSTALLED_BY.get(name, name) for name in needed if name != OURS)}"
        ) from error
    names = answer.stdout.split()
    return Missing(interpreter, names) if names else None


def _shipped(context: "SparkContext") -> list[str]:
    from pyspark import SparkFiles

    names = shipped_names(context)
    if not names:
        return []
    root = SparkFiles.getRootDirectory()
    return [root, *(os.path.join(root, name) for name in names)]  # noqa: PTH118 - a path of the JVM


def _missing_there(context: "SparkContext", needed: Sequence[str]) -> Missing | None:
    """What an executor lacks; this task needs only the standard library."""

    def look(_: Iterator[Any]) -> Iterator[tuple[str, list[str]]]:
        import importlib.util
        import sys

        def has(name: str) -> bool:
            try:
                return importlib.util.find_spec(name) is not None
            except ModuleNotFoundError:  # what is around it
                return False

        yield sys.executable, [name for name in needed if not has(name)]

    tasks = max(context.defaultParallelism, 1)
    answers = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    return next((Missing(*answer) for answer in answers if answer[1]), None)
