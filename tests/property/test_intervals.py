"""An interval is the same records, whoever plans it, how often, in any order, whatever topics came and went meanwhile.

A load's topics are other ones from run to run; records come late, and partitions are added.
"""

import re
from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from support.keeping import Values
from support.simulated_log import Entry, SimulatedKafka, SimulatedLog

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.ranges import plan_interval

HOUR, HOURS, NOW = 100, 6, 1_000_000
TOPICS = ("a", "b", "c")


class Kafka(SimulatedKafka):
    """Topics that records come to, at any time, and partitions."""

    def __init__(self):
        self.present = SimulatedLog({TopicPartition(topic, 0): [] for topic in TOPICS})

    def write(self, topic, number, hour, moment):
        known = [partition for partition in self.present.entries if partition.topic == topic]
        entries = self.present.entries[known[number % len(known)]]
        entries.append(Entry(len(entries), hour * HOUR + moment))

    def grow(self, topic):
        known = [partition for partition in self.present.entries if partition.topic == topic]
        self.present.entries[TopicPartition(topic, len(known))] = []

    def plan(self, store, hour, topics):
        """The offsets of an hour for each partition of these topics."""
        terms, times = OrderedLoad("orders", topics=topics).terms, (hour * HOUR, (hour + 1) * HOUR)
        found = plan_interval(self, terms, store, times, now=lambda: NOW)
        if not isinstance(found, Range):
            return {}
        return {
            p: (found.start.offsets[p], end) for p, end in found.end.offsets.items() if end > found.start.offsets[p]
        }


some = st.sets(st.sampled_from(TOPICS), min_size=1).map(sorted)
hours = st.integers(1, HOURS - 1)
records = st.tuples(
    st.just("write"), st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, HOURS), st.integers(0, HOUR - 1)
)
steps = st.one_of(
    st.tuples(st.just("plan"), hours, some),
    st.tuples(st.just("plan"), hours, some, st.just("by a pattern")),
    records,
    st.tuples(st.just("grow"), st.sampled_from(TOPICS)),
)


@given(begin=st.lists(records, max_size=20), then=st.lists(steps, min_size=1, max_size=25))
def test_an_interval_is_the_same_records_whoever_plans_it_and_no_record_is_in_two(begin, then):
    kafka, store = Kafka(), LedgerStore("orders", Values(), settle=lambda: None)
    seen = {}
    for what, *how in (*begin, *then, *(("plan", hour, TOPICS) for hour in range(1, HOURS))):
        if what != "plan":
            getattr(kafka, what)(*how)
            continue
        hour, topics, *said = how
        planned = kafka.plan(store, hour, re.compile("|".join(topics)) if said == ["by a pattern"] else topics)
        for topic in topics:
            part = {p: span for p, span in planned.items() if p.topic == topic}
            assert seen.setdefault((hour, topic), part) == part
    pieces = defaultdict(list)
    for _, part in sorted(seen.items()):
        for partition, span in part.items():
            pieces[partition].append(span)
    for spans in pieces.values():
        assert all(end == begin for (_, end), (begin, _) in pairwise(spans)), spans


@given(
    st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, HOURS * HOUR - 1)), max_size=40),
    st.lists(st.tuples(hours, some), min_size=1, max_size=15),
)
def test_records_in_time_order_are_in_the_interval_of_their_time(written, plans):
    kafka, store = Kafka(), LedgerStore("orders", Values(), settle=lambda: None)
    for topic, time in sorted(written, key=lambda each: each[1]):
        kafka.write(topic, 0, 0, time)
    for hour, topics in plans:
        planned = kafka.plan(store, hour, topics)
        for partition, entries in kafka.present.entries.items():
            wanted = [e.offset for e in entries if e.timestamp // HOUR == hour and partition.topic in topics]
            start, end = planned.get(partition, (0, 0))
            assert list(range(start, end)) == wanted
