"""A Spark session for the tests."""

import os
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from support import quick_java

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))


def since(*version: int) -> pytest.MarkDecorator:
    """Marks what only Spark from this version on can do."""
    return pytest.mark.skipif(version > VERSION, reason=f"needs Spark {version}")


def before(*version: int) -> pytest.MarkDecorator:
    """Marks what is said where Spark is older."""
    return pytest.mark.skipif(version <= VERSION, reason=f"is for Spark before {version}")


def local_session(directory: Path) -> SparkSession:
    """Start Spark in this process: two threads, UTC, Arrow, nothing outside `directory`."""
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory / 'derby'} -Duser.timezone=UTC",
        "spark.driver.memory": "1g",
        "spark.executor.heartbeatInterval": "1s",
        "spark.local.dir": str(directory / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    os.environ.update(quick_java.environment())
    builder = SparkSession.builder.master("local[2]").appName("orderedkafka-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
