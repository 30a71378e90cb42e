"""Upserts in tables of the real Delta and the real Iceberg: a table has, for each key, the row of its last change."""

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.audited import audit_of, audited, prove
from support.histories import HISTORIES, History
from support.lake import Lake
from support.records import Record, Records
from support.table_formats import DELTA, ICEBERG
from support.topics import Topics
from support.upserts import START, Upserts, changes

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]


@pytest.fixture
def upserts(lake: Lake, kafka: Any, topics: Topics, tmp_path: Path) -> Upserts:
    return Upserts(lake, kafka.bootstrap_servers, tmp_path, topics.create("a", 3))


def test_a_table_has_the_last_row_of_each_key_and_the_report_says_what_changed(
    upserts: Upserts, records: Records
) -> None:
    chance = random.Random(1)
    before: dict[str, Any] = {}
    for begin in (0, 100):
        records.produce(upserts.topic, changes(100, chance, begin=begin))
        ended = upserts.run()
        assert ended["code"] == 0, ended["said"]
        after = upserts.expected(records)
        assert upserts.rows() == after
        found, gone = ended["report"]["changes"], 12 - len(after)
        inserted = {key for key in after if key not in before}
        assert ended["report"]["rows_emitted"] == 100
        assert (found["inserted"], found["deleted"]) == (len(inserted), gone)
        assert (found["updated"], found["unchanged"], found["unknown"]) == (len(after) - len(inserted), 0, 0)
        before = after


def died(ended: dict[str, Any]) -> None:
    assert ended["code"] == "died", ended["said"]


