"""Waiting and resolving in Airflow, a stream, a load by hand, an interval and a replay find the same next range.

They may differ in this alone. A load by hand takes everything: where a range of Airflow's has `max_offsets`, its first
batch has as many. A boundary of an interval begins at the first record whose timestamp counts, waits
where a range ends before an open transaction, and looks at the whole log, where a timestamp may count by now that was
in the future when it was loaded. A replay waits for nothing, so it has to be asked for just that range. A stream that
takes what is there now waits for records of open transactions that would be late, too; there are none here.
"""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_state import MemoryState
from support.runs import DictStore, a_report
from support.simulated_log import Entry, SimulatedKafka, SimulatedLog

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.batches import Size, window
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.core.notation.starts import Earliest, Explicit, Latest, Moment
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR
from airflow_provider_orderedkafka.core.order.planning import Planner
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError, NotYetError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.outputs import KafkaOutput
from airflow_provider_orderedkafka.spark.application import by_hand
from airflow_provider_orderedkafka.spark.connector import stream
from airflow_provider_orderedkafka.spark.connector.options import parse_options
from airflow_provider_orderedkafka.spark.lanes.making import Arguments
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint

FIRST, SECOND, ADDED = (TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1))


@dataclass
class Kafka(SimulatedKafka):
    """A log that grows, as one moment of it is seen; what lies behind the `stable` ends is not committed yet."""

    present: SimulatedLog
    now: int
    compacted: frozenset[str] = field(default=frozenset())
    stable: dict[TopicPartition, int] = field(default_factory=dict)

    def hold_back(self, entries, floor):
        """Let transactions be open from the last few entries on, but for such as would be late."""
        for partition, found in self.present.entries.items():
            late = [entry.offset + 1 for entry in found if entry.timestamp < floor.of(partition)]
            last = found[-entries].offset if 0 < entries <= len(found) else self.present.ends()[partition]
            self.stable[partition] = max(self.stable.get(partition, 0), last, *late)

    def high_ends(self, partitions, isolation):
        ends = self.present.ends() if isolation == "read_uncommitted" else self.stable
        return Offsets({partition: ends[partition] for partition in partitions})


@dataclass
class Asked:
    """One load, said in every way."""

    grace: int
    wait: int
    tolerance: int
    least: int | None
    most: int | None
    losses: str = "fail"

    @property
    def load(self):
        return OrderedLoad(
            "orders",
            ["a", "b"],
            start="earliest",
            grace=f"{self.grace}ms",
            transaction_wait=f"{self.wait}ms",
            future_tolerance=f"{self.tolerance}ms",
            min_offsets=self.least,
            max_delay=None if self.least is None else "15m",
            max_offsets=self.most,
            include_headers=False,
            on_data_loss=self.losses,
        )

    @property
    def options(self):
        least = {} if self.least is None else {"minOffsetsPerTrigger": str(self.least), "maxTriggerDelay": "15m"}
        return {
            "kafka.bootstrap.servers": "nowhere:1",
            "subscribe": "a,b",
            "startingOffsets": "earliest",
            "grace": f"{self.grace}ms",
            "transactionWait": f"{self.wait}ms",
            "futureTolerance": f"{self.tolerance}ms",
            "failOnDataLoss": str(self.losses == "fail").lower(),
            **least,
        }


class Airflow:
    """The first look, a wait that counts, and a resolve; then a commit."""

    def __init__(self, kafka, asked):
        self.kafka, self.terms = kafka, asked.load.terms
        first = ranges.first_look(kafka, self.terms, kafka.now)
        self.ledger = lifecycle.first_look(
            "orders", instance="i", home_dag="d", place=first.place, topics=first.topics, now=kafka.now
        )

    def next(self):
        if self.terms.pace.min_offsets and not ranges.verdict(self.kafka, self.terms, self.ledger, self.kafka.now).run:
            return None
        found = ranges.plan(self.kafka, self.terms, self.ledger, now=self.kafka.now)
        if isinstance(found, NothingToLoad):
            return None
        opened = lifecycle.submitted(lifecycle.opened(self.ledger, found.id, "run"), "checkpoint", "here")
        self.ledger = lifecycle.committed(opened, found, a_report(found, 1), "run", self.kafka.now)
        return found


