"""Applications that are stopped, as a virtual machine is, and go on when another attempt has loaded the range.

Whatever they do then, what was finished stays: no row is gone, and readers of what promises it see each row once.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from support.children import Moment, Submitted
from support.loads import PARTITIONS, Load, events
from support.outputs import Position, expected_of
from support.plain import as_argument
from support.ranges import whole_range
from support.records import Records
from support.table_formats import DELTA, ICEBERG, Format, rows_of
from support.topics import Topics

from airflow_provider_orderedkafka.kafka.provenance import read_provenance
from airflow_provider_orderedkafka.outputs import FilesOutput
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState
from airflow_provider_orderedkafka.spark.tables.files import Files
from airflow_provider_orderedkafka.spark.tables.lakes import DeltaTable, IcebergTable

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BATCH = 1_500
FENCED = 75
COLUMNS = ("topic", "partition", "offset")
Place = Callable[[], list[Position]]


class Frozen:
    """Two attempts at a range of four batches, into one output."""

    def __init__(self, kafka: Any, topics: Topics, records: Records, folder: Path) -> None:
        self.kafka, self.topics, self.records, self.folder = kafka, topics, records, folder
        source = topics.create("a", PARTITIONS)
        records.produce(source, events(4 * BATCH, 1))
        self.expected = sorted(each.position for each in expected_of(records, source))
        self.loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=BATCH)

    def to_files(self) -> tuple[Load, Place]:
        target = self.folder / "table"

        def listed() -> list[Position]:
            manifests = [json.loads(each.read_text()) for each in target.glob("_orderedkafka/*/*.json")]
            files = [target / file for manifest in manifests for file in manifest["files"]]
            assert sum(manifest["rows"] for manifest in manifests) == sum(map(rows_in, files))
            return sorted(row for file in files for row in rows_of(file, *COLUMNS))

        return self._load("ordered_table.py", "--output", as_argument(FilesOutput(str(target)))), listed

    def to_lake(self, of: Format) -> tuple[Load, Place]:
        output = of.output(self.folder, "orders")
        place = of.place(self.folder, output)
        conf = [part for item in of.settings(self.folder).items() for part in ("--conf", "=".join(item))]
        how = {"submit": ("--master", "local[2]", *conf), "home": of.home()}
        load = self._load("ordered_table.py", "--output", as_argument(output), **how)
        return load, lambda: sorted(row for file in of.files(place) for row in rows_of(file, *COLUMNS))

    def to_topic(self) -> tuple[Load, Place]:
        output = self.topics.create("out", PARTITIONS)

        def read() -> list[Position]:
            found = [read_provenance(seen.headers) for seen in self.records.read(output)]
            return sorted((each.source.topic, each.source.partition, each.offset) for each in found if each)

        return self._load("ordered_replay.py", "--output-topic", output), read

    def _load(self, app: str, *argv: str, **how: Any) -> Load:
        argv = (*argv, "--option", "sliceOffsets=400")
        (self.folder / "one").mkdir()
        return Load(self.kafka.bootstrap_servers, self.folder / "one", self.loaded, *argv, app=app, **how)


def rows_in(file: Path) -> int:
    return int(parquet.ParquetFile(file).metadata.num_rows)


def finished_beside(load: Load, moment: Moment, found: Place) -> tuple[list[Position], list[Position]]:
    """What is there when an attempt was frozen at this moment and another has finished; and when it has ended, too."""
    first = load.start(moment)
    assert first.until_held(), first.log()[-3000:]
    first.freeze()
    second: Submitted = load.start()
    assert second.wait() == 0, second.log()[-3000:]
    finished = found()
    first.thaw()
    assert first.wait() == FENCED, first.log()[-3000:]
    return finished, found()


def around(*steps: Callable[..., Any], quick: Moment | None = None) -> Any:
    """Before and after each of these steps of the second batch; all but one take more time than there is each day."""
    moments = [Moment(step, event, 2) for step in steps for event in ("call", "return")]
    marks = {str(each): () if each == quick else (pytest.mark.nightly,) for each in moments}
    return pytest.mark.parametrize(
        "moment", [pytest.param(each, id=str(each), marks=marks[str(each)]) for each in moments]
    )


NOTE, COUNTS = Checkpoint.put_note, Checkpoint.put_counts


@around(NOTE, Files.append, HadoopState.create, COUNTS, quick=Moment(Files.append, "call", 2))
def test_files_that_another_attempt_has_finished_stay_and_are_listed_once(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, moment: Moment
) -> None:
    frozen = Frozen(kafka, topics, records, tmp_path)
    load, found = frozen.to_files()
    finished, at_last = finished_beside(load, moment, found)
    assert finished == at_last == frozen.expected


@around(NOTE, DeltaTable.append, COUNTS)
def test_a_delta_table_that_another_attempt_has_finished_gets_nothing_more(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, moment: Moment
) -> None:
    frozen = Frozen(kafka, topics, records, tmp_path)
    load, found = frozen.to_lake(DELTA)
    finished, at_last = finished_beside(load, moment, found)
    assert finished == at_last == frozen.expected


@around(NOTE, IcebergTable.append, COUNTS)
def test_an_iceberg_table_that_another_attempt_has_finished_loses_nothing(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, moment: Moment
) -> None:
    frozen = Frozen(kafka, topics, records, tmp_path)
    load, found = frozen.to_lake(ICEBERG)
    finished, at_last = finished_beside(load, moment, found)
    assert finished == frozen.expected
    assert not Counter(finished) - Counter(at_last)


@around(NOTE, COUNTS)
def test_a_topic_that_another_attempt_has_finished_gets_nothing_more(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, moment: Moment
) -> None:
    frozen = Frozen(kafka, topics, records, tmp_path)
    load, found = frozen.to_topic()
    finished, at_last = finished_beside(load, moment, found)
    assert finished == at_last == frozen.expected
