"""Upserts in tables of the real Delta and the real Iceberg: a table has, for each key, the row of its last change."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.audited import audit_of, audited, prove
from support.lake import Lake
from support.outputs import in_order
from support.plain import as_argument
from support.ranges import whole_range
from support.records import Record, Records
from support.table_formats import DELTA, ICEBERG
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Upsert
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.loads import ledger_operations
from airflow_provider_orderedkafka.spark.application import by_hand
from airflow_provider_orderedkafka.storage import LocalState

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

START = 1_700_000_000_000
COUNTS = ("inserted", "updated", "deleted", "unchanged", "moved", "unknown")


@pytest.fixture(scope="module", params=[DELTA, ICEBERG], ids=lambda each: each.name)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    found = Lake(tmp_path_factory.mktemp("lake"), request.param)
    yield found
    found.close()


def changes(count: int, chance: random.Random, *, begin: int = 0, stay: bool = False) -> list[Record]:
    """Changes of a few keys, some of them deletes; clocks differ by up to a second."""
    found = []
    for number in range(begin, begin + count):
        key = chance.randrange(12)
        partition = key % 3 if stay else chance.randrange(3)
        value = None if chance.random() < 0.2 else json.dumps({"number": number}).encode()
        time = START + number * 10 - chance.choice((0, 0, chance.randrange(1_000)))
        found.append(Record(value, time, partition, f"k{key}".encode()))
    return found


class Upserts:
    """A load by hand into one table, and what the table should be."""

    def __init__(self, lake: Lake, servers: str, folder: Path, topic: str, **output: Any) -> None:
        self.lake, self.servers, self.folder, self.topic = lake, servers, folder, topic
        self.output = lake.format.output(lake.folder, f"t_{folder.name}", **{"upsert": ["key"], **output})
        self.checkpoint = folder / "checkpoint"
        self.transform: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        return self.output.table or f"delta.`{self.output.place}`"

    def run(self, *argv: str, **how: Any) -> dict[str, Any]:
        """One run of what is new, the first one from the beginning."""
        options = (f"kafka.bootstrap.servers={self.servers}", f"subscribe={self.topic}", "startingOffsets=earliest")
        given = [word for each in options for word in ("--option", each)]
        where = ("--checkpoint", str(self.checkpoint), "--output", as_argument(self.output))
        return self.lake.load(*where, *given, *argv, **how)

    def done(self, *argv: str, again: bool = False) -> dict[str, Any]:
        """Runs until nothing is left to load; the report of the first that loaded something."""
        found: dict[str, Any] = {}
        while (ended := self.run(*self.transform, *argv))["code"] == 0 and ended["report"] is not None:
            found = found or ended["report"]
            assert again or ended["report"]["range"]["upsert"]["stage"] != "again"
        assert ended["code"] == 0, ended["said"]
        return found

    def rewind(self, to: dict[int, int]) -> None:
        """As a person does, in some partitions."""
        store = by_hand.store_of(LocalState(self.checkpoint))
        ledger = store.ledger()
        assert ledger is not None
        offsets = Offsets({TopicPartition(self.topic, partition): offset for partition, offset in to.items()})
        person = ledger_operations.Person("someone", "a test", 0, lambda _: False)
        ledger_operations.rewind(store, by_hand.Alone(), person, ledger_operations.rewound_place(ledger, offsets))

    def replay(self) -> None:
        """All that was loaded, as one more range."""
        ledger = by_hand.store_of(LocalState(self.checkpoint)).ledger()
        assert ledger is not None
        upsert = Upsert(f"{ledger.load}/{ledger.instance}", "again")
        loaded = replace(whole_range(self.servers, self.topic), id=f"r-{self.folder.name}", upsert=upsert)
        where = ("--checkpoint", str(self.folder / "replay"), "--output", as_argument(self.output))
        option = ("--option", f"kafka.bootstrap.servers={self.servers}")
        ended = self.lake.load(*where, *option, "--range", loaded.to_text())
        assert ended["code"] == 0, ended["said"]

    @property
    def version(self) -> int:
        """The table's newest."""
        delta, iceberg = f"DESCRIBE HISTORY {self.table} LIMIT 1", f"SELECT * FROM {self.table}.refs"
        [row] = self.lake.sql(delta if self.lake.format is DELTA else iceberg)
        return int(row["version" if self.lake.format is DELTA else "snapshot_id"])

    def says(self, report: dict[str, Any], *, version: int) -> None:
        """Let the report of a range name this version of the table."""
        report["after"]["table"]["version"] = version
        (self.checkpoint / report["range_id"] / "report.json").write_text(json.dumps(report))

    def values(self) -> list[str]:
        """Those of rows that are not deleted."""
        found = self.lake.sql(f"SELECT decode(value, 'utf-8') AS value FROM {self.table} WHERE NOT _is_deleted")
        return [row["value"] for row in found]

    def rows(self) -> dict[str, tuple[str, int]]:
        """The table's rows by key, without those of deleted ones: from which record each is."""
        found = self.lake.sql(
            f"SELECT decode(key, 'utf-8') AS key, _orderedkafka, decode(value, 'utf-8') AS value "
            f"FROM {self.table} WHERE NOT _is_deleted"
        )
        assert len({row["key"] for row in found}) == len(found)
        return {row["key"]: (row["_orderedkafka"]["partition"], row["_orderedkafka"]["offset"]) for row in found}

    def expected(self, records: Records) -> dict[str, tuple[str, int]]:
        last: dict[str, Any] = {}
        for each in in_order(records.read(self.topic)):
            last[each.record.key.decode()] = each
        return {key: each.position[1:] for key, each in last.items() if each.record.value is not None}


