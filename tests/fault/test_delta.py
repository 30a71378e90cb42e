"""Ranges as rows of Delta tables, with the real Delta: each batch is one commit, in the table's own layout."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from support.applications import events
from support.lake import OF_DELTA, Lake, Loading, reload_beside_another
from support.outputs import expected_of
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.commits import IDENTITY
from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.outputs import DeltaOutput
from airflow_provider_orderedkafka.spark.tables.layout import STRUCT

# The first one fetches Delta, where it is not there.
pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    found = Lake(tmp_path_factory.mktemp("lake"), OF_DELTA)
    yield found
    found.close()


def another_commit(load: Loading) -> tuple[str, ...]:
    """Statements by which another program commits to the table, so that its history goes on."""
    return (f"ALTER TABLE {load.table} SET TBLPROPERTIES ('a' = 'b')", f"COMMENT ON TABLE {load.table} IS 'c'")


def expire(load: Loading) -> None:
    """Delete what Delta's own cleaning deletes of the log, after its retention: all before the last checkpoint."""
    log = load.folder / "table" / "_delta_log"
    newest = max(int(file.name[:20]) for file in log.glob("*.checkpoint*.parquet"))
    for file in log.glob("*.json"):
        if file.name[:20].isdigit() and int(file.name[:20]) < newest:
            file.unlink()


@pytest.fixture
def loading(lake: Lake, kafka: Any, topics: Topics, records: Records, tmp_path: Path) -> Callable[..., Loading]:
    source = topics.create("a", 3)
    records.produce(source, events(90, 1))

    def make(**output: Any) -> Loading:
        loaded = replace(whole_range(kafka.bootstrap_servers, source, batch_offsets=40), id=f"r-{tmp_path.name}")
        path = {"path": str(tmp_path / "table")} if "table" not in output else {}
        return Loading(lake, kafka.bootstrap_servers, tmp_path, loaded, DeltaOutput(**path, **output))

    return make


@pytest.fixture
def expected(loading: Callable[..., Loading], records: Records) -> list[tuple[str, int, int]]:
    [topic] = loading().loaded.topics
    return sorted(each.position for each in expected_of(records, topic))


def test_a_table_is_made_by_day_and_each_batch_is_one_commit_and_one_file_in_order(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]]
) -> None:
    load = loading()
    report = load.run("--option", "sliceOffsets=10")["report"]
    assert (report["rows_emitted"], report["rows_read"], report["batches"], report["replayed"]) == (90, 90, 3, 0)
    assert load.positions() == expected
    assert len(load.named()) == 3
    [detail] = load.lake.sql(f"DESCRIBE DETAIL {load.table}")
    assert (detail["partitionColumns"], detail["numFiles"]) == (["order_time_day"], 3)
    [found] = load.lake.sql(
        f"SELECT count(DISTINCT _orderedkafka) AS rows, min(_orderedkafka.range_id) AS r FROM {load.table}"
    )
    assert found == {"rows": 90, "r": load.loaded.id}
    for file in (load.folder / "table").glob("order_time_day=*/*.parquet"):
        rows = parquet.ParquetFile(file).read(["order_time", "topic", "partition", "offset"]).to_pylist()
        assert rows == sorted(rows, key=lambda row: tuple(row.values()))


AFTERWARDS = {
    "nothing": (),
    "a compaction": ("OPTIMIZE {table}", "VACUUM {table} RETAIN 0 HOURS"),
    "another load's rows": ("INSERT INTO {table} SELECT * FROM {table} LIMIT 0",),
}


@pytest.mark.parametrize(
    ("die", "then", "identity"),
    [
        ("before", "nothing", True),
        pytest.param("after", "nothing", False, marks=pytest.mark.nightly),
        ("after", "a compaction", True),
        pytest.param("after", "another load's rows", False, marks=pytest.mark.nightly),
    ],
)
def test_an_attempt_that_dies_around_its_commit_leaves_each_row_there_once(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]], die: str, then: str, identity: bool
) -> None:
    load = loading(identity=identity)
    spoil = tuple(statement.format(table=load.table) for statement in AFTERWARDS[then])
    assert load.run(die=die, spoil=spoil)["code"] == "died"
    report = load.run()["report"]
    assert load.positions() == expected
    assert (report["rows_emitted"], report["rows_read"], report["may_be_doubled"]) == (90, 90, 0)
    assert report["replayed"] == (0 if die == "before" else load.first_batch)


