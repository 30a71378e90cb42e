"""Applications that are killed with -9 before, in and after a commit of Delta: each row is in the table once."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from support.children import Moment
from support.loads import PARTITIONS, Load, events
from support.outputs import expected_of
from support.ranges import whole_range
from support.records import Records
from support.table_formats import DELTA
from support.topics import Topics

from airflow_provider_orderedkafka.spark.tables.delta import DeltaTable

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BATCH = 1_500


def rows_of(table: Path) -> list[tuple[str, int, int]]:
    """The rows of the files that the table's log has now, as any reader of Delta finds them."""
    files: set[str] = set()
    for version in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, version.read_text().splitlines()):
            files |= {action["add"]["path"]} if "add" in action else set()
            files -= {action["remove"]["path"]} if "remove" in action else set()
    found = (parquet.ParquetFile(table / file).read(["topic", "partition", "offset"]).to_pylist() for file in files)
    return sorted(tuple(row.values()) for rows in found for row in rows)


def test_a_delta_table_whose_load_was_killed_around_its_commits_has_every_row_once(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source, table = topics.create("in", PARTITIONS), tmp_path / "table"
    records.produce(source, events(4 * BATCH, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)
    options = ("--sink-option", f"path={table}", "--sink-option", "format=delta", "--option", "sliceOffsets=400")
    submit = ("--master", "local[2]", "--packages", DELTA.settings(tmp_path)["spark.jars.packages"])
    load = Load(kafka.bootstrap_servers, tmp_path, loaded, *options, app="ordered_table.py", submit=submit)
    for moment in (Moment(DeltaTable.append, "call"), Moment(DeltaTable.append, "return")):
        application = load.start(moment)
        assert application.until_held(), application.log()[-3000:]
        application.kill_driver()
    files = set(table.rglob("part-*"))
    application = load.start()
    assert application.until(lambda: set(table.rglob("part-*")) - files), application.log()[-3000:]
    application.kill()
    report = load.finish()
    assert rows_of(table) == sorted(each.position for each in expected_of(records, source))
    assert (report.attempt, report.rows_emitted, report.may_be_doubled) == (4, 4 * BATCH, 0)
    assert report.replayed
