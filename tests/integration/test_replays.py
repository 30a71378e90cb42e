"""What of a batch is found in its outputs again."""

import itertools
import threading
import time
from contextlib import contextmanager

import pytest
from support.batches import batch, batches, columns, source
from support.records import Record

from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import UnknownTopicError
from airflow_provider_orderedkafka.kafka.lookup.log import Fence, ended
from airflow_provider_orderedkafka.kafka.replay.landed import LandedFilter
from airflow_provider_orderedkafka.kafka.replay.replays import (
    BegunBatch,
    NotedOutputs,
    OutputBrokers,
    Settle,
    Settled,
    find_landed,
)
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings
from airflow_provider_orderedkafka.kafka.write.writing import plan_write, write

AT_ONCE = Settle(still=0.0)
ORDERS = TopicPartition("orders", 2)
START, END = Offsets({ORDERS: 0}), Offsets({ORDERS: 1_000_000})
THIS = BegunBatch("r1", START, END)


def at(config, settle=AT_ONCE):
    return OutputBrokers(config, settle)


@pytest.fixture
def put(config):
    """Write some of a batch's rows, as an attempt that did not come to its end."""

    def written(topic, range_id="r1", first=0, most=1_000):
        settings = WriteSettings(config, topic=topic, range_id=range_id, source="struct")
        rows = [batch.slice(first) for batch in batches(first + most, first + most, _source=source)]
        return write(rows, plan_write(settings, columns("value", "_source")))

    return written


def offsets_of(landed):
    """The source offsets of the rows that landed, all of them the first ones of their records."""
    assert all((partition, ordinal) == (ORDERS, 0) for partition, _, ordinal in landed)
    return [offset for _, offset, _ in landed]


def ends(records, *topics):
    return Offsets({TopicPartition(topic, p): end for topic in topics for p, end in records.ends(topic).items()})


@contextmanager
def going_on(step):
    """Something that was done once and is done on and on meanwhile."""
    over = threading.Event()

    def go_on():
        for number in itertools.count(1):
            if over.is_set():
                return
            step(number)

    step(0)
    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_rows_are_found_by_their_records_and_those_of_other_ranges_are_not(topics, records, config, put):
    topic = topics.create(partitions=3)
    put(topic)
    note = ends(records, topic)
    put(topic, "r2")
    records.produce(topic, [Record(b"of others", headers=[("h", b"x")])])
    found = find_landed(at(config), THIS, NotedOutputs((topic,), note))
    assert (found.landed.rows, found.gone, found.unnamed, found.settled) == (0, 0, 0, True)
    put(topic, most=700)
    put(topic, first=900, most=3)
    put(topic, "r10")
    found = find_landed(at(config), THIS, NotedOutputs((topic,), note))
    assert offsets_of(found.landed) == [*range(700), 900, 901, 902]
    assert (found.gone, found.settled) == (0, True)


