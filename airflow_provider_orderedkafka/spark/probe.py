"""The application that `orderedkafka doctor --spark` submits: tries Spark's driver and executors at a location.

    spark-submit probe.py FILE LOCATION [PACKAGE ...]

Writes a JSON array of [name, found, problem] into the file, on the driver; the problem is empty if there is none. An
empty LOCATION is not tried; the packages are those that decoding needs.
"""

import json
import platform
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.compat.spark import gateway, hadoop_configuration
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.spark.session.executors import check_executors
from airflow_provider_orderedkafka.spark.state.checkpoint import open_state
from airflow_provider_orderedkafka.storage.store import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 8
_S3A = "org/apache/hadoop/fs/s3a/S3AFileSystem.class"
_FORMAT = re.compile(r"(?:iceberg-spark-runtime-|delta-spark_)(?P<spark>\d+\.\d+)_\d+\.\d+")
_HADOOP_AWS = re.compile(r"hadoop-aws-(?P<version>[^/!]+)\.jar!")


def look(session: "SparkSession", location: str, packages: Sequence[str] = ()) -> Iterator[tuple[str, str, str]]:
    """Check the executors' Python and S3A's version, then the location from the driver and from the executors."""
    found = f"Spark {session.version}, Python {platform.python_version()}, master {session.sparkContext.master}"
    yield "spark driver", found, ""
    yield _tried("spark executors", "have what tasks import", lambda: check_executors(session, packages))
    if named := _HADOOP_AWS.search(str(hadoop_configuration(session).getResource(_S3A))):
        version = named["version"]
        yield _tried("hadoop-aws", f"{version}, as Hadoop", lambda: _check_hadoop_aws(session, version))
    packages_and_jars = (session.conf.get(name, "") or "" for name in ("spark.jars", "spark.jars.packages"))
    for name, spark in sorted({(each[0], each["spark"]) for each in _FORMAT.finditer(" ".join(packages_and_jars))}):
        yield _tried("table format", f"{name}, as Spark", partial(check_format, name, spark, session.version))
    if location:
        name = f"orderedkafka-doctor-{uuid.uuid4().hex}"
        by = f"write, read and delete at {location}"
        yield _tried("checkpoint from the driver", by, lambda: _by_driver(session, location, name))
        yield _tried("checkpoint from executors", by, lambda: _by_executors(session, location, name))


def _tried(name: str, good: str, trial: Callable[[], None]) -> tuple[str, str, str]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        trial()
    except (OrderedKafkaError, PySparkException, Py4JError) as error:
        return name, "", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return name, good, ""


def _check_hadoop_aws(session: "SparkSession", version: str) -> None:
    hadoop = str(gateway(session).jvm.org.apache.hadoop.util.VersionInfo.getVersion())
    if version != hadoop:
        raise SettingError(
            f"hadoop-aws is {version} and Spark's Hadoop is {hadoop}: they must be the same version. Name "
            f"org.apache.hadoop:hadoop-aws:{hadoop} in spark.jars.packages, or put its jar in the other's place"
        )


def check_format(name: str, spark: str, running: str) -> None:
    """`SettingError` for a table format's package that was made for another Spark."""
    if not running.startswith(f"{spark}."):
        raise SettingError(f"{name} is for Spark {spark}, and this is Spark {running}: name the package for this one")


def _by_driver(session: "SparkSession", location: str, name: str) -> None:
    state = open_state(location, session)
    state.put(name, name)
    found = state.get(name)
    state.delete(name)
    if found != name:
        raise OrderedKafkaError(f"what was written to {join(location, name)!r} is not what is read")


def _by_executors(session: "SparkSession", location: str, name: str) -> None:
    """Each task writes a file, which the driver must be able to read."""
    folder = join(location, name)
    try:
        session.range(0, _ROWS, 1, _ROWS).selectExpr("cast(id as string)").write.text(folder)
        seen = session.read.schema("value string").text(folder).count()
    finally:
        open_state(location, session).delete(name)
    if seen != _ROWS:
        raise OrderedKafkaError(
            f"of {_ROWS} rows that executors wrote to {folder!r} the driver sees {seen}: it is not the same place there"
        )


def main(file: str, location: str, *packages: str) -> None:
    """Write the findings to the file."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    Path(file).write_text(json.dumps(list(look(session, location, packages))), encoding="utf-8")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
