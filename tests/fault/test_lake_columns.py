"""Columns of tables of the real Delta and the real Iceberg: days that partition one, and what rows get later."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from support.audited import audit_of
from support.lake import Lake, Loading, MakeLoading, added_with
from support.outputs import Position
from support.ranges import whole_range
from support.records import Records, at
from support.table_formats import DELTA, ICEBERG, STRUCT
from support.topics import Topics

from airflow_provider_orderedkafka.core.commits import IDENTITY

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

OWN = "offset BIGINT, topic STRING, partition INT, order_time TIMESTAMP, more STRING"


POSITIONS = ("--transform", "support.transforms:positions")
GROWN = ("--transform", "support.transforms:grown")
OLD = "s STRUCT<a: {0}, z: STRING>, l ARRAY<STRUCT<a: {0}>>, m MAP<STRING, STRUCT<a: {0}>>, n {0}"
NEW = ["s.b", "l.element.b", "m.value.b", "state"]


def table_of(load: Loading, kind: str, identity: str = f", {IDENTITY} {STRUCT}") -> None:
    load.lake.sql(f"CREATE TABLE {load.table} ({OWN}, {OLD.format(kind)}{identity}) USING {load.lake.format.name}")


def as_range(load: Loading, name: str, **output: Any) -> Loading:
    """Another range of the same records, into the same table."""
    load.loaded, load.checkpoint = replace(load.loaded, id=name), load.folder / name
    load.output = replace(load.output, **output)
    return load


DAY = 1_700_006_400_000
"""When 2023-11-15 began, in UTC."""

TIMES = [DAY + minutes * 60_000 for minutes in (30, 720, 1410, 1440)]
"""Early, at noon and late on that day, and at midnight."""

DATED = ("--transform", "support.transforms:dated")


def of_times(load: Loading, topics: Topics, records: Records) -> Loading:
    topic = topics.create("times")
    records.produce(topic, at(*TIMES))
    load.loaded = replace(whole_range(load.servers, topic), id=load.loaded.id)
    return load


def offsets(load: Loading, condition: str) -> list[int]:
    found = load.lake.sql(f"SELECT offset FROM {load.table} WHERE {condition} ORDER BY offset")
    return [row["offset"] for row in found]


@pytest.mark.parametrize("lake", [DELTA], indirect=True, ids=["delta"])
def test_days_that_partition_a_table_are_those_of_utc_and_no_reader_misses_a_row_whatever_zones_sessions_have(
    lake: Lake, loading: MakeLoading, topics: Topics, records: Records
) -> None:
    load = of_times(loading(partition_by=("days(order_time)", "days(long_ago)")), topics, records)
    zones = ("America/Los_Angeles", "UTC", "Asia/Tokyo")
    found = {}
    try:
        for zone in zones:
            lake.sql(f"SET spark.sql.session.timeZone={zone}")
            assert as_range(load, zone.partition("/")[0]).run(*DATED)["code"] == 0
        for zone in zones:
            lake.sql(f"SET spark.sql.session.timeZone={zone}")
            times = (">= '2023-11-15T00:10:00Z'", ">= '2023-11-15T23:10:00Z'", "<= '2023-11-15T00:40:00Z'")
            found[zone] = [offsets(load, f"order_time {each}") for each in times]
    finally:
        lake.sql("SET spark.sql.session.timeZone=UTC")
    rows = [[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], [2, 2, 2, 3, 3, 3], [0, 0, 0]]
    assert list(found.values()) == [rows, rows, rows]
    days = lake.sql(f"SELECT DISTINCT offset, order_time_day, long_ago_day FROM {load.table} ORDER BY offset")
    first, then = ("2023-11-15", "1969-02-11"), ("2023-11-16", "1969-02-12")
    assert [tuple(row.values()) for row in days] == [(0, *first), (1, *first), (2, *first), (3, *then)]


@pytest.mark.parametrize("lake", [DELTA], indirect=True, ids=["delta"])
@pytest.mark.parametrize("day", ["order_time_day = '2023-11-15'", "order_time < '2023-11-16T00:00:00Z'"])
def test_who_asks_for_a_day_or_for_its_times_reads_no_file_of_another_day(
    loading: MakeLoading, topics: Topics, records: Records, day: str
) -> None:
    load = of_times(loading(), topics, records)
    load.run(*DATED)
    [other] = [file for file, rows in load.files().items() if len(rows) == 1]
    other.unlink()
    assert offsets(load, day) == [0, 1, 2]


def test_new_columns_are_refused_left_out_or_added_as_is_said_and_told_by_report_and_audit(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading(create=False)
    table_of(load, "BIGINT")
    refused = load.run(*GROWN)
    assert (refused["code"], load.positions()) == (2, []), refused["said"]
    assert all(repr(name) in refused["said"] for name in NEW)
    ignored = as_range(load, "ignored", new_columns="ignore").run(*GROWN)
    assert ignored["said"].count("'l.element.b'") == 1
    assert (ignored["report"]["columns_left_out"], ignored["report"]["columns_added"]) == (NEW, [])
    load = as_range(load, "added", new_columns="add")
    assert load.run(*GROWN, die="before")["code"] == "died"
    report = load.run(*GROWN)["report"]
    assert (sorted(report["columns_added"]), report["columns_left_out"]) == (sorted(NEW), [])
    again = as_range(load, "again", new_columns="fail").run(*GROWN)["report"]
    assert (again["columns_added"], again["columns_left_out"], load.positions()) == ([], [], sorted(expected * 3))
    found = lake.sql(f"SELECT DISTINCT _orderedkafka.range_id AS id, state, s, l, to_json(m) AS m FROM {load.table}")
    rows = {row["id"]: row for row in found}
    assert len(rows) == len(found) == 3
    assert rows["ignored"] == {"id": "ignored", "s": {"a": 1}, "l": [{"a": 1}], "m": '{"k":{"a":1}}'}
    both = {"a": 1, "b": 2}
    assert rows["added"] == {"id": "added", "state": "paid", "s": both, "l": [both], "m": '{"k":{"a":1,"b":2}}'}
    for name, said in (("ignored", "left out: 's.b'"), ("added", "added: ")):
        audit = audit_of(load.servers, load.folder / name)
        assert (audit.exit_code, said in audit.text) == (0, True), audit.text


def test_a_column_that_is_too_narrow_is_widened_where_the_format_can_and_else_refused_with_the_way_out(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading(create=False)
    table_of(load, "INT", "")
    for new in ("fail", "ignore"):
        assert " TYPE bigint" in as_range(load, new, new_columns=new).run(*GROWN)["said"]
    load = as_range(load, "added", new_columns="add")
    if lake.format is DELTA:
        [statement] = re.findall(r"(ALTER TABLE \S+ SET TBLPROPERTIES .*?);", load.run(*GROWN)["said"])
        lake.sql(statement)
    report = load.run(*GROWN)["report"]
    wider = ["s.a", "l.element.a", "m.value.a", "n"]
    assert sorted(report["columns_added"]) == sorted([*NEW, *wider, IDENTITY])
    assert load.positions() == expected
    audit = audit_of(load.servers, load.checkpoint)  # what reads Delta without Spark cannot read a widened table yet
    assert (audit.exit_code, "added: " in audit.text) == (0 if lake.format is ICEBERG else 65, True)
    lake.sql(f"ALTER TABLE {load.table} ADD COLUMN key DATE")
    for new in ("fail", "ignore", "add"):
        refused = as_range(load, f"refused-{new}", new_columns=new).run()
        assert (refused["code"], "'key'" in refused["said"]) == (2, True)


def test_members_of_structs_keep_their_names_in_a_table_that_is_made(lake: Lake, loading: MakeLoading) -> None:
    load = loading()
    assert load.run("--transform", "support.transforms:oddly_named")["code"] == 0
    [row] = lake.sql(f"SELECT DISTINCT to_json(odd) AS odd FROM {load.table}")
    assert json.loads(row["odd"]) == {"user-id": 1, "a.b": [{"$x": 2}], "@m": {"k": {"`": 3}}}


@pytest.mark.parametrize(
    "lake", [pytest.param(DELTA, marks=pytest.mark.nightly), ICEBERG], indirect=True, ids=lambda each: each.name
)
def test_a_table_of_ones_own_keeps_its_layout_and_lacks_no_column(
    lake: Lake, loading: MakeLoading, expected: list[Position]
) -> None:
    load = loading(create=False)
    assert "create=False" in load.run()["said"]
    lake.sql(f"CREATE TABLE {load.table} ({OWN}) USING {lake.format.name} PARTITIONED BY (partition)")
    lake.sql(added_with(load.run(*POSITIONS)["said"]))
    assert "'key'" in load.run()["said"]
    assert load.run(*POSITIONS)["report"]["rows_emitted"] == 90
    assert load.positions() == expected
    assert lake.sql(f"SELECT DISTINCT more FROM {load.table}") == [{}]
    assert {file.parent.name for file in load.files()} == {"partition=0", "partition=1", "partition=2"}


@pytest.mark.parametrize("lake", [DELTA], indirect=True, ids=["delta"])
@pytest.mark.parametrize("kind", ["STRING", "VARCHAR(200)"])
def test_a_column_that_would_add_spaces_to_texts_is_refused_with_the_way_out(
    lake: Lake, loading: MakeLoading, expected: list[Position], kind: str
) -> None:
    load = loading()
    lake.sql(f"CREATE TABLE {load.table} ({OWN.replace('STRING', 'CHAR(200)')}, {IDENTITY} {STRUCT}) USING delta")
    refused = load.run(*POSITIONS)
    assert (refused["code"], load.positions()) == (2, []), refused["said"]
    [statement] = re.findall(r"ALTER TABLE .* TYPE STRING", refused["said"])
    lake.sql(statement.replace("STRING", kind))
    assert load.run(*POSITIONS)["code"] == 0
    assert load.positions() == expected


@pytest.mark.parametrize("lake", [DELTA], indirect=True, ids=["delta"])
def test_parts_of_columns_that_would_add_spaces_to_texts_are_refused_too(lake: Lake, loading: MakeLoading) -> None:
    load = loading()
    table_of(load, "CHAR(9)")
    for new in ("fail", "ignore", "add"):
        refused = as_range(load, new, new_columns=new).run(*GROWN)
        assert (refused["code"], load.positions()) == (2, []), refused["said"]
        assert "'s', 'l', 'm', 'n'" in refused["said"]