@pytest.mark.parametrize("die", [pytest.param("before", marks=pytest.mark.nightly), "after"])
def test_where_the_history_has_expired_the_rows_say_it(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]], die: str
) -> None:
    load = loading(properties={"delta.checkpointInterval": "1"})
    assert load.run(die=die, spoil=another_commit(load))["code"] == "died"
    expire(load)
    report = load.run()["report"]
    assert load.positions() == expected
    assert report["replayed"] == 90 - sum(load.named().values())
    assert (report["replayed"] > 0) == (die == "after")


@pytest.mark.nightly
def test_where_nothing_says_it_any_more_the_load_stops_and_says_so(loading: Callable[..., Loading]) -> None:
    load = loading(identity=False, properties={"delta.checkpointInterval": "1"})
    assert load.run(die="after", spoil=another_commit(load))["code"] == "died"
    expire(load)
    found = load.run()
    assert found["code"] == 65
    assert "whether it is in the table cannot be known any more: version 0 is gone" in found["said"]


@pytest.mark.nightly
def test_a_range_that_is_loaded_again_replaces_its_rows_and_no_other_s(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]]
) -> None:
    reload_beside_another(loading(), loading(), expected)


def test_rows_that_say_nothing_are_not_taken_for_missing_when_later_ones_do(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]]
) -> None:
    load = loading(identity=False)
    assert load.run(die="after")["code"] == "died"
    load.lake.sql(f"ALTER TABLE {load.table} ADD COLUMN {IDENTITY} {STRUCT}")
    load.output = replace(load.output, identity=True)
    found = load.run()
    assert (found["code"], "was begun with output 'delta " in found["said"]) == (2, True), found["said"]
    assert (
        f"without identities', order by none, transform None, now it is output 'delta {load.output.place}'"
        in found["said"]
    )
    load.output = replace(load.output, identity=False)
    assert load.run()["report"]["replayed"] == load.first_batch
    load.output = replace(load.output, identity=True)
    found = load.again().run()
    assert found["code"] == 65
    assert "none says that it is of this range, and 90 do not say which range they are of" in found["said"]
    assert load.positions() == expected


@pytest.mark.nightly
def test_without_identities_a_range_is_not_loaded_again(loading: Callable[..., Loading]) -> None:
    load = loading(identity=False)
    load.run()
    found = load.again().run()
    assert found["code"] == 65
    assert "is to be loaded again, and the table's rows do not say which are its own" in found["said"]


@pytest.mark.nightly
def test_a_batch_that_delta_has_had_before_is_not_left_out_silently(loading: Callable[..., Loading]) -> None:
    load = loading()
    load.run()
    load.checkpoint = load.folder / "lost"
    found = load.run()
    assert found["code"] == 65
    assert "the table left out batch 1" in found["said"]
    assert len(load.positions()) == 90


def test_a_table_that_soon_forgets_which_batches_it_has_had_is_warned_of_with_the_way_out(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]]
) -> None:
    load = loading(properties={"delta.setTransactionRetentionDuration": "interval 6 days"})
    said = load.run()["said"]
    assert "forgets after 'interval 6 days'" in said
    [statement] = re.findall("ALTER TABLE .*", said)
    load.lake.sql(statement)
    load.loaded, load.checkpoint = replace(load.loaded, id="other"), load.folder / "other"
    assert "forgets" not in load.run()["said"]
    assert load.positions() == sorted([*expected, *expected])


@pytest.mark.nightly
def test_a_table_of_ones_own_keeps_its_layout_and_lacks_no_column(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]]
) -> None:
    load = loading(create=False)
    assert "there is no such table, and create=False" in load.run()["said"]
    load.lake.sql(
        f"CREATE TABLE {load.table} (offset BIGINT, topic STRING, partition INT, order_time TIMESTAMP, more STRING) "
        "USING delta PARTITIONED BY (topic)"
    )
    said = load.run("--transform", "support.transforms:positions")["said"]
    [statement] = re.findall(r"add it with (ALTER TABLE .*), or ask", said)
    load.lake.sql(statement)
    assert "has no column 'key', which the rows have" in load.run()["said"]
    assert load.run("--transform", "support.transforms:positions")["report"]["rows_emitted"] == 90
    assert load.positions() == expected
    assert load.lake.sql(f"SELECT DISTINCT more FROM {load.table}") == [{}]


