"""What of a batch is found in its outputs again."""

import itertools
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support.batches import batch, batches, columns
from support.records import Record

from airflow_provider_orderedkafka.core.identities import IntervalSet
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import UnknownTopicError
from airflow_provider_orderedkafka.kafka.consumers import close_idle
from airflow_provider_orderedkafka.kafka.hidden import Fence, ended
from airflow_provider_orderedkafka.kafka.replays import SAMPLED_ROWS, Outputs, Replay, find_landed
from airflow_provider_orderedkafka.kafka.settling import Settle, Settled, read_until_settled
from airflow_provider_orderedkafka.kafka.topics import topic_ids
from airflow_provider_orderedkafka.kafka.write_settings import BatchName, WriteSettings
from airflow_provider_orderedkafka.kafka.writing import plan_write, write

AT_ONCE = Settle(still=0.0)
THIS, OTHER = BatchName("r1", 4), BatchName("r1", 5)


@pytest.fixture(autouse=True, scope="module")
def leave_no_consumers():
    yield
    close_idle()


@pytest.fixture
def config(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def put(config):
    """Write some of a batch's rows, as an attempt that did not come to its end."""

    def written(topic, name=THIS, writer=0, rows=1_000, most=None, **more):
        settings = plan_write(WriteSettings(config, topic=topic, batch=name, **more), columns("value"))
        return write(batches(rows), settings, writer=writer, max_rows=most)

    return written


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


def test_nothing_is_found_of_a_batch_that_wrote_nothing(topics, records, config):
    topic = topics.create(partitions=3)
    records.produce(topic, [Record(b"of others", headers=[("h", b"x")])])
    assert find_landed(config, THIS, Outputs((topic,), ends(records, topic)), AT_ONCE) == Replay()


def test_rows_are_found_by_writer_and_those_of_other_batches_are_not(topics, records, config, put):
    topic = topics.create(partitions=3)
    put(topic, THIS)
    note = ends(records, topic)
    put(topic, OTHER)
    put(topic, THIS, writer=0, most=700)
    put(topic, THIS, writer=2, most=3)
    put(topic, BatchName("r10", 4))
    found = find_landed(config, THIS, Outputs((topic,), note), AT_ONCE)
    assert {writer: landed.rows for writer, landed in found.landed.items()} == {
        0: IntervalSet([(0, 700)]),
        2: IntervalSet([(0, 3)]),
    }
    assert (found.rows, found.may_be_doubled, found.settled) == (703, 0, True)


def test_a_rerun_that_leaves_out_what_landed_completes_the_batch(topics, records, config, put):
    topic = topics.create(partitions=3)
    note = ends(records, topic)
    put(topic, most=420)
    [landed] = find_landed(config, THIS, Outputs((topic,), note), AT_ONCE).landed.values()
    assert len(landed.samples) == SAMPLED_ROWS
    settings = plan_write(WriteSettings(config, topic=topic, batch=THIS), columns("value"))
    assert write(batches(1_000), settings, landed=landed).left_out == 420
    assert sorted(int(record.value) for record in records.read(topic)) == list(range(1_000))


def test_dead_letters_are_found_as_such(topics, records, config):
    topic, dead = topics.create(config={"max.message.bytes": 1_000}), topics.create("dead")
    note = ends(records, topic, dead)
    settings = WriteSettings(config, topic=topic, dead_letter_topic=dead, batch=THIS)
    rows = [batch(value=[b"x" * (5_000 if n % 10 == 0 else 5) for n in range(100)])]
    write(rows, plan_write(settings, columns("value")))
    [landed] = find_landed(config, THIS, Outputs((topic, dead), note, dead), AT_ONCE).landed.values()
    assert landed.rows == IntervalSet([(0, 100)])
    assert landed.dead_letters == IntervalSet.of(range(0, 100, 10))
    again = write(rows, plan_write(settings, columns("value")), landed=landed)
    assert (again.rows, again.left_out, again.dead_left_out) == (0, 90, 10)


def test_rows_in_partitions_that_came_later_are_found(topics, records, config, put):
    topic = topics.create(partitions=1)
    note = ends(records, topic)
    topics.grow(topic, 4)
    put(topic)
    assert len(records.ends(topic)) == 4
    assert find_landed(config, THIS, Outputs((topic,), note), AT_ONCE).rows == 1_000


def test_rows_behind_transaction_markers_are_found(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    put(topic, most=10)
    records.abort(topic, [Record(b"aborted")])
    put(topic, OTHER, most=10)
    with records.transaction() as transaction:
        transaction.produce(topic, [Record(b"open")])
        put(topic, writer=1, most=10)
        found = find_landed(config, THIS, Outputs((topic,), note), AT_ONCE)
    assert {writer: len(landed.rows) for writer, landed in found.landed.items()} == {0: 10, 1: 10}


def test_what_retention_took_since_the_note_may_be_doubled(topics, records, config, put):
    topic = topics.create()
    records.produce(topic, [Record(b"before")] * 5)
    note = ends(records, topic)
    put(topic, most=100)
    records.delete_before(topic, {0: 35})
    found = find_landed(config, THIS, Outputs((topic,), note), AT_ONCE)
    assert found.may_be_doubled == 30
    assert found.landed[0].rows == IntervalSet([(30, 100)])


def test_what_retention_takes_while_it_reads_may_be_doubled(topics, records, config):
    topic = topics.create()
    records.produce(topic, [Record(b"of others")] * 100)

    def take(messages):
        if messages and messages[-1].offset() == 99:
            records.produce(topic, [Record(b"unseen")] * 50)
            records.delete_before(topic, {0: 120})
        return 0

    read = read_until_settled(config, [TopicPartition(topic, 0)], Offsets(), take, Settle(still=0.3))
    assert read == Settled(settled=True, gone=20)


def test_an_output_that_was_made_anew_is_read_whole(topics, records, config, put):
    topic = topics.create()
    put(topic, most=100)
    note = ends(records, topic)
    topics.recreate(topic)
    put(topic, most=20)
    assert find_landed(config, THIS, Outputs((topic,), note), AT_ONCE).landed[0].rows == IntervalSet([(0, 20)])


def test_an_output_that_was_made_anew_and_has_grown_past_the_note_is_known_by_its_id(topics, records, config, put):
    topic = topics.create()
    put(topic, OTHER, most=5)
    note, ids = ends(records, topic), topic_ids(config, [topic])
    topics.recreate(topic)
    put(topic, most=20)
    found = find_landed(config, THIS, Outputs((topic,), note, ids=ids), AT_ONCE)
    assert (found.landed[0].rows, found.may_be_doubled) == (IntervalSet([(0, 20)]), 0)


@pytest.fixture
def put_compacted(config):
    """Write some of a batch's rows to a compacted output."""

    def written(topic, writer=0):
        settings = plan_write(WriteSettings(config, topic=topic, batch=THIS), columns("value", "key"))
        write(batches(10, key=lambda n: b"%d" % n), settings, writer=writer)

    return written


def test_rows_in_compacted_outputs_are_not_left_out(topics, records, config, put_compacted):
    topic = topics.create(config={"cleanup.policy": "compact"})
    note = ends(records, topic)
    put_compacted(topic)
    assert find_landed(config, THIS, Outputs((topic,), note), AT_ONCE) == Replay(compacted=(topic,))


def test_compacted_outputs_settle_too(topics, records, config, put_compacted):
    topic = topics.create(config={"cleanup.policy": "compact"})
    note = ends(records, topic)
    with going_on(lambda writer: put_compacted(topic, writer)):
        found = find_landed(config, THIS, Outputs((topic,), note), Settle(still=2.0, longest=3.0))
    assert found == Replay(settled=False, compacted=(topic,))
    assert find_landed(config, THIS, Outputs((topic,), note), Settle(still=0.5)) == Replay(compacted=(topic,))


def test_what_lands_late_in_a_compacted_output_lands_before_the_batch_is_sent_again(
    topics, records, config, put_compacted
):
    topic = topics.create(config={"cleanup.policy": "compact"})
    put_compacted(topic)
    note = ends(records, topic)
    late = threading.Timer(0.7, put_compacted, [topic])
    late.start()
    assert find_landed(config, THIS, Outputs((topic,), note), Settle(still=1.5)).settled
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
    late = threading.Timer(0.7, lambda: put(topic, writer=1, most=5))
    late.start()
    found = find_landed(config, THIS, Outputs((topic,), note), Settle(still=1.5))
    late.join()
    assert found.rows == 15
    assert found.settled


def test_what_others_write_does_not_keep_it_waiting(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    put(topic, most=10)
    with going_on(lambda _: records.produce(topic, [Record(b"of others")])):
        begun = time.monotonic()
        found = find_landed(config, THIS, Outputs((topic,), note), Settle(still=1.0, deadline=20))
    assert (found.rows, found.settled) == (10, True)
    assert time.monotonic() - begun < 10


def test_a_writer_that_goes_on_and_on_is_given_up_at_last(topics, records, config, put):
    topic = topics.create()
    note = ends(records, topic)
    with going_on(lambda writer: put(topic, writer=writer, most=1)):
        found = find_landed(config, THIS, Outputs((topic,), note), Settle(still=2.0, longest=3.0))
    assert not found.settled
    assert found.rows > 0


def test_an_output_that_is_gone_is_an_error(topics, config):
    with pytest.raises(UnknownTopicError):
        find_landed(config, THIS, Outputs((topics.name(),), Offsets()), AT_ONCE)


def test_memory_holds_intervals_and_not_rows(topics, records, config):
    topic = topics.create(partitions=4)
    note = ends(records, topic)
    settings = plan_write(WriteSettings(config, topic=topic, batch=THIS), columns("value"))
    write(batches(250_000, size=10_000), settings)
    [landed] = find_landed(config, THIS, Outputs((topic,), note), AT_ONCE).landed.values()
    assert list(landed.rows.intervals()) == [(0, 250_000)]
    assert replace(landed, samples=()).dead_letters == IntervalSet()