def test_rows_of_the_ranges_other_batches_are_not_among_those_that_landed(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    put(topic, most=100)
    batch = BegunBatch("r1", Offsets({ORDERS: 10}), Offsets({ORDERS: 20}))
    assert offsets_of(find_landed(at(config), batch, NotedOutputs((topic,), note)).landed) == [*range(10, 20)]


def test_several_rows_of_a_record_are_found_one_by_one(topics, records, config):
    topic = topics.create()
    note = ends(records, topic)
    settings = plan_write(
        WriteSettings(config, topic=topic, range_id="r1", source="struct"), columns("value", "_source")
    )

    def rows():
        return LandedFilter(landed, "many", "struct").of(batches(30, _source=lambda n: source(n // 3)))

    landed = find_landed(at(config), THIS, NotedOutputs((topic,), note)).landed
    write((batch.slice(0, 16) for batch in rows()), settings)
    landed = find_landed(at(config), THIS, NotedOutputs((topic,), note)).landed
    assert [(offset, ordinal) for _, offset, ordinal in landed if ordinal] == [
        *((n, 1) for n in range(5)),
        *((n, 2) for n in range(5)),
    ]
    assert write(rows(), settings).rows == 14
    assert sorted(int(record.value) for record in records.read(topic)) == list(range(30))


def test_rows_without_a_source_are_counted(topics, records, config):
    topic = topics.create()
    note = ends(records, topic)
    write(batches(3), plan_write(WriteSettings(config, topic=topic, range_id="r1"), columns("value")))
    found = find_landed(at(config), THIS, NotedOutputs((topic,), note))
    assert (found.landed.rows, found.unnamed) == (0, 3)


def test_dead_letters_are_found_as_such(topics, records, config):
    topic, dead = topics.create(config={"max.message.bytes": 1_000}), topics.create("dead")
    note = ends(records, topic, dead)
    settings = WriteSettings(config, topic=topic, dead_letter_topic=dead, range_id="r1", source="struct")
    rows = [
        batch(value=[b"x" * (5_000 if n % 10 == 0 else 5) for n in range(100)], _source=[source(n) for n in range(100)])
    ]
    write(rows, plan_write(settings, columns("value", "_source")))
    landed = find_landed(at(config), THIS, NotedOutputs((topic, dead), note, dead)).landed
    assert (landed.rows, landed.dead_letters) == (100, 10)


def test_rows_in_partitions_that_came_later_are_found(topics, records, config, put):
    topic = topics.create(partitions=1)
    note = ends(records, topic)
    topics.grow(topic, 4)
    put(topic)
    assert len(records.ends(topic)) == 4
    assert find_landed(at(config), THIS, NotedOutputs((topic,), note)).landed.rows == 1_000


def test_rows_behind_transaction_markers_are_found(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    put(topic, most=10)
    records.abort(topic, [Record(b"aborted")])
    put(topic, "r2", most=10)
    with records.transaction() as transaction:
        transaction.produce(topic, [Record(b"open")])
        put(topic, first=10, most=10)
        found = find_landed(at(config), THIS, NotedOutputs((topic,), note))
    assert offsets_of(found.landed) == [*range(20)]


def test_what_retention_took_since_the_note_may_be_doubled(topics, records, config, put):
    topic = topics.create()
    records.produce(topic, [Record(b"before")] * 5)
    note = ends(records, topic)
    put(topic, most=100)
    records.delete_before(topic, {0: 35})
    found = find_landed(at(config), THIS, NotedOutputs((topic,), note))
    assert found.gone == 30
    assert offsets_of(found.landed) == [*range(30, 100)]


def test_what_retention_takes_while_it_reads_may_be_doubled(topics, records, config):
    topic = topics.create()
    records.produce(topic, [Record(b"of others")] * 100)

    def take(messages):
        if messages and messages[-1].offset() == 99:
            records.produce(topic, [Record(b"unseen")] * 50)
            records.delete_before(topic, {0: 120})
        return 0

    read = OutputBrokers(config, Settle(still=0.3)).read_until_settled([TopicPartition(topic, 0)], Offsets(), take)
    assert read == Settled(settled=True, gone=20)


@pytest.mark.parametrize("ends", ["with a record", "with a marker"])
def test_offsets_without_a_record_are_gaps_unless_retention_took_them(topics, records, config, ends):
    topic = topics.create(partitions=3)
    records.produce(topic, [Record(b"of others", partition=p) for p in range(2) for _ in range(20)])
    records.delete_before(topic, {0: 10})
    records.commit(topic, [Record(b"committed", partition=1)])
    if ends == "with a record":
        records.produce(topic, [Record(b"behind it", partition=1)])
    partitions = [TopicPartition(topic, number) for number in range(3)]
    read = OutputBrokers(config, AT_ONCE).read_until_settled(partitions, Offsets({partitions[0]: 5}), len)
    assert (read.gone, read.with_gaps) == (5, {partitions[1]})


def test_an_output_that_was_made_anew_is_read_whole(topics, records, config, put):
    topic = topics.create()
    put(topic, most=100)
    note = ends(records, topic)
    topics.recreate(topic)
    put(topic, most=20)
    assert offsets_of(find_landed(at(config), THIS, NotedOutputs((topic,), note)).landed) == [*range(20)]


@pytest.fixture
def put_compacted(config):
    """Write some of a batch's rows to a compacted output."""

    def written(topic):
        settings = WriteSettings(config, topic=topic, range_id="r1", source="struct")
        rows = batches(10, key=lambda n: b"%d" % n, _source=source)
        write(rows, plan_write(settings, columns("value", "key", "_source")))

    return written


def test_rows_in_compacted_outputs_are_not_left_out(topics, records, config, put_compacted):
    topic = topics.create(config={"cleanup.policy": "compact"})
    note = ends(records, topic)
    put_compacted(topic)
    found = find_landed(at(config), THIS, NotedOutputs((topic,), note))
    assert (found.landed.rows, found.again, found.settled) == (0, len(records.read(topic)), True)


def test_compacted_outputs_settle_too(topics, records, config, put_compacted):
    topic = topics.create(config={"cleanup.policy": "compact"})
    note = ends(records, topic)
    with going_on(lambda _: put_compacted(topic)):
        assert not find_landed(at(config, Settle(still=2.0, longest=3.0)), THIS, NotedOutputs((topic,), note)).settled
    assert find_landed(at(config, Settle(still=0.5)), THIS, NotedOutputs((topic,), note)).settled


def test_what_lands_late_in_a_compacted_output_lands_before_the_batch_is_sent_again(
    topics, records, config, put_compacted
):
    topic = topics.create(config={"cleanup.policy": "compact"})
    put_compacted(topic)
    note = ends(records, topic)
    late = threading.Timer(0.7, put_compacted, [topic])
    late.start()
    assert find_landed(at(config, Settle(still=1.5)), THIS, NotedOutputs((topic,), note)).settled
    settled_at = ends(records, topic)
    late.join()
    assert settled_at == ends(records, topic) != note


def test_a_log_proves_where_it_ends(topics, records, config):
    topic, empty = topics.create(partitions=2), topics.create("empty")
    records.produce(topic, [Record(b"of others", partition=0)] * 20)
    end = {TopicPartition(topic, 0): 20, TopicPartition(topic, 1): 0, TopicPartition(empty, 0): 0}
    before = end | {TopicPartition(topic, 0): 19}
    fence = Fence(config)
    while not fence.passed(end):
        assert ended(config, before).issubset({TopicPartition(topic, 1), TopicPartition(empty, 0)})


def test_a_fence_is_passed_only_by_what_was_read_so_far(topics, records, config):
    partition = TopicPartition(topics.create(), 0)
    records.produce(partition.topic, [Record(b"of others")] * 20)
    fence = Fence(config)
    assert not any(fence.passed({partition: 10}) for _ in range(5))
    assert fence.passed({partition: 200_000})


def test_rows_that_land_while_it_waits_are_found(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    put(topic, most=10)
    late = threading.Timer(0.7, lambda: put(topic, first=10, most=5))
    late.start()
    found = find_landed(at(config, Settle(still=1.5)), THIS, NotedOutputs((topic,), note))
    late.join()
    assert found.landed.rows == 15
    assert found.settled


def test_what_others_write_does_not_keep_it_waiting(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    put(topic, most=10)
    with going_on(lambda _: records.produce(topic, [Record(b"of others")])):
        begun = time.monotonic()
        found = find_landed(at(config, Settle(still=1.0, deadline=20)), THIS, NotedOutputs((topic,), note))
    assert (found.landed.rows, found.settled) == (10, True)
    assert time.monotonic() - begun < 10


def test_a_writer_that_goes_on_and_on_is_given_up_at_last(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    with going_on(lambda number: put(topic, first=number, most=1)):
        found = find_landed(at(config, Settle(still=2.0, longest=3.0)), THIS, NotedOutputs((topic,), note))
    assert not found.settled
    assert found.landed.rows > 0


def test_an_output_that_is_gone_is_an_error(topics, config):
    with pytest.raises(UnknownTopicError):
        find_landed(at(config), THIS, NotedOutputs((topics.name(),), Offsets()))
