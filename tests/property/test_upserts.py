"""The law of upserts: a table has for each key the record that is last in the load's order, whatever happens meanwhile.

The planning, the ledger, its mirror and the statements of `Merge` are the real ones; SQLite runs these.
"""

import re
import sqlite3
from dataclasses import dataclass, field, replace
from itertools import cycle, pairwise
from json import dumps, loads

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_intervals import Kafka
from support.keeping import Values
from support.plain import plain_report
from support.simulated_log import Entry

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core.next_range import AtMost, place_after
from airflow_provider_orderedkafka.core.notation.starts import Explicit
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.cuts import Span
from airflow_provider_orderedkafka.core.order.positions import Offsets, Position, TopicPartition
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.job import Job, Rows
from airflow_provider_orderedkafka.loads import ledger_operations as operations
from airflow_provider_orderedkafka.loads import loading, mirror, ranges, resolving
from airflow_provider_orderedkafka.loads.books import Books, look
from airflow_provider_orderedkafka.loads.ledger import LEDGER, LedgerStore
from airflow_provider_orderedkafka.outputs import DeltaOutput
from airflow_provider_orderedkafka.spark.tables.upserts import POSITION, Merge

JOB = Job(DeltaOutput(path="/lake", upsert=["id"]), Rows())
COLUMNS = ("id", "value", "_is_deleted", "_orderedkafka")
TOLERANCE, KEYS = 5, 4
PARTS = r"MERGE INTO lake t USING given s ON (.*) WHEN MATCHED AND (.*) THEN UPDATE SET (.*)"
INSERT = r"(.*) WHEN NOT MATCHED THEN INSERT (\(.*\)) VALUES \((.*)\)"


class Table:
    """SQLite keeps an identity as JSON, has other names for two functions, and takes a MERGE apart."""

    def __init__(self):
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.db.execute(f"CREATE TABLE lake ({', '.join(COLUMNS)})")

    def run(self, text):
        text = re.sub(r"\b([st])\._orderedkafka\.`(\w+)`", r"(\1._orderedkafka ->> '\2')", text)
        return self.db.execute(text.replace("named_struct(", "json_object(").replace("greatest(", "max("))

    def merge(self, rows, *, again):
        def position(row):
            return tuple(loads(row[3])[each] for each in POSITION)

        last = {row[0]: row for row in sorted(rows, key=position)}
        self.db.execute("DROP TABLE IF EXISTS given")
        self.db.execute(f"CREATE TABLE given ({', '.join(COLUMNS)})")
        marks = ", ".join("?" * len(COLUMNS))
        self.db.executemany(f"INSERT INTO given VALUES ({marks})", rows if again else last.values())
        on, applies, sets = re.fullmatch(PARTS, Merge("lake", COLUMNS, [], ["id"], again).merged("given")).groups()
        sets, *insert = re.fullmatch(INSERT, sets).groups() if " WHEN NOT MATCHED " in sets else (sets,)
        sets = re.sub(r"(^|, )t\.(\S+) = ", r"\1\2 = ", sets)
        self.run(f"UPDATE lake AS t SET {sets} FROM given AS s WHERE {on} AND {applies}")
        for names, values in [insert] if insert else []:
            there = f"SELECT 1 FROM lake t WHERE {on}"
            self.run(f"INSERT INTO lake {names} SELECT {values} FROM given s WHERE NOT EXISTS ({there})")

    def rows(self):
        found = self.db.execute("SELECT * FROM lake").fetchall()
        assert len({row[0] for row in found}) == len(found), "a key is there twice"
        identities = [(row, loads(row[3])) for row in found]
        return {row[0]: ((TopicPartition(o["topic"], o["partition"]), o["offset"]), row[1]) for row, o in identities}


class Cluster(Kafka):
    """Topics whose records have keys; those that stay are in one partition."""

    def __init__(self, *, stay):
        super().__init__()
        self.stay, self.keys, self.homes = stay, {}, {}

    def come(self, number, timestamp, key, topics):
        partitions = [p for p in sorted(self.present.entries) if p.topic in topics]
        where = partitions[number % len(partitions)]
        where = self.homes.setdefault(key, where) if self.stay else where
        offset = self.present.ends()[where]
        self.present.entries[where].append(Entry(offset, timestamp))
        self.keys[where, offset] = key

    def compact(self, number, begun):
        """Take a record that is not the last one of its key in its partition, and in none of what is `begun`."""
        superseded = [
            (p, entry)
            for p, entries in self.present.entries.items()
            for n, entry in enumerate(entries)
            if entry.offset not in begun.get(p, ())
            and any(self.keys[p, entry.offset] == self.keys[p, later.offset] for later in entries[n + 1 :])
        ]
        if superseded:
            partition, entry = superseded[number % len(superseded)]
            self.present.entries[partition].remove(entry)


