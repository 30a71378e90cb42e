"""Applications that are killed with -9 around commits of a table, or whose table goes away: each row is there once."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.children import Moment
from support.loads import PARTITIONS, Load, events
from support.plain import as_argument
from support.ranges import whole_range
from support.records import Records
from support.table_formats import DELTA, ICEBERG, OLDEST_DELTA, OLDEST_ICEBERG, Format
from support.topics import Topics

from airflow_provider_orderedkafka.spark.tables.columns import alterations

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BATCH = 1_500
AGAIN = 75


class Filling:
    """A load of a topic of its own into a table, which may be that of other loads."""

    def __init__(
        self, of: Format, kafka: Any, topics: Topics, records: Records, folder: Path, name: str = "r1", **given: Any
    ) -> None:
        source = topics.create(name, PARTITIONS)
        records.produce(source, events(4 * BATCH, 1))
        self.of = of
        loaded = whole_range(kafka.bootstrap_servers, source, name=name, batch_offsets=BATCH)
        output = of.output(folder, "orders", **given)
        self.table = of.place(folder, output)
        conf = (part for item in of.settings(folder).items() for part in ("--conf", "=".join(item)))
        (folder / name).mkdir()
        self.load = Load(
            kafka.bootstrap_servers,
            folder / name,
            loaded,
            *("--output", as_argument(output), "--option", "sliceOffsets=400"),
            app="ordered_table.py",
            submit=("--master", "local[2]", *conf),
            home=of.home(),
        )

    def kill(self, when: str) -> None:
        """Start an attempt, and kill it before, in or after its next commit."""
        if when == "in":
            files = set(self.table.rglob("*.parquet"))
            application = self.load.start()
            assert application.until(lambda: set(self.table.rglob("*.parquet")) - files), application.log()[-3000:]
            application.kill()
        else:
            application = self.load.start(Moment(self.of.kind.append, "call" if when == "before" else "return"))
            assert application.until_held(), application.log()[-3000:]
            application.kill_driver()


@pytest.mark.parametrize(
    ("of", "kills"),
    [
        pytest.param(DELTA, ("after", "in"), id="delta"),
        pytest.param(ICEBERG, ("after",), id="iceberg"),
        pytest.param(OLDEST_DELTA, ("after",), id="delta, oldest"),
        pytest.param(OLDEST_ICEBERG, ("after",), id="iceberg, oldest"),
        pytest.param(DELTA, ("before", "in", "after"), id="delta, each", marks=pytest.mark.nightly),
        pytest.param(ICEBERG, ("before", "in", "after"), id="iceberg, each", marks=pytest.mark.nightly),
    ],
)
def test_a_table_whose_load_was_killed_around_its_commits_has_every_row_once(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, of: Format, kills: tuple[str, ...]
) -> None:
    filling = Filling(of, kafka, topics, records, tmp_path)
    for when in kills:
        filling.kill(when)
    report = filling.load.finish()
    filling.load.prove()
    assert (report.attempt, report.rows_emitted, report.may_be_doubled) == (len(kills) + 1, 4 * BATCH, 0)
    assert report.replayed


BOTH = pytest.mark.parametrize("of", [DELTA, ICEBERG], ids=lambda each: each.name)


@pytest.mark.nightly
@BOTH
def test_two_applications_at_once_fill_one_table_with_each_row_once(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, of: Format
) -> None:
    fillings = [Filling(of, kafka, topics, records, tmp_path, name) for name in ("r1", "r2")]
    applications = [filling.load.start() for filling in fillings]
    for filling, application in zip(fillings, applications, strict=True):
        if (code := application.wait()) != 0:  # the other one was in its way
            assert code == AGAIN, application.log()[-3000:]
            filling.load.finish()
    reports = [filling.load.report() for filling in fillings]
    assert [(report.rows_emitted, report.may_be_doubled) for report in reports] == [(4 * BATCH, 0)] * 2
    for filling in fillings:
        filling.load.prove()


@pytest.mark.nightly
@BOTH
def test_columns_are_added_once_by_two_applications_at_once_and_told_by_who_follows_one_that_was_killed(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, of: Format
) -> None:
    Filling(of, kafka, topics, records, tmp_path).load.finish("--transform", "support.transforms:positions")
    fillings = [Filling(of, kafka, topics, records, tmp_path, name, new_columns="add") for name in ("r2", "r3")]
    applications = [filling.load.start(Moment(alterations, "call")) for filling in fillings]
    for application in applications:
        assert application.until_held(), application.log()[-3000:]
    for application in applications:
        application.let_go()
    for filling, application in zip(fillings, applications, strict=True):
        if application.wait() != 0:
            assert application.wait() == AGAIN, application.log()[-3000:]
            filling.load.finish()
        filling.load.prove()
    added = [name for filling in fillings for name in filling.load.report().columns_added]
    assert sorted(added) == ["key", "late", "timestamp", "timestampType", "value"]
    last = Filling(of, kafka, topics, records, tmp_path, "r4", new_columns="add")
    renamed = ("--transform", "support.transforms:grown")
    application = last.load.start(Moment(of.kind.append, "call"), argv=renamed)
    assert application.until_held(), application.log()[-3000:]
    application.kill_driver()
    assert sorted(last.load.finish(*renamed).columns_added) == ["l", "m", "n", "s", "state"]


@pytest.mark.nightly
@BOTH
@pytest.mark.parametrize("step", ["version", "append", "history"])
def test_a_load_whose_tables_went_away_for_a_while_goes_on_when_they_are_back(
    kafka: Any, topics: Topics, records: Records, tmp_path: Path, of: Format, step: str
) -> None:
    filling = Filling(of, kafka, topics, records, tmp_path)
    application = filling.load.start(Moment(getattr(of.kind, step), "call", number=2))
    assert application.until_held(), application.log()[-3000:]
    warehouse, away = tmp_path / "warehouse", tmp_path / "away"
    warehouse.rename(away)
    application.let_go()
    assert application.wait() == AGAIN, application.log()[-3000:]
    shutil.rmtree(warehouse, ignore_errors=True)  # what was begun in its place
    away.rename(warehouse)
    report = filling.load.finish()
    filling.load.prove()
    assert (report.attempt, report.rows_emitted, report.may_be_doubled) == (2, 4 * BATCH, 0)
