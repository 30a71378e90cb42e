"""Reading slices from a real broker: what belongs to them, in which order, and when a partition is done."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.records import Record, at
from support.slices import FAR, rows, slice_of, stretch, whole

from airflow_provider_orderedkafka.core.order.planning import split
from airflow_provider_orderedkafka.errors import DataLossError, OrderViolationError, UnreachableError
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings, ReadTally
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.read.fetching import Fetch
from airflow_provider_orderedkafka.kafka.read.slices import read_slice

SOON = 20.0


@pytest.fixture
def read(kafka):
    """Read a slice to the end, within seconds: (rows, tally)."""

    def read(slice_, resplit=None, **settings):
        tally = ReadTally()
        settings_of = ReadSettings({"bootstrap.servers": kafka.bootstrap_servers}, **{"deadline": SOON, **settings})
        begun = time.monotonic()
        found = rows(read_slice(slice_, settings_of, tally, resplit))
        assert time.monotonic() - begun < SOON
        return found, tally

    return read


def values(found):
    return [row.value for row in found]


def test_partitions_come_out_merged_by_order_time(read, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, at(10, 14, 12, 20, partition=0) + at(11, 9, 13, partition=1))
    found, tally = read(whole(topic, records.ends(topic)))
    assert [(r.order_time, r.timestamp, r.partition, r.offset, r.late) for r in found] == [
        (10, 10, 0, 0, False),
        (11, 11, 1, 0, False),
        (11, 9, 1, 1, True),
        (13, 13, 1, 2, False),
        (14, 14, 0, 1, False),
        (14, 12, 0, 2, True),
        (20, 20, 0, 3, False),
    ]
    late = Counter({(topic, 0): 1, (topic, 1): 1})
    assert tally == ReadTally(Counter({(topic, 0): 4, (topic, 1): 3}), 13, late)


def test_records_come_with_all_that_they_have(read, topics, records):
    topic = topics.create(config={"message.timestamp.type": "LogAppendTime"})
    records.produce(topic, [Record(b"v", key=b"k"), Record(None, key=b""), Record(b"")])
    found, _ = read(whole(topic, records.ends(topic)))
    assert [(r.key, r.value, r.topic, r.kind) for r in found] == [
        (b"k", b"v", topic, 1),
        (b"", None, topic, 1),
        (None, b"", topic, 1),
    ]
    assert all(row.order_time == row.timestamp and row.timestamp > 0 for row in found)


def test_headers_come_when_they_are_asked_for_and_no_headers_are_null(kafka, topics, records):
    topic = topics.create()
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    records.produce(topic, [Record(b"with", timestamp=1, headers=headers), Record(b"without", timestamp=2)])
    settings = ReadSettings({"bootstrap.servers": kafka.bootstrap_servers}, include_headers=True)
    (batch,) = read_slice(whole(topic, records.ends(topic)), settings)
    assert batch.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "b", "value": b""}],
        None,
    ]


def test_missing_and_future_timestamps_take_the_time_before_them(read, topics, records):
    topic = topics.create()
    records.produce(topic, at(-1, 10, FAR + 1, -1, 11))
    found, tally = read(whole(topic, records.ends(topic)))
    assert [(r.timestamp, r.order_time, r.kind, r.late) for r in found] == [
        (-1, -1, 0, False),
        (10, 10, 0, False),
        (FAR + 1, 10, 0, False),
        (-1, 10, 0, False),
        (11, 11, 0, False),
    ]
    assert not tally.late


def test_a_range_that_ends_in_transaction_markers_ends(read, topics, records):
    topic = topics.create(partitions=2)
    records.commit(topic, at(1, 2, partition=0) + at(3, partition=1))
    ends = records.ends(topic)
    assert ends == {0: 3, 1: 2}
    assert values(read(whole(topic, ends))[0]) == [b"1", b"2", b"3"]


def test_a_range_that_ends_in_a_marker_that_others_follow_ends(read, topics, records):
    topic = topics.create()
    records.commit(topic, at(1, 2))
    end = records.ends(topic)
    records.abort(topic, at(*range(3, 600)))
    records.produce(topic, at(1_000))
    assert values(read(whole(topic, end))[0]) == [b"1", b"2"]


def test_aborted_records_are_left_out_inside_and_at_the_end(read, topics, records):
    topic = topics.create()
    records.abort(topic, at(1))
    records.commit(topic, at(2))
    records.abort(topic, at(3, 4))
    records.produce(topic, at(5))
    records.abort(topic, at(6, 7))
    found, _ = read(whole(topic, records.ends(topic)))
    assert values(found) == [b"2", b"5"]
    found, _ = read(whole(topic, records.ends(topic, "read_uncommitted")), isolation="read_uncommitted")
    assert values(found) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]


def test_what_an_open_transaction_holds_back_is_waited_for(read, topics, records):
    topic = topics.create()
    records.produce(topic, at(1))
    with records.transaction() as transaction, ThreadPoolExecutor(1) as other:
        transaction.produce(topic, at(2))
        records.produce(topic, at(3))
        assert records.ends(topic) == {0: 1}
        assert values(read(whole(topic, {0: 1}))[0]) == [b"1"]
        beyond = other.submit(read, whole(topic, {0: 3}))
        time.sleep(1)
        assert not beyond.done()
        transaction.commit()
        assert values(beyond.result(SOON)[0]) == [b"1", b"2", b"3"]


def test_an_end_that_the_log_does_not_reach_is_an_error_and_never_done(read, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, at(1, 2) + at(1, partition=1))
    with pytest.raises(UnreachableError, match=rf"{topic}\[0\]@2.*{topic}\[0\]@5"):
        read(whole(topic, {0: 5, 1: 1}), deadline=4)


def test_a_bound_by_time_stands_at_the_first_record_of_that_time_for_both_neighbours(read, topics, records):
    topic = topics.create()
    records.commit(topic, at(10))  # its marker, at offset 1, has the time of the clock
    records.commit(topic, at(20, 30))
    records.produce(topic, at(25, 40))
    end, cut = records.ends(topic)[0], (1, 30)
    assert end == 7
    before, _ = read(slice_of(stretch(topic, 0, 0, cut, end)))
    after, _ = read(slice_of(stretch(topic, 0, cut, end, end, floor=30)))
    assert values(before) == [b"10", b"20"]
    assert [(row.value, row.order_time, row.late) for row in after] == [
        (b"30", 30, False),
        (b"25", 30, True),
        (b"40", 40, False),
    ]


def test_an_empty_slice_gives_nothing(read, topics):
    topic = topics.create()
    assert read(slice_of()) == ([], ReadTally())
    assert read(slice_of(stretch(topic, 0, 0, 0))) == ([], ReadTally())


def test_offsets_that_compaction_took_are_no_loss_and_no_reason_to_wait(read, topics, records):
    topic = topics.create(
        config={
            "cleanup.policy": "compact",
            "segment.ms": 100,
            "min.cleanable.dirty.ratio": 0.01,
            "max.compaction.lag.ms": 100,
        }
    )
    records.produce(topic, [Record(b"%d" % t, timestamp=t, key=b"k%d" % min(t, 4)) for t in range(1, 9)])
    deadline = time.monotonic() + 60
    while [seen.offset for seen in records.read(topic) if seen.offset < 8] != [1, 2]:
        assert time.monotonic() < deadline
        time.sleep(0.2)  # and write again: what is in the last segment is not compacted
        records.produce(topic, [Record(b"new", key=b"k1"), Record(b"new", key=b"k4")])
    found, tally = read(whole(topic, {0: 8}), on_data_loss="count")
    assert [row.offset for row in found] == [1, 2]
    assert tally.lost == {}


@pytest.mark.parametrize("first", [0, 3], ids=["from the start", "in the middle"])
def test_what_retention_took_is_an_error_that_names_both_offsets(read, topics, records, first):
    topic = topics.create(partitions=2)
    records.produce(topic, at(*range(1, 11)) + at(1, 2, partition=1))
    records.delete_before(topic, {0: 7})
    with pytest.raises(DataLossError, match=rf"{topic}\[0\]@{first} .*{topic}\[0\]@7") as caught:
        read(whole(topic, {0: 10, 1: 2}, {0: first, 1: 0}))
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 0, first)


def test_what_retention_took_is_counted_exactly_and_for_its_partition_alone(read, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, at(*range(1, 11)) + at(*range(1, 6), partition=1))
    records.delete_before(topic, {0: 7})
    slices = [
        slice_of(stretch(topic, 0, 0, (3, 4), 10), stretch(topic, 1, 0, (3, 4), 5)),
        slice_of(stretch(topic, 0, (3, 4), (8, 9), 10, floor=4), stretch(topic, 1, (3, 4), 5, 5, floor=4)),
        slice_of(stretch(topic, 0, (8, 9), 10, 10, floor=9)),
    ]
    read_ = [read(slice_, on_data_loss="count") for slice_ in slices]
    assert [[(row.partition, row.value) for row in found] for found, _ in read_] == [
        [(1, b"1"), (1, b"2"), (1, b"3")],
        [(1, b"4"), (1, b"5"), (0, b"8")],
        [(0, b"9"), (0, b"10")],
    ]
    lost = [tally.lost for _, tally in read_]
    (partition,) = lost[0]
    assert lost == [{partition: 3}, {partition: 4}, {}]
    assert str(partition) == f"{topic}[0]"


def test_retention_that_overtakes_the_reader_is_counted_from_where_it_stood(read, topics, records, monkeypatch):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(bytes(1_000), timestamp=t) for t in range(1, 8_001)], **{"batch.size": 10_000})
    records.produce(topic, at(1, 2, 3, partition=1))
    take = Fetch._take

    def take_and_lose(fetch, messages):
        taken = take(fetch, messages)
        if taken:
            records.delete_before(topic, {0: 7_000})
        return taken

    monkeypatch.setattr(Fetch, "_take", take_and_lose)
    found, tally = read(whole(topic, {0: 8_000, 1: 3}), on_data_loss="count")
    offsets = [row.offset for row in found if row.partition == 0]
    (lost,) = tally.lost.values()
    assert 0 < lost < 7_000
    assert offsets == [*range(7_000 - lost), *range(7_000, 8_000)]
    assert [row.offset for row in found if row.partition == 1] == [0, 1, 2]


def test_retention_of_all_that_is_left_ends_the_slice(read, topics, records):
    topic = topics.create()
    records.produce(topic, at(1, 2, 3))
    records.delete_before(topic, {0: 3})
    found, tally = read(whole(topic, {0: 3}), on_data_loss="count")
    assert (found, sum(tally.lost.values())) == ([], 3)


def test_an_offset_beyond_the_log_is_a_loss_whatever_is_counted(read, topics, records):
    topic = topics.create()
    records.produce(topic, at(1, 2, 3))
    with pytest.raises(DataLossError, match=rf"{topic}\[0\]@3") as caught:
        read(whole(topic, {0: 9}, {0: 7}), on_data_loss="count")
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (topic, 0, 7)


def halves(slice_, _):
    """Cut a slice of one partition, whose records' times are one more than their offsets, in the middle."""
    (only,) = slice_.stretches
    middle = (only.start.offset + only.end.offset) // 2
    if middle == only.start.offset:
        return [slice_]
    cut = (middle, middle + 1)
    topic, number = only.partition
    return [
        slice_of(stretch(topic, number, only.start, cut, only.limit, floor=only.floor)),
        slice_of(stretch(topic, number, cut, only.end, only.limit, floor=middle + 1)),
    ]