class ByHand:
    """One run of an application after the other, on one checkpoint; each stops after its first batch of `most`."""

    def __init__(self, kafka, asked):
        source = parse_options(asked.options, stream=True)
        self.kafka, self.most, self.documents = kafka, asked.most, {}
        self.arguments = Arguments("load", Job(KafkaOutput("out")), source, source.kafka)

    def state(self, folder=""):
        return MemoryState(self.documents, f"load/{folder}".rstrip("/"), lambda _: None)

    def next(self):
        books = by_hand.books_of(self.state(), lambda: self.kafka.now, self.state)
        found, _ = by_hand.next_range(books, self.arguments, self.kafka)
        if found is None:
            return None
        stop = found.end if self.most is None else self.first_batch(found)
        Checkpoint(self.state(found.id)).put_report(replace(a_report(found, 1), stop=stop))
        by_hand.close(books, found, by_hand.Alone())
        return replace(found, end=stop)

    def first_batch(self, found):
        ends = Planner(self.kafka.present, found.span).ends(self.most, 1)
        return window(found, 1, found.start, ends, Size(self.most))[0].end(found)


class Stream:
    """One available-now query after the other, on one checkpoint; of each batch, its two places."""

    def __init__(self, kafka, asked):
        self.kafka, self.most, self.options = kafka, asked.most, parse_options(asked.options, stream=True)
        self.at = None

    def next(self):
        query = stream.Stream(self.options, self.kafka, lambda: self.kafka.now)
        query.fix_target()
        self.at = self.at or query.first()
        found = query.after(self.at, self.most)
        if found is None:
            return None
        span = stream.span_between(self.at, found)
        self.at = found
        return span, found.place


def shape(found):
    """What is the same in each of them: what is read, in which order, and where it goes on."""
    return (found.span, found.end) if isinstance(found, Range) else found


def interval(kafka, asked, until):
    """The interval's range up to a moment; None where it cannot be decided yet."""
    terms = replace(asked.load.terms, max_offsets=None)
    store = LedgerStore("orders", DictStore(), settle=lambda: None)
    try:
        found = ranges.plan_interval(kafka, terms, store, (0, until), now=lambda: kafka.now)
    except NotYetError:
        return None
    return found


def replay(kafka, asked, start, end):
    terms = replace(asked.load.terms, max_offsets=None)
    return offsets(ranges.plan_replay(kafka, terms, (start, end), now=kafka.now))


def batch_read(kafka, asked):
    """A batch read of everything: a stream's only batch, to an explicit end."""
    left_out = {"grace", "transactionWait", "minOffsetsPerTrigger", "maxTriggerDelay"}
    kept = {name: value for name, value in asked.options.items() if name not in left_out}
    start, end = stream.Stream(
        parse_options({**kept, "endingOffsets": "latest"}, stream=False), kafka, lambda: kafka.now
    ).whole()
    return None if start == end else (start.place.offsets, end.place.offsets)


def offsets(found):
    return None if isinstance(found, NothingToLoad) else (found.start.offsets, found.end.offsets)


def offsets_of(found):
    """Without the floor, of which there are several that hold where no visible record follows at once."""
    return None if found is None else (found[0].start, found[1].offsets)


def explicit(found):
    return Explicit(tuple(found.items()))


times = st.integers(1, 100)
entries = st.lists(st.tuples(times, st.integers(1, 2), st.booleans() | st.just(True)), max_size=12)


def extended(log, partition, found):
    known = log.entries.setdefault(partition, [])
    for time, gap, visible in found:
        known.append(Entry(known[-1].offset + gap if known else gap - 1, time, visible))