@pytest.mark.parametrize("swapped", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_whatever_is_killed_rewound_replayed_or_compacted_the_table_is_its_topic(
    upserts: Upserts, records: Records, swapped: bool
) -> None:
    """Keys move between partitions in Delta, and stay in Iceberg, or the other way round."""
    stay = (upserts.lake.format is ICEBERG) != swapped
    chance = random.Random(2 + stay)
    for begin in (0, 80):
        records.produce(upserts.topic, changes(80, chance, begin=begin, stay=stay))
        died(upserts.run(die=chance.choice(("before", "after"))))
        upserts.done()
        assert upserts.rows() == upserts.expected(records)
        prove(upserts.servers, upserts.checkpoint)
    upserts.rewind({partition: chance.choice((0, 5)) for partition in chance.sample(range(3), 2)})
    died(upserts.run(die="after"))
    upserts.done(again=True)
    prove(upserts.servers, upserts.checkpoint)
    upserts.lake.format.compact(upserts.lake.sql, upserts.table)
    assert upserts.rows() == upserts.expected(records)
    upserts.replay()
    assert upserts.rows() == upserts.expected(records)


def test_a_rewind_with_another_transform_gives_the_last_row_of_each_key_its_values_anew(
    upserts: Upserts, records: Records
) -> None:
    upserts.transform = ("--transform", "support.transforms:first_version")
    records.produce(upserts.topic, changes(80, random.Random(5)))
    upserts.done()
    upserts.rewind(dict.fromkeys(range(3), 0))
    upserts.transform = ("--transform", "support.transforms:second_version")
    found = upserts.done(again=True)
    assert found["changes"]["inserted"] == 0
    assert upserts.rows() == upserts.expected(records)
    assert {json.loads(value)["version"] for _, value in upserts.values()} == {2}


def test_batches_without_rows_change_nothing(upserts: Upserts, records: Records) -> None:
    upserts.transform = ("--transform", "support.transforms:nothing")
    records.produce(upserts.topic, changes(20, random.Random(7)))
    report = upserts.done()
    assert (report["rows_read"], report["rows_emitted"], upserts.rows()) == (20, 0, {})


def test_two_attempts_that_insert_one_new_key_at_once_make_one_row(upserts: Upserts, records: Records) -> None:
    records.produce(upserts.topic, changes(60, random.Random(6)))
    ended = upserts.run(die="twice")
    assert ended["code"] == 0, ended["said"]
    assert upserts.rows() == upserts.expected(records)


@pytest.mark.parametrize("lake", [DELTA], indirect=True, ids=["delta"])
def test_the_days_that_partition_a_table_stay_those_of_its_times_however_the_load_names_them(
    upserts: Upserts, records: Records
) -> None:
    for begin, partition_by in enumerate((("days(Order_Time)",), ("days(order_time)",), None)):
        upserts.output = replace(upserts.output, partition_by=partition_by)
        records.produce(upserts.topic, changes(40, random.Random(8), begin=40 * begin))
        upserts.done()
        assert upserts.rows() == upserts.expected(records)
    wrong = f"SELECT * FROM {upserts.table} WHERE NOT (order_time_day <=> CAST(order_time AS DATE))"
    assert upserts.lake.sql(wrong) == []


def test_a_key_may_have_any_name_in_any_case_and_begin_with_a_boolean(
    lake: Lake, kafka: Any, topics: Topics, records: Records, tmp_path: Path
) -> None:
    key = ["is_known", "THE-key"]
    upserts = Upserts(lake, kafka.bootstrap_servers, tmp_path, topics.create("a", 3), upsert=key)
    records.produce(upserts.topic, changes(40, random.Random(9)))
    upserts.done("--transform", "support.transforms:keyed")
    assert upserts.rows() == upserts.expected(records)


@pytest.mark.parametrize("lake", [DELTA], indirect=True, ids=["delta"])
def test_no_key_comes_in_twice_because_delta_keeps_another_value_where_it_partitions_the_table(
    upserts: Upserts, records: Records
) -> None:
    records.produce(upserts.topic, changes(40, random.Random(10)))
    upserts.output = replace(upserts.output, partition_by=("key",))
    ended = upserts.run()
    assert (ended["code"], "'key'" in ended["said"]) == (2, True), ended["said"]
    upserts.output = replace(upserts.output, upsert=("name",), partition_by=("Name",))
    upserts.transform = ("--transform", "support.transforms:named")
    upserts.done()
    assert upserts.rows() == upserts.expected(records)
    records.produce(upserts.topic, [Record(b"1", START + 1_000, 0, b"")])
    ended = upserts.run(*upserts.transform)
    assert (ended["code"], "'name'" in ended["said"]) == (65, True), ended["said"]


def version(value: str, *keys: str, deleted: tuple[str, ...] = ()) -> list[Record]:
    """A change of each key, and deletes of some; every key stays in its partition."""
    values = {**dict.fromkeys(keys, value.encode()), **dict.fromkeys(deleted)}
    at = START + int(value) * 1_000
    return [Record(each, at + len(key), len(key) % 3, key.encode()) for key, each in values.items()]


OLDER = ("stale", "resurrected", "undeleted")
UPDATED = (
    ("shown", "_is_deleted", "false"),
    ("altered", "value", "CAST('3' AS BINARY)"),
    ("moved", "_orderedkafka.order_time", "order_time + INTERVAL 1 SECOND"),
    ("named", "_orderedkafka.range_id", "'another'"),
    ("renamed", "key", "CAST('other' AS BINARY)"),
    ("ahead", "_orderedkafka.offset", "99"),
    ("ahead", "offset", "99"),
)
PLANTED = {
    "DELETE FROM {table} WHERE {keys}": ("missing", *OLDER),
    "INSERT INTO {table} SELECT * FROM {table} VERSION AS OF {older} WHERE {keys}": OLDER,
    "INSERT INTO {table} SELECT * FROM {table} WHERE {keys}": ("doubled",),
    "UPDATE {table} SET _orderedkafka = NULL WHERE {keys}": ("silent",),
    "UPDATE {table} SET {updated} WHERE {keys}": tuple(key for key, *_ in UPDATED),
}
"""What somebody does to the rows of some keys, each named after what is found, but for those in `FOUND`."""

FOUND = {
    "shown": [("resurrected", "shown"), ("altered", "shown")],  # what its delete left out is not there
    **{key: [("altered", key)] for key in ("moved", "named", "renamed")},
    **{key: [("ahead", "nobody")] for key in ("ahead", "silent")},
}


def test_an_audit_finds_each_fault_in_a_table_with_its_place_and_nothing_in_what_was_loaded(
    upserts: Upserts, records: Records, capfd: Any
) -> None:
    keys, deleted = {each for those in PLANTED.values() for each in those}, ("resurrected", "shown")
    records.produce(upserts.topic, version("1", *keys - {"undeleted"}, deleted=("undeleted",)))
    older = upserts.done()["after"]["table"]["version"]
    records.produce(upserts.topic, version("2", *keys - {*deleted}, deleted=deleted))
    newest = upserts.done()
    prove(upserts.servers, upserts.checkpoint)
    where = "decode(key, 'utf-8')"
    updated = ", ".join(f"{name} = if({where} = '{key}', {to}, {name})" for key, name, to in UPDATED)
    for statement, those in PLANTED.items():
        of_them = f"{where} IN {(*those, '')}"
        upserts.lake.sql(statement.format(table=upserts.table, keys=of_them, older=older, updated=updated))
    prove(upserts.servers, upserts.checkpoint)  # the versions that the ranges have left are as they were
    upserts.says(newest, version=upserts.version)
    code, found = audited(upserts.servers, upserts.checkpoint, capfd)
    key_at = {f"{upserts.topic}[{each.partition}]@{each.offset}": each.key for each in records.read(upserts.topic)}
    places = [(each["what"], key_at.get(each["record"], b"nobody")) for each in found["places"]]
    wanted = [each for key in keys for each in FOUND.get(key, [(key, key)])]
    assert (code, sorted(places), found["unknown"]) == (65, [(what, key.encode()) for what, key in sorted(wanted)], 0)
    upserts.says(newest, version=9_999)
    assert {each.verdict for each in audit_of(upserts.servers, upserts.checkpoint).ranges} == {"unknown"}


@pytest.fixture(scope="module")
def lived(lake: Lake, kafka: Any, records: Records, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What our table has in the end of a history; those of one kind are lived through once, side by side."""

    @cache
    def live(*kind: Any) -> list[tuple[str, str]]:
        histories = [each for each in HISTORIES if each.kind == kind]
        topic = Topics(kafka.bootstrap_servers, "lived").create("a", 2)
        folder = tmp_path_factory.mktemp("lived")
        upserts = Upserts(lake, kafka.bootstrap_servers, folder, topic, **histories[0].output)
        upserts.live(histories, records)
        return upserts.values()

    return live


@pytest.mark.xdist_group("lived")
@pytest.mark.parametrize(
    "lake", [DELTA, pytest.param(ICEBERG, marks=pytest.mark.nightly)], indirect=True, ids=lambda each: each.name
)
@pytest.mark.parametrize("history", HISTORIES, ids=lambda each: each.name)
def test_reported_of_other_tools(history: History, lived: Any) -> None:
    """See `History.report`."""
    found = history.of(lived(*history.kind))
    assert found == sorted((history.right if history.here is None else history.here).items())
