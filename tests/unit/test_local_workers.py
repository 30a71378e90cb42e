"""Whose daemon forks the Python workers of a Spark."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_orderedkafka.spark import local_workers, worker_daemon
from airflow_provider_orderedkafka.spark.local_workers import DAEMON, daemon_settings, let_daemon_find_us

OURS = worker_daemon.__name__
ROOT = str(Path(__file__).parents[2])


class Conf(dict[str, str]):
    """What was asked of spark-submit."""

    def contains(self, name: str) -> bool:
        return name in self


@pytest.fixture(autouse=True)
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


def chosen(**asked: str) -> dict[str, str]:
    conf: Any = Conf({name.replace("_", "."): value for name, value in asked.items()})
    return daemon_settings(conf)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_spark_forks_its_workers_from_ours(master: str) -> None:
    assert chosen(spark_master=master) == {DAEMON: OURS}


@pytest.mark.parametrize("master", ["spark://h:7077", "local-cluster[2,1,1024]", "yarn", ""])
def test_a_cluster_has_its_own(master: str) -> None:
    assert chosen(spark_master=master) == {}
    assert chosen() == {}


def test_a_daemon_that_somebody_named_stays() -> None:
    assert chosen(spark_master="local[2]", **{DAEMON: "theirs"}) == {}


def test_elsewhere_than_on_linux_spark_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert chosen(spark_master="local[2]") == {}


def test_another_interpreter_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "python"
    elsewhere.symlink_to(sys.executable)  # as in another virtual environment
    for interpreter in (elsewhere, tmp_path / "nowhere"):
        monkeypatch.setenv("PYSPARK_PYTHON", str(interpreter))
        assert chosen(spark_master="local[2]") == {}


def test_this_interpreter_may_go_by_another_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python, python3 = tmp_path / "python", tmp_path / "python3"
    python.symlink_to(sys.executable)
    python3.symlink_to(python)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chosen(spark_master="local[2]") == {DAEMON: OURS}


@pytest.mark.parametrize(("before", "after"), [({}, ROOT), ({"PYTHONPATH": "lib"}, f"{ROOT}{os.pathsep}lib")])
def test_the_daemon_is_told_where_this_package_is(before: dict[str, str], after: str) -> None:
    context: Any = SimpleNamespace(getConf=lambda: {DAEMON: OURS}, environment=dict(before))
    let_daemon_find_us(context)
    assert context.environment == {"PYTHONPATH": after}


def test_where_it_is_installed_that_needs_no_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_workers.site, "getsitepackages", lambda: [ROOT])
    context: Any = SimpleNamespace(getConf=lambda: {DAEMON: OURS}, environment={})
    let_daemon_find_us(context)
    assert context.environment == {}


def test_the_workers_of_another_daemon_are_left_alone() -> None:
    context: Any = SimpleNamespace(getConf=lambda: {DAEMON: "theirs"}, environment={})
    let_daemon_find_us(context)
    assert context.environment == {}
