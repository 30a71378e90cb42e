"""Laws of reading a slice, against an oracle that goes record by record."""

from collections import Counter, deque
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.scripted import LogConsumer
from support.simulated_log import Entry, Ordered, SimulatedLog, span_of
from support.slices import slice_of, stretch

from airflow_provider_orderedkafka.core.order.cuts import Bound, Floor, counts, joined
from airflow_provider_orderedkafka.core.order.planning import Planner, split
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.pools import PooledConsumer, ReadSettings
from airflow_provider_orderedkafka.kafka.read.columns import BatchBuilder, Columns, Part, Payloads, arrange
from airflow_provider_orderedkafka.kafka.read.fetching import Fetch, OverBudget, StretchProgress

LATEST = 20
TIMES = st.integers(-1, LATEST + 3)


class Come(NamedTuple):
    """A record as it comes from the client."""

    rank: int
    offset: int
    timestamp: int


@st.composite
def stretches(draw):
    """A stretch of any shape, and the visible records of its partition."""
    offsets = sorted(draw(st.sets(st.integers(0, 30), max_size=14)))
    records = [(offset, draw(TIMES)) for offset in offsets]
    start = Bound(draw(st.integers(0, 15)), draw(st.none() | st.integers(0, LATEST)))
    end = Bound(draw(st.integers(start.offset, 25)), draw(st.none() | st.integers(0, LATEST)))
    limit = draw(st.integers(end.offset, 31))
    return start, end, limit, draw(st.integers(-1, LATEST)), records


@st.composite
def arrivals(draw):
    """A slice, and what comes of each of its partitions from the start on, in chunks, however interleaved."""
    shapes = draw(st.lists(stretches(), min_size=1, max_size=4))
    slice_ = slice_of(
        *(
            stretch("t", rank, start, end, limit, floor=floor)
            for rank, (start, end, limit, floor, _) in enumerate(shapes)
        ),
        latest=LATEST,
    )
    queues = [
        [Come(rank, *record) for record in shape[4] if record[0] >= shape[0].offset]
        for rank, shape in enumerate(shapes)
    ]
    come = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        come.append(queue.pop(0))
    breaks = sorted(draw(st.sets(st.integers(0, len(come)))) | {0, len(come)})
    return slice_, come, [come[a:b] for a, b in pairwise(breaks)]


def satisfies(bound, offset, timestamp):
    if offset < bound.offset:
        return False
    return bound.time is None or (counts(timestamp, LATEST) and timestamp >= bound.time)


def belongs(stretch_, records):
    """The records of one partition that its stretch holds, one by one."""
    begun = False
    for record in records:
        if record.offset >= stretch_.limit or satisfies(stretch_.end, record.offset, record.timestamp):
            return
        begun = begun or satisfies(stretch_.start, record.offset, record.timestamp)
        if begun:
            yield record


def in_order(slice_, come):
    """Each record with its order time and lateness, sorted."""
    rows = []
    for rank, stretch_ in enumerate(slice_.stretches):
        highest = stretch_.floor
        for record in belongs(stretch_, [record for record in come if record.rank == rank]):
            counting = counts(record.timestamp, LATEST)
            highest = max(highest, record.timestamp) if counting else highest
            rows.append((highest, rank, record.offset, counting and record.timestamp < highest))
    return sorted(rows)


def columns(records):
    empty = np.empty((0, 3), np.int64)
    return (np.array(records, np.int64) if records else empty).T


def admitted(progress, chunks):
    kept = [
        record for chunk in chunks for record, keep in zip(chunk, progress.admit(*columns(chunk)), strict=True) if keep
    ]
    return columns(kept)


@given(arrivals())
def test_a_slice_holds_what_its_bounds_say_in_order_however_it_comes(arrived):
    slice_, come, chunks = arrived
    ordered = arrange(slice_, *admitted(StretchProgress(slice_), chunks))
    rows = zip(
        *(column.tolist() for column in (ordered.order_time, ordered.rank, ordered.offset, ordered.late)), strict=True
    )
    assert list(rows) == in_order(slice_, come)
    assert ordered.first_violation(slice(0, len(ordered.rank))) is None


