"""Which pyspark is imported, where Spark's archives and an installed one are both in reach."""

import sys
from pathlib import Path

import pytest

from airflow_provider_orderedkafka.spark.own_pyspark import prefer_installed

ARCHIVES = ("python/lib/pyspark.zip", "python/lib/py4j-0.10-src.zip")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with a pyspark that is a whole Spark, started by its spark-submit."""
    home = tmp_path / "site-packages" / "pyspark"
    home.mkdir(parents=True)
    (home / "__init__.py").touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.setattr(sys, "path", [*(str(home / name) for name in ARCHIVES), *sys.path, str(home.parent)])
    return home.parent


def archives() -> list[str]:
    return [entry for entry in sys.path if entry.endswith(ARCHIVES)]


def test_spark_archives_of_the_installed_pyspark_are_left_out(site: Path) -> None:
    others = [entry for entry in sys.path if entry not in archives()]
    prefer_installed()
    assert sys.path == others


def test_the_archives_of_another_spark_stay_first(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark-4.1"))
    before = list(sys.path)
    prefer_installed()
    assert sys.path == before


def test_a_pyspark_that_is_not_on_the_path_is_none(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(site)])
    prefer_installed()
    assert len(archives()) == len(ARCHIVES)


def test_without_an_installed_py4j_the_archives_stay(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_orderedkafka.spark.own_pyspark.find_spec", lambda _name: None)
    prefer_installed()
    assert len(archives()) == len(ARCHIVES)


def test_a_pyspark_that_is_imported_already_is_left_alone(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", sys)
    prefer_installed()
    assert len(archives()) == len(ARCHIVES)
