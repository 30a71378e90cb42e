"""Fixtures of the tests with real systems."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.applications import Application
from support.consumers import close_idle

from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig


@pytest.fixture(autouse=True, scope="module")
def leave_no_consumers() -> Iterator[None]:
    yield
    close_idle()


@pytest.fixture
def config(kafka: Any) -> KafkaConfig:
    return KafkaConfig({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def app(kafka: Any, spark: SparkSession, tmp_path: Path) -> Application:
    """The packaged application, with a folder of its own."""
    return Application(kafka.bootstrap_servers, tmp_path)