@given(arrivals())
def test_a_stretch_is_finished_only_when_nothing_of_it_can_follow(arrived):
    slice_, come, chunks = arrived
    progress = StretchProgress(slice_)
    for number, chunk in enumerate(chunks):
        progress.admit(*columns(chunk))
        rest = {(record.rank, record.offset) for following in chunks[number + 1 :] for record in following}
        for rank, stretch_ in enumerate(slice_.stretches):
            held = {(rank, r.offset) for r in belongs(stretch_, [record for record in come if record.rank == rank])}
            assert not (progress.finished()[rank] and held & rest)


@given(arrivals())
def test_a_stretch_whose_log_was_seen_to_its_limit_is_finished(arrived):
    slice_, _, chunks = arrived
    progress = StretchProgress(slice_)
    for chunk in chunks:
        progress.admit(*columns(chunk))
    for rank, stretch_ in enumerate(slice_.stretches):
        progress.stand_at(rank, stretch_.limit)
    assert progress.finished().all()


@given(arrivals(), st.integers(1, 300), st.data())
def test_batches_of_any_size_hold_each_payload_beside_its_record(arrived, batch_bytes, data):
    slice_, _, chunks = arrived
    rank, offset, timestamp = admitted(StretchProgress(slice_), chunks)
    payloads = data.draw(st.lists(st.none() | st.binary(max_size=90), min_size=len(rank), max_size=len(rank)))
    sizes = np.array([-1 if payload is None else len(payload) for payload in payloads], np.int64)
    held = Payloads(np.array([payload or b"" for payload in payloads] + [None], object)[:-1], sizes)
    ordered = arrange(slice_, rank, offset, timestamp)
    part = Part(Columns(rank, offset, timestamp, np.ones(len(rank), np.int64)), held, held, None)
    builder = BatchBuilder(slice_, part, ordered)
    batches = [builder.batch(rows) for rows in builder.spans(batch_bytes)]
    expected = {(r, o): payload for r, o, payload in zip(rank.tolist(), offset.tolist(), payloads, strict=True)}
    read = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["partition"], row["offset"]) for row in read] == [
        (r, o) for r, o in zip(ordered.rank.tolist(), ordered.offset.tolist(), strict=True)
    ]
    assert all(row["key"] == row["value"] == expected[row["partition"], row["offset"]] for row in read)
    assert all(batch.num_rows == 1 or batch_bytes >= 64 * batch.num_rows for batch in batches)


@st.composite
def logs(draw):
    """Some partitions with gaps, invisible entries and any timestamps."""
    entry = st.tuples(TIMES, st.integers(1, 3), st.booleans() | st.just(True))
    entries = {}
    for number in range(draw(st.integers(1, 3))):
        offset, found = draw(st.integers(0, 3)), []
        for timestamp, gap, visible in draw(st.lists(entry, max_size=14)):
            found.append(Entry(offset, timestamp, visible))
            offset += gap
        entries[TopicPartition("t", number)] = found
    return SimulatedLog(entries)


def read(log, slice_):
    """Read a slice of a simulated log as the fetching reader does."""
    progress, come = StretchProgress(slice_), []
    for rank, stretch_ in enumerate(slice_.stretches):
        log_start = log.gone_before.get(stretch_.partition, 0)
        if stretch_.start.offset < log_start and not progress.finished()[rank]:
            progress.gone_before(rank, log_start)
        if not progress.finished()[rank]:
            visible = log.scan(stretch_.partition, int(progress.position[rank]), 1_000, count=False)
            come += [Come(rank, *seen) for seen in visible]
    ordered = arrange(slice_, *admitted(progress, [come]))
    partitions = [stretch_.partition for stretch_ in slice_.stretches]
    rows = zip(ordered.order_time.tolist(), ordered.rank.tolist(), ordered.offset.tolist(), strict=True)
    return [Ordered(time, partitions[rank], offset) for time, rank, offset in rows]


