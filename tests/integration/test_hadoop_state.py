"""Documents on a Hadoop file system: local disk stands for those that rename, and for those that put whole."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.stores import Documents

from airflow_provider_orderedkafka.errors import SettingError, StateError
from airflow_provider_orderedkafka.spark.state import hadoop_state
from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState

pytestmark = pytest.mark.versions


@pytest.fixture(params=["renames", "puts whole"])
def state(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> HadoopState:
    if request.param == "puts whole":
        monkeypatch.setattr(hadoop_state, "WHOLE_ON_CLOSE", {"file"})
    return HadoopState.of(f"file:{tmp_path}/state", spark)


class TestDocuments(Documents):
    pass


def test_documents_are_dated_in_the_order_that_was_asked_for(state: HadoopState) -> None:
    for seconds, name in ((0, "c"), (-2, "a"), (-1, "b")):
        state.put(f"plan/{name}.json", name)
        state.date(f"plan/{name}.json", seconds)
    found = state._files.listStatus(state._path("plan"))
    dated = {status.getPath().getName(): status.getModificationTime() for status in found}
    assert sorted(dated, key=lambda name: dated[name]) == ["a.json", "b.json", "c.json"]
    assert state.get("plan/a.json") == "a"


def test_a_place_that_cannot_be_written_is_an_error_that_says_what_is_safe(spark: SparkSession) -> None:
    state = HadoopState.of("file:/proc/not-here", spark)
    with pytest.raises(StateError, match="file:/proc/not-here"):
        state.put("a.json", "x")


def test_an_unknown_file_system_is_a_wrong_setting(spark: SparkSession) -> None:
    with pytest.raises(SettingError, match="nope://bucket"):
        HadoopState.of("nope://bucket/x", spark)


def test_a_put_that_is_told_to_end_before_it_has_written_leaves_what_was_there(state: HadoopState) -> None:
    state.put("report.json", "r")
    files = state._files

    class Ending:
        """What an object store gives: nothing is there before it is closed, and then all that was written."""

        def __getattr__(self, _: str) -> Any:  # how it is created
            return lambda *_: self

        def write(self, _: Any) -> None:
            raise SystemExit

        def close(self) -> None:
            closed.append(self)

    closed: list[Ending] = []
    state._files = Ending()
    with pytest.raises(SystemExit):
        state.put("report.json", "s")
    state._files = files
    assert state.get("report.json") == "r"
    assert bool(closed) == (state._context is not None)  # under its temporary name


def test_an_object_store_needs_no_other_setting_than_its_file_system(spark: SparkSession) -> None:
    settings = spark._jsc.hadoopConfiguration()
    settings.set("fs.cosn.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        assert HadoopState.of("cosn://bucket/loads", spark).location == "cosn://bucket/loads"
    finally:
        settings.unset("fs.cosn.impl")
