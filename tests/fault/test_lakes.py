"""Ranges as rows of tables of the real Delta and the real Iceberg: each batch is one commit, in the table's own layout.

Each Spark runs in a process of its own, as none has both. The first run on a machine fetches them.
"""

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.applications import START
from support.audited import audited, counted, prove
from support.lake import Lake, Loading, MakeLoading
from support.outputs import Position
from support.plain import as_argument
from support.ranges import whole_range
from support.records import Record, Records
from support.table_formats import DELTA, ICEBERG, STRUCT
from support.topics import Topics

from airflow_provider_orderedkafka.core.commits import IDENTITY
from airflow_provider_orderedkafka.core.order.positions import LARGEST
from airflow_provider_orderedkafka.outputs import IcebergOutput

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

POSITIONS = ("--transform", "support.transforms:positions")
OWN = "offset BIGINT, topic STRING, partition INT, order_time TIMESTAMP, more STRING"
SMALL = 600
"""So few bytes of records go into one file."""


def of(*formats: Any) -> Any:
    """The formats that a test is of, if not of both."""
    return pytest.mark.parametrize("lake", formats, indirect=True, ids=lambda each: each.name)


def one_after_the_other(files: Iterable[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """The rows of all files, each file as it is, the one with the earliest first row first."""
    return [row for file in sorted(files) for row in file]


def test_a_table_is_made_by_day_and_each_batch_is_one_commit_and_one_file_in_order(
    loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading()
    report = load.run("--option", "sliceOffsets=10")["report"]
    assert (report["rows_emitted"], report["rows_read"], report["batches"], report["replayed"]) == (90, 90, 2, 0)
    assert load.positions() == expected
    assert len(load.named()) == 2
    ids = "count(DISTINCT _orderedkafka) AS rows, min(_orderedkafka.range_id) AS id"
    assert load.lake.sql(f"SELECT {ids} FROM {load.table}") == [{"rows": 90, "id": load.loaded.id}]
    files = load.files()
    assert [file.parent.name.partition("=")[0] for file in files] == ["order_time_day"] * 2
    assert (report["files_written"], report["bytes_written"]) == (2, sum(file.stat().st_size for file in files))
    assert report["core_ms"] > 0
    assert one_after_the_other(files.values()) == sorted(row for file in files.values() for row in file)


SET = {
    "key": "X'00'",
    "value": "NULL",
    "topic": "'another'",
    "partition": "NULL",
    "offset": "offset + 1",
    "late": "NOT late",
    "timestampType": "1",
    "timestamp": "timestamp + INTERVAL 1 MICROSECOND",
    "order_time": "order_time - INTERVAL 1 SECOND",
    IDENTITY: "NULL",
}
"""What somebody does to the columns of one row each, from offset 10 of partition 1 on."""


def test_a_table_is_proved_without_spark_and_whatever_was_done_to_a_row_is_found_with_its_place(
    loading: MakeLoading, kafka: Any, capfd: Any
) -> None:
    load = loading()
    load.run(die="after")
    assert load.run()["report"]["replayed"] > 0
    code, found = audited(kafka.bootstrap_servers, load.checkpoint, capfd)
    assert (code, counted(found), found["ranges"][0]["rows"]) == (0, {}, 90)
    load.lake.sql(f"INSERT INTO {load.table} SELECT * FROM {load.table} WHERE partition = 1 AND offset = 3")
    load.lake.sql(f"DELETE FROM {load.table} WHERE partition = 0 AND offset = 5")
    row = f"{IDENTITY}.partition = 1 AND {IDENTITY}.offset ="
    each = (f"{name} = if({row} {offset}, {to}, {name})" for offset, (name, to) in enumerate(SET.items(), 10))
    load.lake.sql(f"UPDATE {load.table} SET {', '.join(each)} WHERE {IDENTITY}.partition = 1")
    code, found = audited(kafka.bootstrap_servers, load.checkpoint, capfd)
    assert (code, counted(found)) == (65, {"missing": 1, "doubled": 1, "altered": len(SET)})
    [topic] = load.loaded.topics
    altered = {f"{topic}[1]@{offset}" for offset, _ in enumerate(SET, 10)}
    assert {place["record"] for place in found["places"]} == {f"{topic}[0]@5", f"{topic}[1]@3", *altered}


def test_a_large_batch_is_several_files_in_order_whatever_the_table_asks(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading(properties=lake.format.shuffling)
    report = load.run("--option", "sliceOffsets=10", file_bytes=SMALL)["report"]
    files = load.files()
    assert len(files) > report["batches"] == len(load.named())
    assert one_after_the_other(files.values()) == sorted(row for file in files.values() for row in file)
    assert load.positions() == expected


@of(DELTA)
def test_a_table_that_another_application_is_making_is_waited_for(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    first, load = loading(), loading()
    first.run(die="before")
    load.output = replace(load.output, path=f"{load.output.path}_begun")
    load.checkpoint = load.folder / "begun"
    begun, made = Path(str(load.output.path)), Path(str(first.output.path)) / "_delta_log" / f"{0:020}.json"
    (begun / "_delta_log" / "_staged_commits").mkdir(parents=True)
    with ThreadPoolExecutor() as threads:
        loaded = threads.submit(load.run)
        lake.until_said("waiting for another application")
        made.rename(begun / "_delta_log" / made.name)
        report = loaded.result()["report"]
    assert (report["rows_emitted"], load.positions()) == (90, expected)


@of(DELTA)
@pytest.mark.parametrize("given", ["path", "table"])
def test_a_folder_of_other_files_is_no_place_for_a_table_until_it_is_deleted(
    lake: Lake, loading: MakeLoading, expected: list[Position], given: str
) -> None:
    name = f"orders_{uuid.uuid4().hex}"
    folder = lake.folder / "warehouse" / name
    load = loading(table=f"default.{name}") if given == "table" else loading()
    if given == "path":
        load.output = replace(load.output, path=str(folder))
    folder.mkdir(parents=True)
    (folder / "other").write_text("of somebody else")
    found = load.run()
    assert found["code"] == 2
    assert str(folder) in found["said"]
    assert (folder / "other").read_text() == "of somebody else"
    shutil.rmtree(folder)
    assert load.run()["report"]["rows_emitted"] == 90
    assert load.positions() == expected


AFTERWARDS: dict[str, Callable[[Loading], object]] = {
    "nothing": lambda load: None,
    "a compaction": Loading.compact,
    "another commit": lambda load: load.lake.sql(f"INSERT INTO {load.table} SELECT * FROM {load.table} LIMIT 0"),
}


@pytest.mark.parametrize(
    ("die", "then"),
    [
        ("before", "nothing"),
        pytest.param("after", "nothing", marks=pytest.mark.nightly),
        ("after", "a compaction"),
        pytest.param("after", "another commit", marks=pytest.mark.nightly),
    ],
)
def test_an_attempt_that_dies_around_its_commit_leaves_each_row_there_once(
    loading: MakeLoading, expected: list[Position], die: str, then: str
) -> None:
    load = loading()
    assert load.run(die=die)["code"] == "died"
    AFTERWARDS[then](load)
    report = load.run()["report"]
    assert load.positions() == expected
    assert (report["rows_emitted"], report["rows_read"], report["may_be_doubled"]) == (90, 90, 0)
    assert report["replayed"] == (0 if die == "before" else load.first_batch)


@pytest.mark.parametrize("die", [pytest.param("before", marks=pytest.mark.nightly), "after"])
def test_where_the_history_has_expired_the_rows_say_it(
    lake: Lake, loading: MakeLoading, expected: list[Position], die: str
) -> None:
    load = loading(properties=lake.format.forgetful)
    assert load.run(die=die)["code"] == "died"
    load.expire()
    report = load.run()["report"]
    assert load.positions() == expected
    assert report["replayed"] == 90 - sum(load.named().values())
    assert (report["replayed"] > 0) == (die == "after")


@of(pytest.param(DELTA, marks=pytest.mark.nightly), ICEBERG)
@pytest.mark.parametrize("batches", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_table_that_its_owner_replaced_by_itself_has_each_row_once(
    loading: MakeLoading, expected: list[Position], batches: int
) -> None:
    load = loading()
    for _ in range(batches):
        assert load.run(die="after")["code"] == "died"
    landed = len(load.positions())
    load.replace()
    report = load.run()["report"]
    assert load.positions() == expected
    assert (report["rows_emitted"], report["may_be_doubled"]) == (90, 0)
    assert 0 < report["replayed"] <= landed


@of(ICEBERG)
@pytest.mark.parametrize("then", [Loading.expire, pytest.param(Loading.replace, marks=pytest.mark.nightly)])
def test_rows_whose_identities_were_dropped_are_not_taken_for_those_of_others(
    loading: MakeLoading, then: Callable[[Loading], None]
) -> None:
    load = loading()
    assert load.run(die="after")["code"] == "died"
    before = load.positions()
    load.lake.sql(f"ALTER TABLE {load.table} DROP COLUMN {IDENTITY}")
    load.lake.sql(f"ALTER TABLE {load.table} ADD COLUMN {IDENTITY} {STRUCT}")
    then(load)
    found = load.run()
    assert found["code"] == 65
    assert f"{len(before)} rows" in found["said"]
    assert load.positions() == before


@of(ICEBERG)
def test_a_batch_that_was_rolled_back_before_it_was_counted_is_written_again(
    loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading()
    for _ in range(2):
        assert load.run(die="after")["code"] == "died"
    [first, _] = load.lake.sql(f"SELECT snapshot_id AS id FROM {load.table}.snapshots ORDER BY committed_at")
    name = load.table.removeprefix("lake.")
    load.lake.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {first['id']})")
    report = load.run()["report"]
    assert load.positions() == expected
    assert (report["rows_emitted"], report["may_be_doubled"]) == (90, 0)


@of(DELTA)
def test_a_batch_that_was_restored_away_is_not_written_again(loading: MakeLoading, expected: list[Position]) -> None:
    load = loading()
    assert load.run(die="after")["code"] == "died"
    gone = load.positions()
    load.lake.sql(f"RESTORE TABLE {load.table} TO VERSION AS OF 0")
    report = load.run()["report"]
    assert load.positions() == sorted(set(expected) - set(gone))
    assert report["replayed"] == len(gone)


@of(DELTA)
def test_others_that_commit_between_two_looks_at_the_history_hide_nothing(
    loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading()
    beside = f"ALTER TABLE {load.table} SET TBLPROPERTIES ('somebody' = 'else')"
    assert load.run(die="after", beside=beside)["code"] == "died"
    report = load.run(beside=beside)["report"]
    assert load.positions() == expected
    assert (report["replayed"], report["may_be_doubled"]) == (load.first_batch, 0)


@of(DELTA)
def test_a_table_whose_metadata_somebody_changes_while_a_batch_is_written_has_each_row_once(
    loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading()
    found = load.run(during=f"ALTER TABLE {load.table} SET TBLPROPERTIES ('somebody' = 'else')")
    assert "batch 1 " in found["said"]
    assert load.positions() == expected
    assert (found["report"]["rows_emitted"], found["report"]["may_be_doubled"]) == (90, 0)


@of(pytest.param(DELTA, marks=pytest.mark.nightly), ICEBERG)
def test_a_range_that_is_loaded_again_replaces_its_rows_and_no_other_s(
    loading: MakeLoading, expected: list[Position]
) -> None:
    load, other = loading(), loading()
    other.loaded, other.checkpoint = replace(other.loaded, id="other"), other.folder / "other"
    load.run()
    other.run()
    assert load.positions() == sorted([*expected, *expected])
    assert load.again().run(die="after")["code"] == "died"
    assert load.run()["report"]["rows_emitted"] == 90
    assert load.positions() == sorted([*expected, *expected])


@of(DELTA, pytest.param(ICEBERG, marks=pytest.mark.nightly))
def test_a_range_is_not_loaded_again_beside_rows_that_may_be_its_own_and_say_nothing(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading()
    load.run()
    lake.sql(f"UPDATE {load.table} SET {IDENTITY} = NULL")
    found = load.again().run()
    assert found["code"] == 65
    assert " 90 " in found["said"]
    assert load.positions() == expected


def now_ms(hours: float = 0) -> int:
    return time.time_ns() // 1_000_000 + round(hours * 3_600_000)


def test_maintenance_makes_one_file_of_a_day_and_deletes_what_was_before_and_what_no_version_has(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading(properties=lake.format.forgetful)
    load.loaded = replace(load.loaded, batch_offsets=15)
    batches = load.run()["report"]["batches"]
    [first, *_] = files = load.files()
    assert len(files) == batches >= 5, "fewer files Iceberg leaves as they are"
    for name, days in (("old", 3), ("new", 1)):
        shutil.copy(first, left := first.with_name(f"{name}.parquet"))
        os.utime(left, (time.time() - days * 86_400,) * 2)
    lake.sql(f"DELETE FROM {load.table} WHERE offset % 3 = 0")
    load.maintain(now_ms(-36))
    [rows] = load.files().values()
    assert sorted(row[1:] for row in rows) == [each for each in expected if each[2] % 3]
    assert {first, first.with_name("new.parquet")} <= {*load.stored()} - {first.with_name("old.parquet")}
    load.maintain(now_ms(0.1))
    assert {*load.stored()} - {first.with_name("new.parquet")} == {*load.files()}
    assert load.positions() == sorted(row[1:] for row in rows)


def test_a_killed_range_finds_what_landed_where_maintenance_has_kept_what_was_there_when_it_was_planned(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    other, load = loading(), loading()
    other.loaded, other.checkpoint = replace(other.loaded, id="other"), other.folder / "other"
    other.run()
    planned = now_ms()
    assert load.run(die="after")["code"] == "died"
    landed = load.first_batch
    load.maintain(planned)
    kept = sum(name.startswith("other/") for name in load.named())
    assert kept == (1 if lake.format is ICEBERG else 2), "of two, the one that was there; Delta's log stays"
    lake.sql(f"UPDATE {load.table} SET {IDENTITY} = NULL")  # so that rows tell nothing
    report = load.run()["report"]
    assert (report["replayed"], report["may_be_doubled"]) == (landed, 0)
    assert load.positions() == sorted([*expected, *expected])


@pytest.mark.nightly
def test_a_batch_without_rows_is_a_commit_too(loading: MakeLoading) -> None:
    load = loading()
    transform = ("--transform", "support.transforms:nothing")
    assert load.run(*transform, die="after")["code"] == "died"
    report = load.run(*transform)["report"]
    assert (report["rows_read"], report["rows_emitted"], report["complete"]) == (90, 0, True)
    assert load.positions() == []


def test_dead_letters_go_to_a_table_of_their_own_and_are_loaded_again_by_way_of_a_topic(
    lake: Lake, loading: MakeLoading, topics: Topics, records: Records, tmp_path: Path
) -> None:
    [topic] = loading().loaded.topics
    first = [json.dumps({"number": 90}), str(tmp_path / "mended"), "no JSON"]
    records.produce(topic, [Record(each.encode(), 1_600_000_000_000 + n, n, b"k") for n, each in enumerate(first)])
    load = loading(partition_by=())
    output = lake.format.output(lake.folder, f"dead_{uuid.uuid4().hex}")
    dead = Loading(lake, load.servers, tmp_path, load.loaded, output)
    load.loaded = replace(load.loaded, batch_offsets=100)  # one batch, whose first commit is that of its dead letters
    allowed = ("--bad-records", "2", "--dead-letters")
    argv = ("--arrow-transform", "support.transforms:numbered", *allowed, as_argument(dead.output))
    assert load.run(*argv, die="after")["code"] == "died"
    elsewhere = lake.format.output(lake.folder, "elsewhere")
    moved = as_argument(elsewhere)
    said = load.run(*argv[:-1], moved)["said"]
    assert repr(dead.output.place) in said
    assert repr(elsewhere.place) in said
    (tmp_path / "mended").write_text('{"number": 91}')
    report = load.run(*argv)["report"]
    assert (report["rows_emitted"], report["dead_letters"], report["may_be_doubled"]) == (91, 2, 0)
    columns = "topic, partition, CAST(key AS STRING) AS key, CAST(value AS STRING) AS value, _error"
    rows = lake.sql(f"SELECT {columns} FROM {dead.table} ORDER BY partition")
    assert [(row["topic"], row["partition"], row["key"], row["value"]) for row in rows] == [
        (topic, 1, "k", first[1]),
        (topic, 2, "k", first[2]),
    ]
    assert rows[0]["_error"].startswith("FileNotFoundError: [Errno 2] No such file or directory")
    numbers = f"SELECT count(DISTINCT number) AS found, count(*) AS rows FROM {load.table}"
    assert lake.sql(numbers) == [{"found": 91, "rows": 91}]

    again = topics.create("again")
    lake.copy(f"SELECT key, value, timestamp FROM {dead.table}", load.servers, again)
    load.loaded = replace(whole_range(load.servers, again), id=f"{load.loaded.id}-again")
    load.checkpoint = tmp_path / "again"
    report = load.run(*argv)["report"]
    assert (report["rows_emitted"], report["dead_letters"]) == (1, 1)
    assert lake.sql(numbers) == [{"found": 92, "rows": 92}]


@pytest.mark.nightly
@of(DELTA)
def test_delta_leaves_out_no_batch_silently_that_it_has_had_before(loading: MakeLoading) -> None:
    load = loading()
    load.run()
    load.checkpoint = load.folder / "lost"
    found = load.run()
    assert found["code"] == 65
    assert "batch 1 " in found["said"]
    assert len(load.positions()) == 90


@of(DELTA)
def test_a_table_that_soon_forgets_which_batches_it_has_had_is_warned_of_with_the_way_out(
    loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading(properties={"delta.setTransactionRetentionDuration": "interval 6 days"})
    said = load.run()["said"]
    assert "'interval 6 days'" in said
    [statement] = re.findall("ALTER TABLE .*", said)
    load.lake.sql(statement)
    load.loaded, load.checkpoint = replace(load.loaded, id="other"), load.folder / "other"
    assert "forgets" not in load.run()["said"]
    assert load.positions() == sorted([*expected, *expected])


@of(DELTA)
def test_delta_reads_its_log_in_few_tasks_unless_the_session_says_otherwise(lake: Lake, loading: MakeLoading) -> None:
    name = "spark.databricks.delta.snapshotPartitions"
    for before, after in (("", "2"), ("3", "3")):
        lake.sql(f"SET {name}={before}" if before else f"RESET {name}")
        loading(create=False).run()
        assert lake.sql(f"SET {name}") == [{"key": name, "value": after}]
    lake.sql(f"RESET {name}")


@pytest.mark.nightly
@of(DELTA)
def test_a_table_of_a_catalog_is_written_like_one_by_its_path(loading: MakeLoading, expected: list[Position]) -> None:
    load = loading(table=f"orders_{uuid.uuid4().hex}", partition_by=())
    assert load.run(die="after")["code"] == "died"
    assert load.run()["report"]["replayed"] == load.first_batch
    assert load.positions() == expected


@of(ICEBERG)
def test_a_table_may_have_a_name_with_a_dash(loading: MakeLoading) -> None:
    load = loading()
    load.output = IcebergOutput(f"lake.shop.the-orders-{uuid.uuid4().hex}")
    ended = load.run()
    assert ended["code"] == 0, ended["said"]
    prove(load.servers, load.checkpoint)


@of(ICEBERG)
def test_what_a_writer_left_that_was_killed_before_it_committed_hides_no_table(loading: MakeLoading) -> None:
    load = loading()
    load.run()
    metadata = load.lake.format.place(load.lake.folder, load.output) / "metadata"
    (metadata / f"{uuid.uuid4()}.metadata.json").write_text("{}")
    prove(load.servers, load.checkpoint)


def test_times_that_a_producer_gave_in_microseconds_are_no_other_ones_to_an_audit(
    loading: MakeLoading, topics: Topics, records: Records
) -> None:
    load = loading()
    source = topics.create("b", config={"message.timestamp.after.max.ms": LARGEST})
    records.produce(source, [Record(b"v", START * unit) for unit in (1, 1_000)])
    load.loaded = whole_range(load.servers, source)
    load.run()
    prove(load.servers, load.checkpoint)


@of(ICEBERG)
def test_the_sort_order_that_a_table_has_of_its_own_wins(lake: Lake, loading: MakeLoading) -> None:
    load = loading(create=False)
    lake.sql(f"CREATE TABLE {load.table} ({OWN}, {IDENTITY} {STRUCT}) USING iceberg")
    lake.sql(f"ALTER TABLE {load.table} WRITE ORDERED BY offset DESC")
    assert load.run(*POSITIONS)["report"]["batches"] == 2
    offsets = [[offset for *_, offset in rows] for rows in load.files().values()]
    assert len(offsets) == 2
    assert offsets == [sorted(each, reverse=True) for each in offsets]


@of(ICEBERG)
def test_a_session_that_writes_apart_from_main_is_refused(lake: Lake, loading: MakeLoading) -> None:
    load = loading(properties={"write.wap.enabled": "true"})
    lake.sql("SET spark.wap.branch = audit")
    refused = load.run()
    lake.sql("RESET spark.wap.branch")
    assert (refused["code"], "spark.wap.branch" in refused["said"], load.positions()) == (2, True, []), refused["said"]