def test_a_slice_larger_than_the_budget_is_read_piece_by_piece(read, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(bytes(1_000), timestamp=t) for t in range(1, 1_001)])
    cuts = []

    def resplit(slice_, offsets):
        cuts.append(offsets)
        return halves(slice_, offsets)

    found, tally = read(whole(topic, {0: 1_000}), resplit, byte_budget=300_000)
    assert [row.offset for row in found] == list(range(1_000))
    assert len(cuts) == 3  # 1,000 records, then 500 and 500
    assert all(100 < offsets <= 125 for offsets in cuts)
    assert tally.records == 1_000


def test_a_slice_that_cannot_be_cut_is_read_whole(read, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(bytes(1_000), timestamp=7) for _ in range(100)])
    found, _ = read(whole(topic, {0: 100}), lambda slice_, _: [slice_], byte_budget=20_000)
    assert len(found) == 100


def test_the_planner_cuts_what_is_too_large_and_the_order_stays(kafka, read, topics, records):
    topic = topics.create(partitions=3)
    late = [Record(bytes(500), timestamp=t - 7 * (t % 5 == 0), partition=t % 3) for t in range(100, 1_600)]
    records.produce(topic, late)
    log = KafkaLog({"bootstrap.servers": kafka.bootstrap_servers})
    once, _ = read(whole(topic, records.ends(topic)))
    pieces, _ = read(
        whole(topic, records.ends(topic)), lambda slice_, each: split(slice_, log, each, "fail"), byte_budget=200_000
    )
    assert pieces == once
    assert len(once) == 1_500


def test_pieces_that_overlap_are_a_violation_that_names_both_positions(read, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(bytes(1_000), timestamp=t) for t in range(1, 101)])

    def overlapping(slice_, _):
        return [whole(topic, {0: 60}), whole(topic, {0: 100}, {0: 50})]

    with pytest.raises(OrderViolationError, match=rf"{topic}\[0\]@50 .*{topic}\[0\]@59"):
        read(whole(topic, {0: 100}), overlapping, byte_budget=90_000)


def test_batches_are_of_about_the_size_asked_for(kafka, topics, records):
    topic = topics.create()
    records.produce(topic, [Record(bytes(1_000), timestamp=t) for t in range(1, 1_001)])
    settings = ReadSettings({"bootstrap.servers": kafka.bootstrap_servers}, batch_bytes=100_000)
    sizes = [batch.num_rows for batch in read_slice(whole(topic, {0: 1_000}), settings)]
    assert sum(sizes) == 1_000
    assert {90 <= size <= 100 for size in sizes[:-1]} == {True}