@pytest.fixture
def upserts(lake: Lake, kafka: Any, topics: Topics, tmp_path: Path) -> Upserts:
    return Upserts(lake, kafka.bootstrap_servers, tmp_path, topics.create("a", 3))


def test_a_table_has_the_last_row_of_each_key_and_the_report_says_what_changed(
    upserts: Upserts, records: Records
) -> None:
    chance = random.Random(1)
    for begin in (0, 100, 200):
        records.produce(upserts.topic, changes(100, chance, begin=begin))
        ended = upserts.run()
        assert ended["code"] == 0, ended["said"]
        assert upserts.rows() == upserts.expected(records)
        found = ended["report"]
        assert found["rows_emitted"] == 100


def died(ended: dict[str, Any]) -> None:
    assert ended["code"] == "died", ended["said"]


@pytest.mark.parametrize("stay", [True, False], ids=["keys stay", "keys move"])
def test_whatever_is_killed_rewound_replayed_or_compacted_the_table_is_its_topic(
    upserts: Upserts, records: Records, stay: bool
) -> None:
    chance = random.Random(2 + stay)
    for begin in range(0, 160, 80):
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
    assert {json.loads(value)["version"] for value in upserts.values()} == {2}


def test_two_attempts_that_insert_one_new_key_at_once_make_one_row(upserts: Upserts, records: Records) -> None:
    records.produce(upserts.topic, changes(60, random.Random(6)))
    ended = upserts.run(die="twice")
    assert ended["code"] == 0, ended["said"]
    assert upserts.rows() == upserts.expected(records)


def told(value: str, *keys: str, deleted: tuple[str, ...] = ()) -> list[Record]:
    """A change of each key, and deletes of some; every key stays in its partition."""
    values = {**dict.fromkeys(keys, value.encode()), **dict.fromkeys(deleted)}
    at = START + int(value) * 1_000
    return [Record(each, at + len(key), len(key) % 3, key.encode()) for key, each in values.items()]


OLDER = "DELETE FROM {table} WHERE {key};INSERT INTO {table} SELECT * FROM {table} VERSION AS OF {older} WHERE {key}"
PLANTED = {
    "missing": "DELETE FROM {table} WHERE {key}",
    "stale": OLDER,
    "resurrected": OLDER,
    "undeleted": OLDER,
    "shown": "UPDATE {table} SET _is_deleted = false WHERE {key}",
    "altered": "UPDATE {table} SET value = CAST('3' AS BINARY) WHERE {key}",
    "moved": "UPDATE {table} SET _orderedkafka.order_time = order_time + INTERVAL 1 SECOND WHERE {key}",
    "named": "UPDATE {table} SET _orderedkafka.range_id = 'another' WHERE {key}",
    "renamed": "UPDATE {table} SET key = CAST('other' AS BINARY) WHERE {key}",
    "doubled": "INSERT INTO {table} SELECT * FROM {table} WHERE {key}",
    "ahead": "UPDATE {table} SET _orderedkafka.offset = 99, offset = 99 WHERE {key}",
    "silent": "UPDATE {table} SET _orderedkafka = NULL WHERE {key}",
}
"""What somebody does to the row of a key, which is named after what is found, but for those in `FOUND`."""

FOUND = {
    "shown": [("resurrected", "shown"), ("altered", "shown")],  # what its delete left out is not there
    **{key: [("altered", key)] for key in ("moved", "named", "renamed")},
    **{key: [("ahead", "nobody")] for key in ("ahead", "silent")},
}


def test_an_audit_finds_each_fault_in_a_table_with_its_place_and_nothing_in_what_was_loaded(
    upserts: Upserts, records: Records, capfd: Any
) -> None:
    keys, deleted = set(PLANTED), ("resurrected", "shown")
    records.produce(upserts.topic, told("1", *keys - {"undeleted"}, deleted=("undeleted",)))
    older = upserts.done()["after"]["table"]["version"]
    records.produce(upserts.topic, told("2", *keys - {*deleted}, deleted=deleted))
    newest = upserts.done()
    prove(upserts.servers, upserts.checkpoint)
    for key, statement in PLANTED.items():
        for each in statement.split(";"):
            where = {"key": f"key = CAST('{key}' AS BINARY)", "table": upserts.table, "older": older}
            upserts.lake.sql(each.format(**where))
    prove(upserts.servers, upserts.checkpoint)  # the versions that the ranges have left are as they were
    upserts.says(newest, version=upserts.version)
    code, found = audited(upserts.servers, upserts.checkpoint, capfd)
    key_at = {f"{upserts.topic}[{each.partition}]@{each.offset}": each.key for each in records.read(upserts.topic)}
    places = [(each["what"], key_at.get(each["record"], b"nobody")) for each in found["places"]]
    wanted = [each for key in keys for each in FOUND.get(key, [(key, key)])]
    assert (code, sorted(places), found["unknown"]) == (65, [(what, key.encode()) for what, key in sorted(wanted)], 0)
    upserts.says(newest, version=9_999)
    assert {each.verdict for each in audit_of(upserts.servers, upserts.checkpoint).ranges} == {"unknown"}