settings_of_loads = st.builds(
    Asked,
    grace=st.integers(0, 40),
    wait=st.integers(0, 100),
    tolerance=st.integers(0, 20),
    least=st.none() | st.integers(1, 12),
    most=st.none() | st.integers(12, 30),
)
moments = st.tuples(st.sampled_from([0, 0, 1, 2]), st.integers(0, 40))


@given(
    asked=settings_of_loads,
    written=st.lists(st.tuples(entries, entries, entries), min_size=1, max_size=3),
    seen=st.lists(moments, min_size=3, max_size=3),
    compacted=st.sampled_from([frozenset(), frozenset({"a"})]),
)
def test_whoever_asks_finds_the_same_next_range(asked, written, seen, compacted):
    kafka = Kafka(SimulatedLog({FIRST: [], SECOND: []}), 60, compacted=compacted)
    askers, counted = None, True
    for number, (parts, (uncommitted, later)) in enumerate(zip(written, seen, strict=False)):
        for partition, found in zip((FIRST, SECOND, ADDED), parts, strict=True):
            if partition != ADDED or number:  # a partition that comes later
                extended(kafka.present, partition, found)
        kafka.now += later
        kafka.hold_back(uncommitted, askers[0].ledger.place.floor if askers else NO_FLOOR)
        askers = askers or [Airflow(kafka, asked), Stream(kafka, asked), ByHand(kafka, asked)]
        airflow, streamed, by_itself = (shape(asker.next()) for asker in askers)
        assert streamed == airflow
        if asked.most is None:
            assert by_itself == airflow
        elif number == 0:
            assert offsets_of(by_itself) == offsets_of(airflow)
        assert replay(kafka, asked, Earliest(), Latest()) == batch_read(kafka, asked)
        if airflow is not None:
            span, end = airflow
            assert replay(kafka, asked, explicit(span.start), explicit(end.offsets)) == (span.start, end.offsets)
        if asked.most is None and airflow is not None and counted:
            is_that_of_the_interval(kafka, asked, airflow)
        counted = counted and all(time <= kafka.now + asked.tolerance for time in times_in(kafka.present))


def times_in(log):
    return (entry.timestamp for entries in log.entries.values() for entry in entries)


def is_that_of_the_interval(kafka, asked, airflow):
    until = kafka.now - asked.grace
    bounded = interval(kafka, asked, until)
    if isinstance(bounded, Range):
        assert bounded.end == airflow[1]
        begin, end = kafka.log_starts(bounded.end.offsets), bounded.end.offsets
        assert replay(kafka, asked, Earliest(), Moment(until)) == (begin, end)
    elif bounded is None:
        assert airflow[1].floor.time < until
    else:
        assert all(record.order_time < 0 for record in kafka.present.in_order(airflow[0]))


@pytest.mark.parametrize("losses", ["fail", "count"])
def test_what_was_deleted_of_a_new_partition_is_in_the_next_range_of_whoever_asks_or_is_told_before(losses):
    kafka = Kafka(SimulatedLog({FIRST: [Entry(0, 1)], SECOND: [Entry(0, 1)]}), 60)
    asked = Asked(grace=0, wait=0, tolerance=0, least=None, most=None, losses=losses)
    kafka.hold_back(0, NO_FLOOR)
    askers = [Airflow(kafka, asked), Stream(kafka, asked), ByHand(kafka, asked)]
    first = [shape(asker.next()) for asker in askers]
    assert all(first)
    kafka.present.entries[ADDED] = [Entry(offset, 61 + offset) for offset in range(5)]
    kafka.present.delete_before(ADDED, 3)
    kafka.now = 90
    kafka.hold_back(0, NO_FLOOR)
    if losses == "fail":  # a query that is running reads on, and fails there
        for asker in (askers.pop(0), askers.pop()):
            with pytest.raises(DataLossError):
                asker.next()
    after = [shape(asker.next()) for asker in askers]
    assert [(span.start[ADDED], end.offsets[ADDED]) for span, end in after] == [(0, 5)] * len(askers)
