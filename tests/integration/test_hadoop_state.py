"""Documents on a Hadoop file system: local disk stands for those that rename, and for those that put whole."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_orderedkafka.errors import SettingError, StateError
from airflow_provider_orderedkafka.spark import hadoop_state
from airflow_provider_orderedkafka.spark.hadoop_state import HadoopState


@pytest.fixture(params=["renames", "puts whole"])
def state(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> HadoopState:
    if request.param == "puts whole":
        monkeypatch.setattr(hadoop_state, "WHOLE_ON_CLOSE", {"file"})
    return HadoopState.of(f"file:{tmp_path}/state", spark)


def test_a_document_that_was_put_is_read_listed_replaced_and_deleted(state: HadoopState) -> None:
    assert state.get("notes/1.json") is None
    assert state.names("notes") == []
    state.put("notes/1.json", "one")
    state.put("notes/1.json", "zwölf")
    state.put("report.json", "r")
    assert state.get("notes/1.json") == "zwölf"
    assert state.names() == ["notes", "report.json"]
    state.delete("notes")
    state.delete("notes")
    assert state.names() == ["report.json"]


def test_a_place_that_cannot_be_written_is_an_error_that_says_what_is_safe(spark: SparkSession) -> None:
    state = HadoopState.of("file:/proc/not-here", spark)
    with pytest.raises(StateError, match="Nothing is lost"):
        state.put("a.json", "x")


def test_an_unknown_file_system_is_a_wrong_setting(spark: SparkSession) -> None:
    with pytest.raises(SettingError, match=r"cannot be opened .*name one on a file system"):
        HadoopState.of("nope://bucket/x", spark)
