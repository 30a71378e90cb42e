"""Ranges as rows of Iceberg tables, with the real Iceberg on a Spark that it has: each batch is one snapshot."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.applications import events
from support.lake import PACKAGES, Lake, Loading, python_of, reload_beside_another
from support.outputs import expected_of
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.outputs import IcebergOutput

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

SPARK, PACKAGE = "4.1.3", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
CATALOG = "spark.sql.catalog.lake"
Positions = list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    settings = {
        "spark.jars.packages": PACKAGES or PACKAGE,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        f"{CATALOG}.type": "hadoop",
        f"{CATALOG}.warehouse": str(folder / "warehouse"),
    }
    found = Lake(folder, settings, python_of(SPARK))
    yield found
    found.close()


@pytest.fixture
def loading(lake: Lake, kafka: Any, topics: Topics, records: Records, tmp_path: Path) -> Callable[..., Loading]:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))
    name = source.replace("-", "_").replace(".", "_")

    def make(**output: Any) -> Loading:
        loaded = replace(whole_range(kafka.bootstrap_servers, source, batch_offsets=40), id=f"r-{tmp_path.name}")
        return Loading(lake, kafka.bootstrap_servers, tmp_path, loaded, IcebergOutput(f"lake.shop.{name}", **output))

    return make


@pytest.fixture
def expected(loading: Callable[..., Loading], records: Records) -> Positions:
    [topic] = loading().loaded.topics
    return sorted(each.position for each in expected_of(records, topic))


def rewritten(load: Loading) -> str:
    return f"CALL lake.system.rewrite_data_files(table => '{load.table}', options => map('rewrite-all', 'true'))"


def expired(load: Loading) -> str:
    """All snapshots but the newest."""
    now = "TIMESTAMP '2100-01-01'"
    return f"CALL lake.system.expire_snapshots(table => '{load.table}', older_than => {now}, retain_last => 1)"


def test_a_table_is_made_by_day_and_each_batch_is_one_snapshot_and_one_file(
    loading: Callable[..., Loading], expected: Positions
) -> None:
    load = loading()
    report = load.run("--option", "sliceOffsets=10")["report"]
    assert (report["rows_emitted"], report["rows_read"], report["batches"], report["replayed"]) == (90, 90, 3, 0)
    assert load.positions() == expected
    assert len(load.named()) == 3
    files = load.lake.sql(f"SELECT partition, record_count FROM {load.table}.files")
    assert len(files) == 3
    assert {tuple(file["partition"]) for file in files} == {("order_time_day",)}
    [found] = load.lake.sql(f"SELECT count(DISTINCT _orderedkafka) AS rows FROM {load.table}")
    assert found == {"rows": 90}
    for file in load.lake.sql(f"SELECT DISTINCT input_file_name() AS name FROM {load.table}"):
        query = f"SELECT order_time, topic, partition, offset FROM {load.table}"
        rows = [tuple(row.values()) for row in load.lake.sql(f"{query} WHERE input_file_name() = '{file['name']}'")]
        assert rows == sorted(rows)


@pytest.mark.parametrize("identity", [True, pytest.param(False, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("die", "then"),
    [("before", ()), pytest.param("after", (), marks=pytest.mark.nightly), ("after", (rewritten,))],
)
def test_an_attempt_that_dies_around_its_commit_leaves_each_row_there_once(
    loading: Callable[..., Loading], expected: Positions, die: str, then: tuple[Any, ...], identity: bool
) -> None:
    load = loading(identity=identity)
    assert load.run(die=die, spoil=tuple(make(load) for make in then))["code"] == "died"
    report = load.run()["report"]
    assert load.positions() == expected
    assert (report["rows_emitted"], report["rows_read"], report["may_be_doubled"]) == (90, 90, 0)
    assert report["replayed"] == (0 if die == "before" else load.first_batch)


def test_where_the_snapshots_have_expired_the_rows_say_it(loading: Callable[..., Loading], expected: Positions) -> None:
    load = loading()
    dead = load.run(die="after", spoil=(rewritten(load), expired(load)))
    assert dead["code"] == "died"
    assert load.named() == {}
    report = load.run()["report"]
    assert load.positions() == expected
    assert report["replayed"] == 90 - sum(load.named().values()) > 0


@pytest.mark.nightly
def test_where_nothing_says_it_any_more_the_load_stops_and_says_so(loading: Callable[..., Loading]) -> None:
    load = loading(identity=False)
    assert load.run(die="after", spoil=(rewritten(load), expired(load)))["code"] == "died"
    found = load.run()
    assert found["code"] == 65
    assert "whether it is in the table cannot be known any more" in found["said"]


def test_a_range_that_is_loaded_again_replaces_its_rows_and_no_other_s(
    loading: Callable[..., Loading], expected: Positions
) -> None:
    reload_beside_another(loading(), loading(), expected)


@pytest.mark.nightly
def test_a_table_of_ones_own_keeps_its_layout(loading: Callable[..., Loading], expected: Positions) -> None:
    load = loading(create=False, identity=False)
    assert "there is no such table, and create=False" in load.run()["said"]
    load.lake.sql(
        f"CREATE TABLE {load.table} (offset BIGINT, topic STRING, partition INT, order_time TIMESTAMP, more STRING) "
        "USING iceberg PARTITIONED BY (bucket(2, offset))"
    )
    assert "has no column 'key', which the rows have" in load.run()["said"]
    assert load.run("--transform", "support.transforms:positions")["report"]["rows_emitted"] == 90
    assert load.positions() == expected
    assert load.lake.sql(f"SELECT DISTINCT more FROM {load.table}") == [{}]


@pytest.mark.nightly
def test_a_batch_without_rows_is_a_commit_too(loading: Callable[..., Loading]) -> None:
    load = loading()
    transform = ("--transform", "support.transforms:nothing")
    assert load.run(*transform, die="after")["code"] == "died"
    report = load.run(*transform)["report"]
    assert (report["rows_read"], report["rows_emitted"], report["complete"]) == (90, 0, True)
    assert load.positions() == []


def test_dead_letters_go_to_a_table_of_their_own_once(loading: Callable[..., Loading], records: Records) -> None:
    [topic] = loading().loaded.topics
    records.produce(topic, [Record(b"no JSON", 1_600_000_000_000, 0, b"k")])
    load = loading(partition_by=())
    load.loaded = replace(load.loaded, batch_offsets=100)  # one batch, whose first commit is that of its dead letters
    dead = IcebergOutput(f"{load.table}_dead")
    decode = Decode(max_bad_records=1, dead_letters=dead)
    argv = ("--arrow-transform", "support.transforms:numbered", "--decode", decode.to_text())
    assert load.run(*argv, die="after")["code"] == "died"
    report = load.run(*argv)["report"]
    assert (report["rows_emitted"], report["dead_letters"], report["may_be_doubled"]) == (90, 1, 0)
    found = load.lake.sql(f"SELECT topic, partition, CAST(value AS STRING) AS value FROM {dead.table}")
    assert found == [{"topic": topic, "partition": 0, "value": "no JSON"}]
    assert load.lake.sql(f"SELECT count(DISTINCT number) AS rows FROM {load.table}") == [{"rows": 90}]
