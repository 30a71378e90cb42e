"""Files of Avro, as Spark itself writes them, are read back without it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from support.applications import events
from support.audited import audited, counted
from support.lake import Lake
from support.plain import as_argument
from support.ranges import whole_range
from support.records import Record, Records
from support.table_formats import DELTA
from support.topics import Topics

from airflow_provider_orderedkafka.outputs import FilesOutput

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    avro = f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"
    found = Lake(tmp_path, replace(DELTA, package=f"{DELTA.package},{avro}"))
    yield found
    found.close()


def test_files_of_avro_are_proved_without_spark(
    lake: Lake, topics: Topics, records: Records, kafka: Any, tmp_path: Path, capfd: Any
) -> None:
    source = topics.create("a", 3)
    records.produce(source, [*events(60, 1), Record(None, 1_767_225_999_999, 0, b"k", [("h", None), ("h", b"\xff")])])
    loaded = whole_range(kafka.bootstrap_servers, source, include_headers=True, batch_offsets=30)
    output = as_argument(FilesOutput(str(tmp_path / "files"), "avro"))
    where = (
        "--checkpoint",
        str(tmp_path / "checkpoint"),
        "--option",
        f"kafka.bootstrap.servers={kafka.bootstrap_servers}",
    )
    assert lake.load(*where, "--range", loaded.to_text(), "--output", output)["report"]["rows_emitted"] == 61
    code, found = audited(kafka.bootstrap_servers, tmp_path / "checkpoint", capfd)
    assert (code, counted(found), found["ranges"][0]["rows"]) == (0, {}, 61)
    next((tmp_path / "files").rglob("batch=1/**/*.avro")).unlink()
    code, found = audited(kafka.bootstrap_servers, tmp_path / "checkpoint", capfd)
    assert (code, [*counted(found)]) == (65, ["missing"])
