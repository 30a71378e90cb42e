"""The laws of cuts, on a simulated log with everything that real ones have."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.simulated_log import Entry, SimulatedLog, span_of

from airflow_provider_orderedkafka.core.order.cuts import Floor, Place, Span, counts
from airflow_provider_orderedkafka.core.order.planning import Planner, split
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import PATIENCE, Search, TimeIndex

LATEST = 1_000
FUTURE = 10**9
PARTITIONS = [TopicPartition(topic, partition) for topic in ("a", "b") for partition in (0, 1, 10)]


times = st.one_of(
    st.integers(0, 12),  # ties
    st.integers(0, LATEST),
    st.sampled_from([-1, FUTURE, LATEST, LATEST + 1]),  # missing, of the future, the last that counts
)


@st.composite
def entries(draw, first=0, most=25, at_least=0):
    """Entries of one partition: rising or any timestamps, gaps, markers and aborted records of any time."""
    found = draw(
        st.lists(st.tuples(times, st.integers(1, 3), st.booleans() | st.just(True)), min_size=0, max_size=most)
    )
    stamps = [stamp for stamp, _, _ in found]
    if draw(st.booleans()):
        stamps.sort()
    offset, out = first, []
    for stamp, (_, gap, visible) in zip(stamps, found, strict=True):
        out.append(Entry(offset, max(stamp, at_least) if stamp >= 0 else stamp, visible))
        offset += gap if draw(st.booleans()) else 1
    return out


@st.composite
def logs(draw):
    chosen = draw(st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=5, unique=True))
    found = {p: draw(entries(first=draw(st.integers(0, 5)))) for p in sorted(chosen)}
    some = st.dictionaries(st.sampled_from(chosen), times, max_size=2)
    return SimulatedLog(found, draw(st.just({}) | st.just(dict.fromkeys(chosen, FUTURE)) | some))


floors = st.one_of(
    st.just(Floor()),
    st.builds(Floor, st.integers(-1, 30), st.none() | st.sampled_from(PARTITIONS)),
    st.builds(
        lambda floor, anew, risen: floor.without(anew).raised(risen),
        st.builds(Floor, st.integers(0, 30), st.none() | st.sampled_from(PARTITIONS)),
        st.sets(st.sampled_from(PARTITIONS)),
        st.integers(-1, 30),
    ),
)
sizes = st.integers(1, 40)


def spans(log, floor):
    return span_of(log, floor, LATEST)


def concatenated(log, slices):
    return [record for each in slices for record in log.read(each)]


def with_patience(patience, monkey):
    """Planners that call an index blind early, so that own indexes are met in small logs."""
    monkey.setattr("airflow_provider_orderedkafka.core.order.timeline.PATIENCE", patience)
    monkey.setattr("airflow_provider_orderedkafka.core.order.planning.PATIENCE", patience)


def test_what_comes_late_behind_a_floor_inside_a_tie_stays_behind_it():
    first, second = TopicPartition("a", 0), TopicPartition("a", 1)
    log = SimulatedLog({first: [Entry(offset, 0) for offset in range(3)]})
    planner = Planner(log, spans(log, Floor(0, split=second)))
    assert concatenated(log, planner.slices(1, "fail")) == log.in_order(planner.span)
    assert planner.end(2).offsets == {first: 2}


@given(logs(), floors, sizes)
def test_slices_are_about_as_large_as_asked_for_where_every_record_is_visible(log, floor, each):
    for partition, found in log.entries.items():
        log.entries[partition] = [Entry(n, entry.timestamp) for n, entry in enumerate(found) if entry.timestamp >= 0]
    slices = Planner(log, spans(log, floor)).slices(each, "fail")
    assert all(slice_.offsets <= 4 * each for slice_ in slices if each >= 8)


def test_few_partitions_are_looked_into_where_nothing_speaks_against_their_index():
    log = SimulatedLog({TopicPartition("a", p): [Entry(n, 10 * n + p) for n in range(2_400)] for p in range(10)})
    assert len(Planner(log, span_of(log, Floor(), 60_000)).slices(3_000, "fail")) == 8
    assert (log.looks, log.scanned) == (2, [])


def test_where_one_partition_is_blind_the_others_are_looked_into_too():
    def hiding(p):
        records = [Entry(n, 10 * n + p) for n in range(2_400)]
        records[600] = Entry(600, 10 * 2_399 + p, visible=False)  # as an aborted record that came too early
        return records

    log = SimulatedLog({TopicPartition("a", p): hiding(p) for p in range(10)})
    span = span_of(log, Floor(), 60_000)
    slices = Planner(log, span).slices(3_000, "fail")
    assert len(log.scanned) > 2
    assert max(slice_.offsets for slice_ in slices) <= 2 * 3_000
    assert concatenated(log, slices) == log.in_order(span)


@pytest.mark.parametrize("apart", [0, 1, 2, 30, 200])
def test_markers_hide_nothing_for_long_however_far_apart_two_partitions_got_theirs(apart):
    def half(first, base):
        records = [Entry(first + n, base + n) for n in range(1_200)]
        return [*records, Entry(first + 1_200, 50_000 + base // 10 + (apart if base % 10 else 0), visible=False)]

    log = SimulatedLog({TopicPartition("a", p): [*half(0, 10 + p), *half(1_201, 2_010 + p)] for p in range(2)})
    span = span_of(log, Floor(), 60_000)
    slices = Planner(log, span).slices(600, "fail")
    assert tuple(sorted(log.scanned)) == span.partitions
    assert max(slice_.offsets for slice_ in slices) <= 2 * 600
    assert concatenated(log, slices) == log.in_order(span)


@given(logs(), floors, sizes)
def test_slices_of_compacted_topics_are_the_sorted_whole_too(log, floor, each):
    span = spans(log, floor)
    slices = Planner(log, span).slices(each, "fail", ["a"])
    assert concatenated(log, slices) == log.in_order(span)
    bounds = [s.end for each in slices for s in each.stretches if s.partition.topic == "a"]
    assert all(bound.time is None for bound in bounds)


@given(logs(), floors, sizes, st.sampled_from([0, 1, 2, 3, PATIENCE]))
def test_slices_one_after_the_other_are_the_sorted_whole_however_much_an_index_hides(log, floor, each, patience):
    with pytest.MonkeyPatch.context() as monkey:
        with_patience(patience, monkey)
        span = spans(log, floor)
        assert concatenated(log, Planner(log, span).slices(each, "fail")) == log.in_order(span)


def with_a_late_tie():
    """A slice ends inside the tie at 0, and has a record of another partition that counts as one before it."""
    first, second = TopicPartition("a", 0), TopicPartition("a", 1)
    return SimulatedLog({first: [Entry(n, 0, n < 6) for n in range(7)], second: [Entry(0, FUTURE), Entry(1, 0)]})


@given(logs(), floors, sizes, sizes, st.sets(st.sampled_from(["a", "b"])))
@example(with_a_late_tie(), Floor(-1), 3, 1, set())
def test_a_slice_cut_again_gives_the_same_records_in_the_same_order(log, floor, each, smaller, compacted):
    span = spans(log, floor)
    for slice_ in Planner(log, span).slices(each, "fail", compacted):
        assert concatenated(log, split(slice_, log, smaller, "fail")) == log.read(slice_)


@given(logs(), floors, sizes, sizes, sizes)
def test_batches_of_any_size_cut_into_slices_of_any_size_have_the_one_order(log, floor, most, each, other):
    whole = spans(log, floor)
    found, place = [], Place(whole.start, whole.floor)
    while place.offsets != whole.end:
        rest = Span(place.offsets, whole.end, place.floor, LATEST)
        end = Planner(log, rest).end(most)
        batch = Span(place.offsets, end.offsets, place.floor, LATEST)
        assert batch.offsets == min(most, rest.offsets)
        found += concatenated(log, Planner(log, batch).slices(each, "fail"))
        place, each, other = end, other, each
    assert found == log.in_order(whole)


@given(logs(), floors, sizes, st.integers(1, 5), sizes, st.integers(0, 3))
def test_batches_that_are_planned_together_are_as_large_as_asked_for_and_have_the_one_order(
    log, floor, most, count, each, patience
):
    whole = spans(log, floor)
    found, place, spanned = [], Place(whole.start, whole.floor), []
    with pytest.MonkeyPatch.context() as monkey:
        with_patience(patience, monkey)
        monkey.setattr(
            "airflow_provider_orderedkafka.core.order.timeline.SAMPLE_EVERY", 1
        )  # an own index must hide less
        while place.offsets != whole.end:
            rest = Span(place.offsets, whole.end, place.floor, LATEST)
            ends = Planner(log, rest).ends(most, count)
            assert len(ends) == min(count, -(-rest.offsets // most))
            for end in ends:
                batch = Span(place.offsets, end.offsets, place.floor, LATEST)
                spanned.append(batch.offsets)
                found += concatenated(log, Planner(log, batch).slices(each, "fail"))
                place = end
    assert found == log.in_order(whole)
    assert all(offsets == most for offsets in spanned[:-1])


@pytest.mark.timeout(20)
def test_a_search_ends_though_the_partitions_it_asked_about_are_read_meanwhile():
    first, second = PARTITIONS[:2]
    behind_a_marker = [Entry(0, 1), Entry(1, FUTURE, visible=False), *(Entry(n, 10 * n + 1) for n in range(2, 6))]
    log = SimulatedLog({first: behind_a_marker, second: [Entry(n, 10 * n + 6) for n in range(6)]})
    index = TimeIndex(log, spans(log, Floor()), {})
    search = Search(index, index.last())
    search.find([3], 0)
    for partition in (first, second):
        index.read_own(partition)
    search.find([4], 0)
    low, high = search.bracket(4)
    assert low.total <= 4 < high.total


@given(logs(), floors, st.integers(0, LATEST + 1))
def test_the_end_at_a_time_has_everything_older_before_it_and_nothing_else(log, floor, time):
    whole = spans(log, floor)
    end = Planner(log, whole).end(time=time)
    before = log.in_order(Span(whole.start, end.offsets, floor, LATEST))
    everything = log.in_order(whole)
    assert before == everything[: len(before)]
    assert all(record.order_time < time for record in before)
    assert all(record.order_time >= time for record in everything[len(before) :])
    assert end.floor == floor.raised(time)


@given(logs(), floors, st.integers(0, LATEST), st.integers(0, LATEST), st.none() | sizes)
def test_a_later_time_or_a_higher_maximum_never_ends_earlier(log, floor, time, later, most):
    whole = spans(log, floor)
    early, late = (Planner(log, whole).end(most, when).offsets for when in sorted((time, later)))
    assert all(early[partition] <= late[partition] for partition in whole.partitions)
    more = Planner(log, whole).end(most and most + 1, later).offsets
    assert all(Planner(log, whole).end(most, later).offsets[p] <= more[p] for p in whole.partitions)


@given(logs(), floors, st.integers(0, LATEST), st.none() | sizes)
def test_planning_twice_gives_the_same_and_going_on_from_an_end_at_a_time_finds_nothing_older(log, floor, time, most):
    whole = spans(log, floor)
    end = Planner(log, whole).end(most, time)
    assert Planner(log, whole).end(most, time) == end
    rest = Span(end.offsets, whole.end, end.floor, LATEST)
    if most is None:
        assert Planner(log, rest).end(time=time) == end


@given(st.data(), logs(), floors, st.none() | sizes, sizes)
def test_ranges_follow_each_other_in_order_whatever_arrives_late_between_them(data, log, floor, most, each):
    place, before = Place(log.starts(), floor), []
    for _ in range(3):
        now = data.draw(st.integers(0, LATEST))
        span = Span(place.offsets, log.ends(), place.floor, LATEST)
        end = Planner(log, span).end(most, now)
        taken = Span(place.offsets, end.offsets, place.floor, LATEST)
        records = concatenated(log, Planner(log, taken).slices(each, "fail"))
        assert records == log.in_order(taken)
        before += records
        place = end
        for partition, old in log.entries.items():
            first = old[-1].offset + 1 if old else 0
            log.entries[partition] = old + data.draw(entries(first=max(first, place.offsets[partition]), most=6))
    assert before == sorted(before)
    assert len({(record.partition, record.offset) for record in before}) == len(before)


@given(st.data(), logs(), floors, sizes)
def test_an_own_index_is_kept_from_batch_to_batch_only_while_the_same_timestamps_count(data, log, floor, each):
    place, own = Place(log.starts(), floor), {}
    for _ in range(3):
        latest = data.draw(st.sampled_from([5, 12, LATEST, FUTURE]))
        span = Span(place.offsets, log.ends(), place.floor, latest)
        place = Planner(log, span, own).end(data.draw(sizes))
        taken = Span(span.start, place.offsets, span.floor, latest)
        with pytest.MonkeyPatch.context() as monkey:
            with_patience(0, monkey)
            slices = Planner(log, taken, own).slices(each, "fail")
        assert concatenated(log, slices) == log.in_order(taken)


def test_a_record_that_was_of_the_future_when_its_partition_was_read_is_in_order_once_it_counts():
    blind, sound = TopicPartition("a", 0), TopicPartition("a", 1)
    ahead = Entry(3_000, 300_000 + 400_000)
    entries = [Entry(0, FUTURE), *(Entry(n, n * 100) for n in range(1, 6_000))]
    log = SimulatedLog({blind: entries, sound: [Entry(n, n * 100 + 50) for n in range(6_000)]})
    log.entries[blind][3_000] = ahead
    own = {}
    planner = Planner(log, span_of(log, Floor(), 600_000), own)
    planner.slices(500, "fail")
    assert list(own) == [blind]
    end = planner.end(4_000)
    kept = Span(end.offsets, log.ends(), end.floor, 650_000)
    Planner(log, kept, own).slices(500, "fail")
    assert log.scanned == [blind]
    rest = Span(end.offsets, log.ends(), end.floor, 1_200_000)
    assert concatenated(log, Planner(log, rest, own).slices(500, "fail")) == log.in_order(rest)


@given(st.data(), logs(), floors, sizes)
def test_what_compaction_leaves_is_read_exactly_once_and_in_order(data, log, floor, each):
    span = spans(log, floor)
    slices = Planner(log, span).slices(each, "fail", ["a", "b"])
    read = []
    for slice_ in slices:
        for partition, old in log.entries.items():
            gone = data.draw(st.sets(st.sampled_from(old))) if old else set()
            kept = [entry for entry in old if entry not in gone]
            if data.draw(st.booleans()):
                log.entries[partition] = kept
        read.append(log.read(slice_))
    flat = [record for records in read for record in records]
    positions = [(record.partition, record.offset) for record in flat]
    assert len(set(positions)) == len(positions)
    left = {(r.partition, r.offset) for r in log.in_order(span)}
    assert left <= set(positions)
    assert flat == sorted(flat)


@given(st.data(), logs(), floors, sizes)
def test_what_retention_leaves_is_read_exactly_once_and_in_order(data, log, floor, each):
    span = spans(log, floor)
    slices = Planner(log, span).slices(each, "fail")
    for partition in span.partitions:
        log.delete_before(partition, data.draw(st.integers(span.start[partition], span.end[partition])))
    flat = concatenated(log, slices)
    positions = [(record.partition, record.offset) for record in flat]
    left = [(record.partition, record.offset) for record in log.in_order(span)]
    assert sorted(positions) == sorted(left)
    assert flat == sorted(flat)


@pytest.mark.parametrize(("timestamp", "counted"), [(-1, False), (0, True), (LATEST, True), (LATEST + 1, False)])
def test_a_timestamp_counts_from_the_epoch_up_to_the_latest(timestamp, counted):
    assert counts(timestamp, LATEST) is counted


def test_an_empty_range_has_no_slices():
    log = SimulatedLog({TopicPartition("a", 0): []})
    assert Planner(log, Span(Offsets(), Offsets(), Floor(), LATEST)).slices(10, "fail") == []
    assert Planner(log, span_of(log, Floor(), LATEST)).slices(10, "fail") == []


@given(st.data(), logs(), floors, sizes)
def test_between_literal_cuts_retention_at_any_moment_leads_to_no_record_twice(data, log, floor, each):
    span = spans(log, floor)
    read = []
    for slice_ in Planner(log, span).slices(each, "fail", ["a", "b"]):
        for partition in span.partitions:
            gone = max(data.draw(st.integers(span.start[partition], span.end[partition])), log.starts()[partition])
            log.delete_before(partition, gone)
        read += log.read(slice_)
    positions = [(record.partition, record.offset) for record in read]
    assert len(set(positions)) == len(positions)
    assert {(record.partition, record.offset) for record in log.in_order(span)} <= set(positions)
    assert read == sorted(read)
