"""A load by hand into a table of upserts, and what that should have."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.core.documents import Upsert
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.loads import ledger_operations
from airflow_provider_orderedkafka.spark.application import by_hand
from airflow_provider_orderedkafka.storage import LocalState
from support.histories import Change, History, runs
from support.lake import Lake
from support.outputs import in_order
from support.plain import as_argument
from support.ranges import whole_range
from support.records import Record, Records
from support.table_formats import DELTA

START = 1_700_000_000_000


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


def recorded(change: Change) -> Record:
    value = None if change.value is None else change.value.encode()
    return Record(value, START + change.time, change.partition, change.key.encode())


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
        place = ledger_operations.rewound_place(ledger, offsets)
        ledger_operations.rewind(store, by_hand.Alone(), person, ledger, place)

    def replay(self, ends: dict[int, int] | None = None) -> None:
        """All that was loaded, or up to there, as one more range."""
        ledger = by_hand.store_of(LocalState(self.checkpoint)).ledger()
        assert ledger is not None
        upsert = Upsert(f"{ledger.load}/{ledger.instance}", "again")
        loaded = replace(whole_range(self.servers, self.topic), id=f"r-{self.folder.name}", upsert=upsert)
        if ends is not None:
            offsets = Offsets({TopicPartition(self.topic, partition): end for partition, end in ends.items()})
            loaded = replace(loaded, end=replace(loaded.end, offsets=offsets))
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

    def live(self, histories: Sequence[History], records: Records) -> None:
        """Live through what users of other tools reported, of one kind."""
        then, batch, ends = histories[0].then, histories[0].batch, []
        each_run = runs(histories)
        for number, changes in enumerate(each_run, 1):
            records.produce(self.topic, [recorded(change) for change in changes])
            ends.append(records.ends(self.topic))
            if then == "killed" and number == len(each_run):
                assert self.run(die="after")["code"] == "died"
            assert self.run("--option", f"maxOffsetsPerTrigger={batch}")["code"] == 0
        if then == "replayed":
            self.replay(ends[0])

    def values(self) -> list[tuple[str, str]]:
        """Keys and values of rows that are not deleted."""
        there = f"FROM {self.table} WHERE NOT _is_deleted"
        found = self.lake.sql(f"SELECT decode(key, 'utf-8') AS key, decode(value, 'utf-8') AS value {there}")
        return [(row["key"], row["value"]) for row in found]

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
