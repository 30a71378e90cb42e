"""Fixtures of the tests with real systems."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.applications import Application


@pytest.fixture
def app(kafka: Any, spark: SparkSession, tmp_path: Path) -> Application:
    """The packaged application, with a folder of its own."""
    return Application(kafka.bootstrap_servers, tmp_path)
