"""The law of one load: over any ranges, however they end, rows go on in the one order, and what cannot is late.

A rewind begins it anew where records come again, and nowhere else.
"""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from support.simulated_log import Entry, SimulatedLog

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.next_range import Ends, NothingToLoad, Survey, next_place
from airflow_provider_orderedkafka.core.notation.starts import Earliest
from airflow_provider_orderedkafka.core.notation.subscriptions import Discovery, Named, Topic
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.pacing import Pace, Terms
from airflow_provider_orderedkafka.loads.ledger_operations import rewound_place

PARTITIONS = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0))
TOLERANCE = 5

stamps = st.integers(1, 12) | st.integers(1, 100) | st.sampled_from([-1, 10**9])
entries = st.lists(st.tuples(stamps, st.integers(1, 2), st.booleans() | st.just(True)), max_size=6)


@dataclass(frozen=True)
class Run:
    """What is written before a range, and how it ends: a `share` of the way to the ends, at a time, after so many."""

    written: tuple[list, ...]
    later: int
    share: tuple[int, ...] | None
    end_time: int | None
    most: int | None


runs = st.builds(
    Run,
    written=st.tuples(entries, entries, entries),
    later=st.integers(0, 30),
    share=st.none() | st.tuples(*[st.integers(0, 4)] * 3),
    end_time=st.none() | st.integers(0, 120),
    most=st.none() | st.integers(1, 8),
)
moved_runs = st.lists(st.tuples(runs, st.tuples(*[st.none() | st.integers(0, 4)] * 3)), min_size=1, max_size=6)


class Load:
    """One load of a log that grows; its rows so far, each with its range's last timestamp that counts."""

    def __init__(self):
        self.log, self.now = SimulatedLog({p: [] for p in PARTITIONS}), 50
        self.place = Place(Offsets(dict.fromkeys(PARTITIONS, 0)), Floor())
        self.rows, self.begun = [], []  # each row with the place behind which its partition has begun anew
        self.anew = dict.fromkeys(PARTITIONS, 0)

    def write(self, partition, found):
        known = self.log.entries[partition]
        for time, gap, visible in found:
            known.append(Entry(known[-1].offset + gap if known else gap - 1, time, visible))

    def run(self, run):
        """The rows of the next range."""
        for partition, found in zip(PARTITIONS, run.written, strict=True):
            self.write(partition, found)
        self.now += run.later
        terms = Terms(
            load="orders",
            subscription=Named(("a", "b")),
            start=Earliest(),
            end_time=None if run.share else run.end_time,
            transaction_wait=0,
            future_tolerance=TOLERANCE,
            isolation="read_committed",
            on_data_loss="fail",
            include_headers=False,
            pace=Pace(),
            max_offsets=run.most,
        )
        end = next_place(self.log, self.place, self.seen(run.share), terms)
        if isinstance(end, NothingToLoad):
            return []
        span = Span(self.place.offsets, end.offsets, self.place.floor, self.now + TOLERANCE)
        self.place, rows = end, self.log.in_order(span)
        self.rows += rows
        self.begun += [self.anew[row.partition] for row in rows]
        return rows

    def move(self, moved):
        """A person moves some partitions to a share of what they have."""
        ends = self.log.ends()
        asked = {p: ends[p] * share // 4 for p, share in zip(PARTITIONS, moved, strict=True) if share is not None}
        self.anew |= {p: len(self.rows) for p, offset in asked.items() if offset < self.place.offsets[p]}
        ledger = lifecycle.first_look("orders", instance="", home_dag=None, place=self.place, topics={}, now=0)
        place = rewound_place(ledger, Offsets(asked))
        self.place = Place(self.place.offsets.updated(place.offsets), place.floor)

    def seen(self, share):
        """The log at this moment; with a share, an end that is asked for, so much of the way to the log's."""
        ends = dict(self.log.ends())
        if share:
            begun = self.place.offsets
            ends = {p: begun[p] + (ends[p] - begun[p]) * part // 4 for p, part in zip(PARTITIONS, share, strict=True)}
        topics = tuple(Topic(name, name, count, compacted=False) for name, count in (("a", 2), ("b", 1)))
        found = Discovery("cluster", topics, PARTITIONS)
        there = Offsets(ends)
        return Survey(self.now, self.now + TOLERANCE, found, Ends(there, there), Offsets(), fixed=share is not None)


@given(st.lists(runs, min_size=2, max_size=5))
@settings(max_examples=300, deadline=None)
def test_the_rows_of_all_ranges_of_a_load_are_in_the_one_order(found):
    load = Load()
    for run in found:
        load.run(run)
    assert load.rows == sorted(load.rows)


@given(moved_runs)
@settings(max_examples=600, deadline=None)
def test_no_row_comes_before_an_earlier_one_but_for_those_before_a_rewind_of_its_own_partition(found):
    load = Load()
    for run, moved in found:
        load.move(moved)
        load.run(run)
    for place, (row, begun) in enumerate(zip(load.rows, load.begun, strict=True)):
        assert max(load.rows[begun:place], default=row) <= row


@given(moved_runs)
@settings(max_examples=300, deadline=None)
def test_a_range_without_a_cut_raises_the_floor_to_what_it_reached_and_no_further(found):
    load = Load()
    for run, moved in found:
        load.move(moved)
        before = load.place.floor
        rows = load.run(Run(run.written, run.later, run.share, None, None))
        after, reached = load.place.floor, max((row.order_time for row in rows), default=-1)
        assert all(0 <= after.of(p) - max(reached, before.of(p)) <= 1 for p in PARTITIONS)
