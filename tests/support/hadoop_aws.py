"""What Spark needs to reach S3: hadoop-aws of its own Hadoop version, and the parts of the AWS SDK that it uses."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_orderedkafka.compat.spark import gateway, hadoop_configuration

SDK = "2.35.4"
"""What hadoop-aws 3.5.0 was built with."""

THERE = ("software.amazon.awssdk:bundle", "org.slf4j:slf4j-api", "commons-logging:commons-logging")
"""Left out: half a gigabyte of the whole SDK, and what Spark has."""


@cache
def jars(spark: SparkSession) -> tuple[str, ...]:
    """Their files, which Ivy fetches once for each machine, as `spark-submit --packages` does."""
    jvm: Any = gateway(spark).jvm
    hadoop = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    parts = [f"software.amazon.awssdk:{each}:{SDK}" for each in ("s3-transfer-manager", "sts")]
    maven, nothing = jvm.org.apache.spark.util.MavenUtils, jvm.scala.Option.empty()
    said = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
    settings = maven.buildIvySettings(nothing, nothing, True, said)
    left_out = jvm.PythonUtils.toSeq(list(THERE))
    coordinates = ",".join([f"org.apache.hadoop:hadoop-aws:{hadoop}", *parts])
    found = maven.resolveMavenCoordinates(coordinates, settings, nothing, True, left_out, False, said)
    return tuple(str(found.apply(number)) for number in range(found.size()))


def configuration(spark: SparkSession, settings: dict[str, str]) -> Any:
    """A Hadoop configuration of its own that finds S3A, which this JVM was started without."""
    found = gateway(spark).jvm.org.apache.hadoop.conf.Configuration(hadoop_configuration(spark))
    found.setClassLoader(_loader(spark))
    for name, value in settings.items():
        found.set(name, value)
    return found


@contextmanager
def reached(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """The session itself finds S3A, with these settings. Clients are kept by bucket: name one that nobody else has."""
    own = hadoop_configuration(spark)
    before = own.getClassLoader()
    own.setClassLoader(_loader(spark))
    for name, value in settings.items():
        own.set(name, value)
    try:
        yield
    finally:
        own.setClassLoader(before)
        for name in settings:
            own.unset(name)


@cache
def _loader(spark: SparkSession) -> Any:
    java = gateway(spark)
    urls = java.new_array(java.jvm.java.net.URL, len(jars(spark)))
    for number, jar in enumerate(jars(spark)):
        urls[number] = java.jvm.java.io.File(jar).toURI().toURL()
    return java.jvm.java.net.URLClassLoader(urls, hadoop_configuration(spark).getClassLoader())
