"""Where Spark's classes are kept, and which options make spark-submit start from them."""

import sys
from pathlib import Path

import pytest

from airflow_provider_orderedkafka import cli, quick_start
from airflow_provider_orderedkafka.errors import OrderedKafkaError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(quick_start.OPTIONS, raising=False)
    return tmp_path / "cache"


def made() -> Path:
    archive = quick_start.archive()
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"")
    return archive


def test_without_an_archive_nothing_is_changed() -> None:
    assert quick_start.environment() == {}


def test_with_one_java_is_told_where_it_is_behind_the_options_that_are_set_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = made()
    assert quick_start.environment()[quick_start.OPTIONS].endswith(f" -XX:SharedArchiveFile={archive}")
    monkeypatch.setenv(quick_start.OPTIONS, "-Xmx2g")
    assert quick_start.environment()[quick_start.OPTIONS].startswith("-Xmx2g -Xshare:auto ")


def test_an_archive_that_is_named_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    made()
    monkeypatch.setenv(quick_start.OPTIONS, "-XX:SharedArchiveFile=/opt/spark.jsa")
    assert quick_start.environment() == {}


def test_a_path_with_a_space_is_one_option(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path / "my cache"))
    archive = made()
    assert quick_start.environment()[quick_start.OPTIONS].endswith(f' "-XX:SharedArchiveFile={archive}"')


def test_each_spark_has_an_archive_of_its_own(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    own = quick_start.archive()
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert quick_start.archive() != own
    assert quick_start.archive().parent == own.parent == cache / "spark-classes"


def spark(home: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spark-submit that does this."""
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))


def test_a_spark_that_does_not_run_is_an_error_with_what_it_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spark(tmp_path / "spark", "echo Java is missing; exit 3", monkeypatch)
    assert cli.main(["warm-up"]) == 65
    assert "Spark did not run (exit code 3); it said: Java is missing" in capsys.readouterr().err
    assert list(quick_start.archive().parent.iterdir()) == []


def test_what_python_compiles_is_written_down_too_where_that_is_forbidden_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    program = 'import sys; print("forbidden:", sys.dont_write_bytecode)'
    spark(tmp_path / "spark", f"{sys.executable} -c '{program}'; exit 3", monkeypatch)
    with pytest.raises(OrderedKafkaError, match="it said: forbidden: False"):
        quick_start.make()


def test_a_java_that_writes_nothing_down_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark(tmp_path / "spark", "echo all is well", monkeypatch)
    with pytest.raises(OrderedKafkaError, match="Java ended without writing the classes down; it said: all is well"):
        quick_start.make()


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ORDEREDKAFKA_CACHE", str(tmp_path / "file"))
    assert cli.main(["warm-up"]) == 65
    assert "cannot be written" in (said := capsys.readouterr().err)
    assert "ORDEREDKAFKA_CACHE names another cache directory" in said


def test_what_was_written_down_can_be_removed(capsys: pytest.CaptureFixture[str]) -> None:
    archive = made()
    assert cli.main(["warm-up", "--remove"]) == 0
    assert not archive.exists()
    assert cli.main(["warm-up", "--remove"]) == 0
    assert capsys.readouterr().out == f"{archive} is deleted.\n{archive} was not there.\n"
