"""Applications that are stopped, as a virtual machine is, and go on when another attempt has loaded the range.

Whatever they do then, what was finished stays: no row is gone, readers of what promises it see each row once, and what
is doubled elsewhere is counted.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.children import Moment
from support.keeping import FolderStore
from support.loads import DIRECT_FIRST, LANES, PARTITIONS, Load, events
from support.plain import as_argument
from support.ranges import whole_range
from support.records import Records
from support.runs import World
from support.table_formats import DELTA, ICEBERG, Format
from support.topics import Topics

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import Upsert
from airflow_provider_orderedkafka.loads.loading import late_report
from airflow_provider_orderedkafka.locations import read_report
from airflow_provider_orderedkafka.outputs import FilesOutput
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.state.hadoop_state import HadoopState
from airflow_provider_orderedkafka.spark.tables.table import LakeTable
from airflow_provider_orderedkafka.spark.tables.table_formats import DeltaTable, Files, IcebergTable

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BATCH = 1_500
FENCED = 75


class Frozen:
    """Two attempts at a range of four batches, into one output."""

    def __init__(self, kafka: Any, topics: Topics, records: Records, folder: Path, batch: int = BATCH) -> None:
        self.kafka, self.topics, self.records, self.folder = kafka, topics, records, folder
        source = topics.create("a", PARTITIONS)
        records.produce(source, events(4 * batch, 1))
        self.loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=batch)

    def to_files(self) -> Load:
        return self._load("ordered_table.py", "--output", as_argument(FilesOutput(str(self.folder / "table"))))

    def to_lake(self, of: Format, **given: Any) -> Load:
        output = of.output(self.folder, "orders", **given)
        conf = [part for item in of.settings(self.folder).items() for part in ("--conf", "=".join(item))]
        how = {"submit": ("--master", "local[2]", *conf), "home": of.home()}
        return self._load("ordered_table.py", "--output", as_argument(output), **how)

    def to_upserts(self, of: Format) -> Load:
        self.loaded = replace(self.loaded, upsert=Upsert("by hand/one", "first"))
        return self.to_lake(of, upsert=["key"])

    def to_topic(self, *argv: str) -> Load:
        self.output = self.topics.create("out", PARTITIONS)
        return self._load("ordered_replay.py", "--output-topic", self.output, *argv)

    def _load(self, app: str, *argv: str, **how: Any) -> Load:
        argv = (*argv, "--option", "sliceOffsets=400")
        (self.folder / "one").mkdir()
        return Load(self.kafka.bootstrap_servers, self.folder / "one", self.loaded, *argv, app=app, **how)


def finish_beside(load: Load, moment: Moment) -> None:
    """An attempt is frozen at this moment, another one finishes, and what that has written is as promised; then the
    first one goes on, and ends."""
    first = load.start(moment)
    assert first.until_held(), first.log()[-3000:]
    first.freeze()
    second = load.start()
    assert second.wait() == 0, second.log()[-3000:]
    load.prove()
    assert load.report().rows_emitted == 4 * BATCH
    first.thaw()
    assert first.wait() == FENCED, first.log()[-3000:]


def around(
    place: str, to: Callable[[Frozen], Load], *steps: Callable[..., Any], quick: Moment | None = None
) -> list[Any]:
    """Before and after each of these steps of the second batch; all but one take more time than there is each day."""
    moments = [Moment(step, event, 2) for step in steps for event in ("call", "return")]
    marks = {str(each): () if each == quick else (pytest.mark.nightly,) for each in moments}
    return [pytest.param(to, each, id=f"{place}-{each}", marks=marks[str(each)]) for each in moments]


NOTE, COUNTS = Checkpoint.put_note, Checkpoint.put_counts
MERGED = Moment(LakeTable.merge, "call", 2)
SHUFFLED = 200
"""In how many tasks Spark shuffles, unless that is set: so many files are not for a few rows."""


@pytest.mark.parametrize(
    ("to", "moment"),
    [
        *around(
            "files",
            Frozen.to_files,
            *(NOTE, Files.append, HadoopState.create, COUNTS),
            quick=Moment(Files.append, "call", 2),
        ),
        *around("Delta", lambda frozen: frozen.to_lake(DELTA), NOTE, DeltaTable.append, COUNTS),
        *around("topic", Frozen.to_topic, NOTE, COUNTS),
        *around("upserts in Delta", lambda frozen: frozen.to_upserts(DELTA), NOTE, LakeTable.merge, quick=MERGED),
        *around("upserts in Iceberg", lambda frozen: frozen.to_upserts(ICEBERG), NOTE, LakeTable.merge, quick=MERGED),
    ],
)
def test_an_output_that_another_attempt_has_finished_stays_and_gets_nothing_more(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, to: Callable[[Frozen], Load], moment: Moment
) -> None:
    frozen = Frozen(kafka, topics, records, tmp_path)
    load = to(frozen)
    finish_beside(load, moment)
    load.prove()
    if frozen.loaded.upsert is not None:
        assert load.report().may_be_doubled == 0
        assert len([*(tmp_path / "warehouse").rglob("*.parquet")]) < SHUFFLED


@pytest.mark.parametrize(
    ("to", "moment"), around("Iceberg", lambda frozen: frozen.to_lake(ICEBERG), NOTE, IcebergTable.append, COUNTS)
)
def test_an_iceberg_table_that_another_attempt_has_finished_loses_nothing(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, to: Callable[[Frozen], Load], moment: Moment
) -> None:
    load = to(Frozen(kafka, topics, records, tmp_path))
    finish_beside(load, moment)
    [found] = load.audit().ranges
    assert {what for what, count in found.compared.counts.items() if count} <= {"doubled"}, found
    assert found.compared.counts["doubled"] <= load.report().may_be_doubled


LARGE = 40_000


@pytest.mark.parametrize("lane", DIRECT_FIRST)
@pytest.mark.parametrize("rows", [LARGE + 12_000, pytest.param(LARGE + 3_000, marks=pytest.mark.nightly)])
def test_what_an_attempt_adds_to_a_topic_that_another_one_has_finished_is_counted(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, lane: str, rows: int
) -> None:
    frozen = Frozen(kafka, topics, records, tmp_path, LARGE)
    load = frozen.to_topic(*LANES[lane])
    first = load.start()
    assert first.until(lambda: sum(records.ends(frozen.output).values()) >= rows), first.log()[-3000:]
    first.freeze()
    assert load.newest("counts") < load.newest("notes")
    load.finish()
    before, there = load.report().may_be_doubled, sum(records.ends(frozen.output).values())
    assert (before, there) == (0, 4 * LARGE)
    books = replace(World(FolderStore()).run("d/a").books, report=read_report)
    first_look = lifecycle.first_look("a", instance="i", home_dag="d", place=frozen.loaded.start, topics={}, now=0)
    begun = lifecycle.submitted(lifecycle.opened(first_look, frozen.loaded.id, "d/a"), str(load.checkpoint), "here")
    ledger = lifecycle.committed(begun, frozen.loaded, load.report(), "d/a", now=1)
    books.store.save(ledger, None)
    first.thaw()
    assert first.wait() == FENCED, first.log()[-3000:]
    doubled = sum(records.ends(frozen.output).values()) - there
    [found], late = load.audit().ranges, late_report(books, ledger, lambda _: str(load.checkpoint))
    assert late is not None
    assert found.compared.counts["doubled"] == doubled <= load.report().may_be_doubled == late.more == LARGE
    assert any(f"{LARGE:,} rows" in line for line in list(found.lines())[1:])