@dataclass
class World:
    """A load of a log, its table, and the truth: the last record of each key by the first time that it was loaded."""

    stay: bool
    grace: int | None
    kafka: Cluster = field(init=False)
    now: int = 50
    topics: tuple = ("a",)
    version: int = 1

    def __post_init__(self):
        self.kafka, self.table = Cluster(stay=self.stay), Table()
        self.values = Values()
        self.store = LedgerStore("orders", self.values, settle=lambda: None)
        self.reports, self.bound, self.places, self.counted, self.made_by = {}, set(), {}, {}, {}
        self.truth, self.last, self.come_to, self.merged, self.ahead = {}, (), {}, {}, {}
        self.mirrored, self.ledgers, self.frozen, self.runs = [], [], [], 0

    # as a mirror

    def check(self, ledger):
        pass

    def write(self, ledger):
        commits = {p: each for portion in mirror.GroupMirror.portions(ledger) for p, each in portion.items()}
        self.mirrored.append(mirror._mirrored(commits))

    # what happens

    def come(self, records):
        for number, later, late, key in records:
            self.now += later
            self.kafka.come(number, max(self.now - late, 0), key, self.topics)

    def compact(self, numbers):
        """But what an attempt has merged and nobody has committed: what follows it would get earlier order times."""
        ledger = self.store.ledger()
        reached = {} if ledger is None or ledger.reached is None else ledger.reached.offsets
        for number in numbers:
            self.kafka.compact(number, {p: range(reached.get(p, 0), end) for p, end in self.ahead.items()})

    def grow(self, topic):
        self.kafka.grow(topic)

    def add_topic(self):
        self.topics = ("a", "b")

    def change(self):
        self.version += 1

    def run(self, most, size, upto, fates):
        books, ledger = self.looked()

        def plan(seen):
            return ranges.plan(self.kafka, self.terms, seen, now=self.now, most=AtMost(most))

        found = resolving.resolve(books, Values(), ledger, plan, JOB)
        if found.range is not None:
            self.load(books, found.range.id, size, upto, fates)

    def replay(self, shares, size, fates):
        books, ledger = self.looked()
        if ledger.reached is None:
            return
        reached = ledger.reached.offsets
        known = list(self.kafka.discover(Named(self.topics)).partitions)
        ends = {p: reached.get(p, 0) * max(share) // 4 for p, share in zip(known, cycle(shares))}
        starts = {p: reached.get(p, 0) * min(share) // 4 for p, share in zip(known, cycle(shares))}
        asked = tuple(Explicit(tuple(each.items())) for each in (starts, ends))
        memory = Values()
        key = resolving.replay_key(books, memory, "replay", self.runs)

        def planned():
            return ranges.plan_replay(self.kafka, self.terms, asked, now=self.now)

        found = resolving.resolve_own(books, planned, key, again=False, job=JOB, memory=memory)
        if found.range is not None:
            self.load(books, found.range.id, size, None, fates)

    def abandon(self):
        ledger = self.store.ledger()
        if ledger is not None and ledger.open is not None:
            operations.abandon(self.store, self.person, ledger)

    def rewind(self, shares):
        """To a share of where it has come, in some partitions."""
        ledger = self.store.ledger()
        if ledger is None or ledger.open is not None:
            return
        stands = ledger.place.offsets
        asked = {
            p: at * share // 4 for (p, at), share in zip(stands.items(), shares, strict=False) if share is not None
        }
        operations.rewind(self.store, self, self.person, ledger, operations.rewound_place(ledger, Offsets(asked)))

    def restore(self, how, number):
        """From its mirror, after the ledger was lost or has fallen back; or from an older one, as it is."""
        mirrored, ledger = [each for each in self.mirrored if each.reached is not None], self.store.ledger()
        if not mirrored:
            return
        if how == "lost":
            self.values.pop(LEDGER)
        if how == "fallen back":
            self.store.save(self.ledgers[number % len(self.ledgers)], ledger)
        found = mirrored[-1 - number % len(mirrored) if how == "as it is" else -1]
        if how == "as it is" and found.revision < ledger.revision:
            with pytest.raises(LifecycleError):
                operations.restore(self.store, self, self.person, found, dict(ledger.topics))
            return
        operations.restore(self.store, self, self.person, found, dict(ledger.topics))
        self.truth, self.last = self.come_to[self.reached]
        self.looked()

    def thaw(self, count):
        """Attempts that stood still go on, with what they had in their hands."""
        for _ in range(min(count, len(self.frozen))):
            self.frozen.pop(0)()

    # how

    @property
    def reached(self):
        return tuple((p, offset) for p, offset in self.store.ledger().reached.offsets.items() if offset)

    @property
    def person(self):
        return operations.Person("a person", "because", self.now, lambda owner: False)

    @property
    def terms(self):
        terms = OrderedLoad("orders", topics=self.topics, start="earliest").terms
        return replace(terms, future_tolerance=TOLERANCE, grace=self.grace)

    def looked(self):
        self.runs += 1
        books = Books(
            self.store,
            f"d/{self.runs}",
            is_active=lambda owner: False,
            now=lambda: self.now,
            report=self.reports.get,
            noted=self.counted.__contains__,
            bound=self.bound.__contains__,
            bind=lambda checkpoint, _: self.bound.add(checkpoint),
            machine="here",
        )

        def start(wanted):
            return ranges.first_look(self.kafka, self.terms, self.now, wanted)

        ledger = look(books, self, start, Named(self.topics), home=None)
        self.ledgers += [ledger] if ledger.open is None else []
        return books, ledger

    def load(self, books, range_id, size, upto, fates):
        """One attempt, which is killed before so many batches are counted, or never."""
        todo = loading.load(books, range_id, lambda loaded, _: loaded.id, JOB)
        loaded = todo.range
        span = Span(loaded.start.offsets, loaded.end.offsets, loaded.start.floor, loaded.latest)
        places = self.places.setdefault(range_id, self.cut(span, loaded, size))
        version = self.made_by.setdefault(range_id, self.version)
        for number, (begin, end) in enumerate(pairwise(places)):
            if number < self.counted.get(range_id, 0):
                continue
            self.batch(loaded, Span(begin.offsets, end.offsets, begin.floor, loaded.latest), number, version, fates)
            if upto == 0:
                return
            upto = None if upto is None else upto - 1
            self.counted[range_id] = number + 1
        self.reports[range_id] = plain_report(range=loaded, attempt=todo.attempt, stop=loaded.end)
        loading.commit(books, range_id, self)
        self.committed(loaded)

    def cut(self, span, loaded, size):
        rows = self.kafka.present.in_order(span)[size - 1 :: size]
        places = [place_after(self.kafka.present, span, Position(*row)) for row in rows]
        ends = [place for place in places if place.offsets != loaded.end.offsets]
        return [loaded.start, *ends, loaded.end]

    def batch(self, loaded, span, number, version, fates):
        again, rows = loaded.upsert.stage == "again", self.kafka.present.in_order(span)
        made = [self.made(loaded, number, version, row) for row in rows]
        if not again:
            self.ahead |= {p: max(end, self.ahead.get(p, 0)) for p, end in span.end.items()}
            for row in rows:
                self.merged[row.partition, row.offset] = row

        def merge():
            self.table.merge(made, again=again)

        fate = fates[number % len(fates)]
        if fate == "stands still":
            self.frozen.append(merge)
        for _ in range(2 if fate == "twice" else 1):
            merge()

    def made(self, loaded, number, version, row):
        topic, partition = row.partition
        key = self.kafka.keys[row.partition, row.offset]
        identity = {
            "range_id": loaded.id,
            "batch": number,
            "topic": topic,
            "partition": partition,
            "offset": row.offset,
            "ordinal": 0,
            "topic_id": loaded.topics[topic],
            "order_time": row.order_time,
        }
        deleted = row.offset % 3 == 2
        return f"k{key}", None if deleted else f"v{version} of {row.partition.at(row.offset)}", deleted, dumps(identity)

    # the laws

    def committed(self, loaded):
        if loaded.upsert.stage == "again":
            return
        start, end = loaded.start.offsets, loaded.end.offsets
        rows = sorted(row for (p, offset), row in self.merged.items() if start.get(p, 0) <= offset < end.get(p, 0))
        assert all(self.last < row for row in rows), "order times do not rise"
        self.last = max([self.last, *rows])
        self.truth = {**self.truth, **{f"k{self.kafka.keys[row.partition, row.offset]}": row[1:] for row in rows}}
        self.come_to[self.reached] = self.truth, self.last

    def check_table(self):
        ledger, rows = self.store.ledger(), self.table.rows()
        assert all(value is None or value.endswith(f" of {p.at(offset)}") for (p, offset), value in rows.values())
        if self.stay:
            last = {f"k{self.kafka.keys[record]}": record for record in sorted(self.merged)}
            assert {key: record for key, (record, _) in rows.items()} == last
        if ledger is None or ledger.reached is None or ledger.reached.offsets != ledger.place.offsets:
            return
        if any(ledger.place.offsets.get(p, 0) < end for p, end in self.ahead.items()):
            return
        assert {key: record for key, (record, _) in rows.items()} == self.truth

    def finish(self):
        """Everything is loaded."""
        self.now += 1_000
        for _ in range(20):
            before = self.store.ledger()
            self.run(None, 3, None, ["once"])
            after = self.store.ledger()
            if before is not None and (before.place, before.open) == (after.place, after.open):
                ends = self.kafka.high_ends(after.place.offsets, "")
                assert after.place.offsets == ends == {p: after.reached.offsets.get(p, 0) for p in ends}
                return
        raise AssertionError("the load does not come to an end")


counts = st.integers(1, 5)
records = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 3),
        st.sampled_from([0, 0, 0, 1, 20, -3, -TOLERANCE - 2, -30]),
        st.integers(0, KEYS - 1),
    ),
    min_size=1,
    max_size=8,
)
fates = st.lists(st.sampled_from(["once", "twice", "stands still"]), min_size=1, max_size=4)
shares = st.lists(st.none() | st.integers(0, 4), min_size=4, max_size=4)
pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=6, max_size=6)
come = st.tuples(st.just("come"), records)
run = st.tuples(st.just("run"), st.none() | st.integers(1, 6), counts, st.none() | st.none() | st.integers(0, 2), fates)
steps = st.one_of(
    come,
    run,
    run,
    st.tuples(st.just("replay"), pairs, counts, fates),
    st.tuples(st.just("abandon")),
    st.tuples(st.just("rewind"), shares),
    st.tuples(st.just("thaw"), counts),
    st.tuples(st.just("change")),
    st.tuples(st.just("grow"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("add_topic")),
    st.tuples(st.just("compact"), st.lists(st.integers(0, 20), min_size=1, max_size=4)),
    st.tuples(st.just("restore"), st.sampled_from(["as it is", "lost", "fallen back"]), st.integers(0, 2)),
)
worlds = st.builds(World, st.booleans(), st.sampled_from([None, 3]))
histories = st.tuples(come, run, st.lists(steps, min_size=2, max_size=25))


def played(world, history):
    first, then, more = history
    world.grow("a")
    for what, *how in (first, then, *more):
        getattr(world, what)(*how)
        world.check_table()
    return world


@given(worlds, histories)
@settings(max_examples=100, deadline=None)
def test_a_table_has_for_each_key_the_record_that_is_last_in_the_order_of_the_load(world, history):
    world = played(world, history)
    world.finish()
    world.check_table()
    world.thaw(len(world.frozen))
    world.check_table()
    assert {key: record for key, (record, _) in world.table.rows().items()} == world.truth


@given(worlds, histories)
@settings(max_examples=30, deadline=None)
def test_a_load_that_is_rewound_to_its_start_gives_all_values_anew(world, history):
    world = played(world, history)
    world.finish()
    world.thaw(len(world.frozen))
    world.change()
    world.rewind([0] * 10)
    world.finish()
    world.check_table()
    for (partition, offset), value in world.table.rows().values():
        there = any(entry.offset == offset for entry in world.kafka.present.entries[partition])
        assert value is None or not there or value.startswith(f"v{world.version} ")


FIRST, SECOND = ("one", 0), ("one", 1)
"""Partitions, with the ids of their topic."""


@pytest.mark.parametrize(
    ("merged", "last"),
    [
        ([(FIRST, 5, 10), (("two", 0), 0, 20)], (0, 0)),
        ([(FIRST, 5, 10), (FIRST, 4, 20)], (0, 5)),
        ([(FIRST, 5, 10), (FIRST, 6, 5)], (0, 6)),
        ([(FIRST, 5, 10), (SECOND, 0, 10)], (1, 0)),
        ([(FIRST, 5, 30), (FIRST, 5, 10), (SECOND, 0, 20)], (0, 5)),
        ([(FIRST, 5, 10), (FIRST, 5, 30), (SECOND, 0, 20)], (0, 5)),
    ],
    ids=[
        "a topic made anew",
        "an earlier offset",
        "a later offset",
        "a tie",
        "an earlier order time",
        "a later order time",
    ],
)
def test_a_row_is_later_by_offset_in_its_partition_and_keeps_the_latest_order_time_of_its_record(merged, last):
    table = Table()
    for (topic_id, partition), offset, time in merged:
        found = {"range_id": "r", "batch": 0, "topic": "a", "partition": partition, "offset": offset, "ordinal": 0}
        row = ("k", "v", False, dumps({**found, "topic_id": topic_id, "order_time": time}))
        table.merge([row], again=False)
    assert table.rows()["k"][0] == (TopicPartition("a", last[0]), last[1])