@pytest.mark.nightly
def test_a_table_of_a_catalog_is_written_like_one_by_its_path(
    loading: Callable[..., Loading], expected: list[tuple[str, int, int]]
) -> None:
    load = loading(table=f"orders_{uuid.uuid4().hex}", partition_by=())
    assert load.run(die="after")["code"] == "died"
    assert load.run()["report"]["replayed"] == load.first_batch
    assert load.positions() == expected


@pytest.mark.nightly
def test_a_batch_without_rows_is_a_commit_too(loading: Callable[..., Loading]) -> None:
    load = loading()
    transform = ("--transform", "support.transforms:nothing")
    assert load.run(*transform, die="after")["code"] == "died"
    report = load.run(*transform)["report"]
    assert (report["rows_read"], report["rows_emitted"], report["complete"]) == (90, 0, True)
    assert load.positions() == []


def test_dead_letters_go_to_a_table_of_their_own_once_and_are_loaded_again_by_way_of_a_topic(
    loading: Callable[..., Loading], topics: Topics, records: Records, tmp_path: Path
) -> None:
    [topic] = loading().loaded.topics
    first = [json.dumps({"number": 90}), str(tmp_path / "mended"), "no JSON"]
    records.produce(topic, [Record(each.encode(), 1_600_000_000_000 + n, n, b"k") for n, each in enumerate(first)])
    load, dead = loading(partition_by=()), DeltaOutput(path=str(tmp_path / "dead"))
    load.loaded = replace(load.loaded, batch_offsets=100)  # one batch, whose first commit is that of its dead letters
    decode = Decode(max_bad_records=2, dead_letters=dead)
    argv = ("--arrow-transform", "support.transforms:numbered", "--decode", decode.to_text())
    assert load.run(*argv, die="after")["code"] == "died"
    elsewhere = replace(decode, dead_letters=DeltaOutput(path=str(tmp_path / "elsewhere")))
    assert (
        f"now it is output 'delta {load.output.place}, dead letters in delta {tmp_path / 'elsewhere'}'"
        in (load.run(*argv[:-1], elsewhere.to_text())["said"])
    )
    (tmp_path / "mended").write_text('{"number": 91}')
    report = load.run(*argv)["report"]
    assert (report["rows_emitted"], report["dead_letters"], report["may_be_doubled"]) == (91, 2, 0)
    columns = "topic, partition, CAST(key AS STRING) AS key, CAST(value AS STRING) AS value, _error"
    rows = load.lake.sql(f"SELECT {columns} FROM delta.`{dead.path}` ORDER BY partition")
    assert [(row["topic"], row["partition"], row["key"], row["value"]) for row in rows] == [
        (topic, 1, "k", first[1]),
        (topic, 2, "k", first[2]),
    ]
    assert rows[0]["_error"].startswith("FileNotFoundError: [Errno 2] No such file or directory")
    [numbers] = load.lake.sql(f"SELECT count(DISTINCT number) AS found, count(*) AS rows FROM {load.table}")
    assert numbers == {"found": 91, "rows": 91}

    again = topics.create("again")
    load.lake.copy(f"SELECT key, value, timestamp FROM delta.`{dead.path}`", load.servers, again)
    (tmp_path / "again").mkdir()
    loaded = replace(whole_range(load.servers, again), id=f"{load.loaded.id}-again")
    report = Loading(load.lake, load.servers, tmp_path / "again", loaded, load.output).run(*argv)["report"]
    assert (report["rows_emitted"], report["dead_letters"]) == (1, 1)
    [numbers] = load.lake.sql(f"SELECT count(DISTINCT number) AS found, count(*) AS rows FROM {load.table}")
    assert numbers == {"found": 92, "rows": 92}
