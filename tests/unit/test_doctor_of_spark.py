"""The doctor on Spark: what goes with which version, and the Spark behind a spark-submit."""

import json
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.children import executable

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.probe import check_format
from airflow_provider_orderedkafka.tools.doctor.finding import Tries
from airflow_provider_orderedkafka.tools.doctor.locations import from_spark
from airflow_provider_orderedkafka.tools.doctor.spark import BEFORE_4_0, fits, goes_with, spark_behind


@pytest.mark.parametrize(
    ("version", "python", "java", "status", "said"),
    [
        ((3, 5), (3, 11), 17, "ok", ""),
        ((4, 3), (3, 13), 21, "ok", ""),
        ((4, 2), (3, 13), 25, "ok", ""),
        ((3, 5), None, None, "ok", ""),
        ((3, 4), (3, 11), 17, "broken", "is too old"),
        ((3, 5), (3, 12), 17, "broken", "does not know Python 3.12"),
        ((4, 1), (3, 11), 25, "broken", "does not start on Java 25"),
        ((4, 4), (3, 11), 17, "warning", "newer than what was tried"),
    ],
)
def test_a_spark_that_does_not_go_with_its_python_or_its_java_is_told(version, python, java, status, said):
    finding = fits("this one", version, python, java)
    assert (finding.status, said in finding.found) == (status, True)


NEW = {"pyarrow": "19.0.1", "numpy": "1.26.4", "pandas": "2.3.0"}


def test_packages_that_are_too_new_for_spark_3_5_are_told_with_those_that_the_documents_name():
    (finding,) = goes_with("3.5.8", NEW)
    assert (finding.status, finding.found) == ("warning", "3.5.8 beside pyarrow 19.0.1 and pandas 2.3.0")
    assert finding.remedy.endswith('pip install "pyarrow<19" "pandas<2.3"')
    assert list(goes_with("3.5.8", {"pyarrow": "18.1.0", "numpy": "1.26.4"})) == []
    told = " ".join(f'"{name}{needed}"' for name, needed in BEFORE_4_0.items())
    assert told in (Path(__file__).parents[2] / "docs" / "loading.md").read_text("utf-8")


def test_a_table_format_s_package_for_another_spark_is_told():
    check_format("iceberg-spark-runtime-4.0_2.13", "4.0", "4.0.4")
    with pytest.raises(SettingError, match=r"4\.0_2\.13 is for Spark 4\.0, and this is Spark 4\.2\.0: name"):
        check_format("iceberg-spark-runtime-4.0_2.13", "4.0", "4.2.0")


def test_the_packages_of_the_python_that_spark_3_5_takes_are_looked_at(tmp_path, monkeypatch):
    binary = executable(tmp_path / "bin" / "spark-submit", "#!/bin/sh\n")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.8.jar").touch()
    python = executable(tmp_path / "python", f"#!/bin/sh\necho '{json.dumps(NEW)}'\n")
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    assert [finding.found for finding in spark_behind(str(binary))][1:] == [
        f"3.5.8 (Scala 2.12) at {tmp_path} beside pyarrow 19.0.1 and pandas 2.3.0"
    ]


def test_the_spark_behind_a_spark_submit_is_named_by_its_jars(tmp_path):
    binary = executable(tmp_path / "bin" / "spark-submit", "#!/bin/sh\n")
    assert list(spark_behind(str(binary))) == []
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.4.1.jar").touch()
    (finding,) = spark_behind(str(binary))
    assert finding.found == f"3.4.1 (Scala 2.12) at {tmp_path} is too old"
    (ours,) = spark_behind("spark-submit")
    assert (ours.status, metadata.version("pyspark") in ours.found) == ("ok", True)


def test_two_versions_of_spark_do_not_end_the_doctor(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(
        "airflow_provider_orderedkafka.hooks.launching.distributions",
        lambda name: iter([SimpleNamespace(version=name)]),
    )
    assert list(spark_behind("spark-submit")) == []


SUBMITTED = """#!/bin/sh
env > "{told}"
for each in "$@"; do
  case "$before" in --py-files) echo "SHIPPED=$(basename "$each")" >> "{told}";; esac
  case "$each" in *found.json) echo '[["spark driver", "it ran", ""]]' > "$each";; esac
  before=$each
done
"""


@pytest.fixture
def another(tmp_path, monkeypatch):
    """A virtual environment with a spark-submit, under two names, that writes down what it is told."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "another"
    for name in ("spark-submit", "spark3-submit"):
        executable(home / "bin" / name, SUBMITTED.format(told=home / "told"))
    (home / "pyvenv.cfg").touch()
    (home / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars").mkdir(parents=True)

    def tried(connection, binary=""):
        (finding,) = from_spark(connection, Tries(spark_binary=binary))
        assert (finding.status, finding.found) == ("ok", "it ran")
        return dict(line.split("=", 1) for line in (home / "told").read_text().splitlines() if "=" in line)

    return SimpleNamespace(home=home, tried=tried)


def master(**extra):
    return SimpleNamespace(conn_id="master", conn_type="spark", host="local[2]", port=None, extra_dejson=extra)


def test_a_spark_submit_of_another_environment_is_tried_there_and_gets_the_package(another):
    told = another.tried(master(), str(another.home / "bin" / "spark-submit"))
    assert told["PYSPARK_PYTHON"] == str(another.home / "bin" / "python")
    assert Path(told["SPARK_HOME"]).is_relative_to(another.home)
    assert told["SHIPPED"] == "orderedkafka.zip"


def test_another_spark_submit_on_the_path_is_tried_with_its_own_spark(another, monkeypatch):
    monkeypatch.setenv("PATH", str(another.home / "bin"), prepend=":")
    told = another.tried(master(**{"spark-binary": "spark3-submit"}))
    assert told["PYSPARK_PYTHON"] == sys.executable
    assert not {"SPARK_HOME", "SHIPPED"} & told.keys()