@given(logs(), st.integers(1, 12), st.data())
def test_what_the_planner_cuts_is_read_exactly_once_and_in_order_with_or_without_retention(log, each, data):
    span = span_of(log, Floor(), LATEST)
    slices = Planner(log, span).slices(each, "fail")
    assert [record for slice_ in slices for record in read(log, slice_)] == log.in_order(span)
    for partition in span.partitions:
        log.delete_before(partition, data.draw(st.integers(span.start[partition], span.end[partition])))
    for slice_ in slices:
        assert read(log, slice_) == log.read(slice_)


def fetched(fetch, log, slice_, budget, on_data_loss="fail"):
    """The records of a slice, or of its pieces in their order, as they are sorted; and what was lost."""
    found = fetch.run(slice_, budget)
    if isinstance(found, OverBudget):
        pieces = split(slice_, log, found.offsets, on_data_loss)
        again = budget if len(pieces) > 1 else None
        some = [fetched(fetch, log, piece, again, on_data_loss) for piece in pieces]
        return [row for rows, _ in some for row in rows], sum((lost for _, lost in some), Counter())
    columns = found.joined().columns
    ordered = arrange(slice_, *columns[:3])
    partitions = [stretch_.partition for stretch_ in slice_.stretches]
    rows = zip(ordered.order_time.tolist(), ordered.rank.tolist(), ordered.offset.tolist(), strict=True)
    return [Ordered(time, partitions[rank], offset) for time, rank, offset in rows], Counter(found.lost)


RECORD = 200
"""About what a record takes in memory, so that budgets of a few records are met."""


@given(
    logs(),
    st.integers(1, 12),
    st.integers(1, 40),
    st.booleans(),
    st.integers(0, 3),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_slices_that_one_consumer_fetches_have_each_its_own(log, each, budget, literal, first, count, chance):
    span = span_of(log, Floor(), LATEST)
    slices = Planner(log, span).slices(each, "fail", ["t"] * literal)[first : first + count]
    consumer = LogConsumer(log, chance)
    settings_ = replace(ReadSettings({}), byte_budget=RECORD * budget)
    fetch = slices and Fetch(joined(slices), settings_, PooledConsumer(consumer, deque()))
    assert [fetched(fetch, log, slice_, settings_.byte_budget)[0] for slice_ in slices] == [
        log.read(slice_) for slice_ in slices
    ]
    assert not consumer.assigned


@given(logs(), st.integers(1, 12), st.integers(1, 40), st.data(), st.randoms(use_true_random=False))
def test_what_retention_takes_while_slices_are_fetched_is_counted_and_nothing_else_is_missing(
    log, each, budget, data, chance
):
    span = span_of(log, Floor(), LATEST)
    slices = Planner(log, span).slices(each, "count")
    before = log.in_order(span)
    settings_ = replace(ReadSettings({}, on_data_loss="count"), byte_budget=RECORD * budget)
    fetch = slices and Fetch(joined(slices), settings_, PooledConsumer(LogConsumer(log, chance), deque()))
    rows, lost = [], Counter()
    for slice_ in slices:
        for partition in span.partitions:
            if data.draw(st.booleans()):
                low = log.gone_before.get(partition, span.start[partition])
                log.delete_before(partition, data.draw(st.integers(low, span.end[partition])))
        found, gone = fetched(fetch, log, slice_, settings_.byte_budget, "count")
        rows, lost = rows + found, lost + gone
    places = [(row.partition, row.offset) for row in rows]
    assert len(places) == len(set(places))
    missing = [row for row in before if (row.partition, row.offset) not in set(places)]
    assert all(row.offset < log.gone_before.get(row.partition, 0) for row in missing)
    counted = Counter(row.partition for row in missing)
    assert all(lost[partition] >= count for partition, count in counted.items())
    assert all(count <= log.gone_before[partition] - span.start[partition] for partition, count in lost.items())


@given(logs(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_nothing_is_fetched_twice_where_there_is_memory_for_what_comes_early(log, each, chance):
    slices = Planner(log, span_of(log, Floor(), LATEST)).slices(each, "fail")
    consumer = LogConsumer(log, chance)
    fetch = slices and Fetch(joined(slices), ReadSettings({}), PooledConsumer(consumer, deque()))
    for slice_ in slices:
        fetched(fetch, log, slice_, None)
    assert len(consumer.sent) == len(set(consumer.sent))
