"""Fixtures of the tests with real systems."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.applications import Application
from support.audited import audited
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
def audit(kafka: Any, tmp_path: Path, capfd: Any) -> Callable[..., tuple[int, dict[str, Any]]]:
    """What the command says of the checkpoint in this test's folder, and ends with."""
    return lambda *more: audited(kafka.bootstrap_servers, tmp_path / "checkpoint", capfd, *more)


@pytest.fixture
def app(kafka: Any, spark: SparkSession, tmp_path: Path) -> Application:
    """The packaged application, with a folder of its own."""
    return Application(kafka.bootstrap_servers, tmp_path)
