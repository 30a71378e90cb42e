"""Topics, ends, times and starts, asked of a real broker; and what bad input is answered with."""

import threading
import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from support.records import Record

from airflow_provider_orderedkafka.core.next_range import Ends
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.core.notation.subscriptions import Matching, Named, parse_subscription
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.order.timeline import Answer
from airflow_provider_orderedkafka.errors import DataLossError, SettingError, UnknownTopicError, UnreachableError
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers, ResolvedStart, StartResolver, readable_ends
from airflow_provider_orderedkafka.kafka.lookup.topics import (
    check_partitions,
    committed,
    discover,
    first_at,
    high_ends,
    log_starts,
    newest,
)

SECONDS = 8.0
NOW = 1_800_000_000_000
NOBODY = KafkaConfig({"bootstrap.servers": "127.0.0.1:1"})


def partitions(topic, *numbers):
    return [TopicPartition(topic, number) for number in numbers]


def at(topic, *numbers):
    return Offsets(enumerate_partitions(topic, numbers))


def enumerate_partitions(topic, numbers):
    return {TopicPartition(topic, partition): offset for partition, offset in enumerate(numbers)}


def commit(kafka, group, topic, by_partition):
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "log_level": 0})
    wanted = [KafkaPartition(topic, partition, offset) for partition, offset in by_partition.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def refused(kind, call, *arguments, **named):
    """What an error says, which comes within seconds."""
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    assert time.monotonic() - begun < SECONDS
    return str(caught.value)


def test_a_topic_is_found_with_its_id_partitions_and_cluster(config, topics):
    b, a = topics.create("b", partitions=3), topics.create("a", config={"cleanup.policy": "compact,delete"})
    found = discover(config, Named((b, a)))
    described = topics.admin.list_topics(timeout=5)
    assert found.cluster_id == described.cluster_id
    assert [(topic.name, topic.partitions, topic.compacted) for topic in found.topics] == sorted(
        [(a, 1, True), (b, 3, False)]
    )
    assert set(found.partitions) == {*partitions(a, 0), *partitions(b, 0, 1, 2)}
    assert list(found.partitions) == sorted(found.partitions)
    assert found.compacted == {a}


def test_a_topic_created_again_has_another_id(config, topics):
    topic = topics.create()
    before = discover(config, Named((topic,))).ids
    assert discover(config, Named((topic,))).ids == before
    topics.recreate(topic)
    after = discover(config, Named((topic,))).ids
    assert set(after) == set(before)
    assert after != before


def test_a_pattern_has_to_match_the_whole_name(config, topics):
    names = [topics.create(hint) for hint in ("orders", "orders-late")]
    prefix = names[0].rsplit("-", 2)[0]
    assert list(discover(config, Matching(f"{prefix}-.*-orders")).ids) == names[:1]
    assert list(discover(config, Matching(f"{prefix}.*")).ids) == sorted(names)


def test_given_partitions_are_taken_as_given(config, topics):
    topic = topics.create(partitions=3)
    found = discover(config, parse_subscription("assign", f'{{"{topic}": [2, 0]}}'))
    assert list(found.partitions) == partitions(topic, 0, 2)


def test_a_topic_is_found_as_soon_as_it_was_created(config, topics):
    from confluent_kafka.admin import NewTopic

    topic = topics.name()
    topics.admin.create_topics([NewTopic(topic, 40, 1)])
    found = discover(config, Named((topic,)))
    assert high_ends(config, found.partitions) == at(topic, *[0] * 40)


def test_ends_and_starts_of_all_partitions_come_at_once(config, topics, records):
    topic = topics.create(partitions=3)
    records.produce(topic, [Record(b"", timestamp=1, partition=n % 2) for n in range(10)])
    records.delete_before(topic, {0: 2})
    assert log_starts(config, partitions(topic, 0, 1, 2)) == at(topic, 2, 0, 0)
    assert high_ends(config, partitions(topic, 0, 1, 2)) == at(topic, 5, 5, 0)
    assert high_ends(config, []) == Offsets()


def test_the_high_end_is_the_last_stable_offset_unless_uncommitted_records_are_read(config, topics, records):
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", timestamp=5, partition=p) for p in (0, 1)])
    with records.transaction() as open_:
        open_.produce(topic, [Record(b"", timestamp=70, partition=0)])
        records.produce(topic, [Record(b"", timestamp=60, partition=0), Record(b"", timestamp=80, partition=1)])
        assert high_ends(config, partitions(topic, 0, 1)) == at(topic, 1, 2)
        assert high_ends(config, partitions(topic, 0, 1), "read_uncommitted") == at(topic, 3, 2)
        assert readable_ends(Brokers(config), partitions(topic, 0, 1), "read_committed", NOW) == Ends(
            at(topic, 1, 2), at(topic, 3, 2), 2, 70
        )
        assert readable_ends(Brokers(config), partitions(topic, 0, 1), "read_uncommitted", NOW) == Ends(
            at(topic, 3, 2), at(topic, 3, 2)
        )


def test_what_is_held_back_counts_from_the_first_timestamp_that_counts(config, topics, records):
    topic = topics.create()
    with records.transaction() as open_:
        open_.produce(topic, [Record(b"", timestamp=NOW + 1), Record(b"", timestamp=90)])
        assert readable_ends(Brokers(config), partitions(topic, 0), "read_committed", NOW) == Ends(
            at(topic, 0), at(topic, 2), 2, 90
        )


def test_times_are_looked_up_in_all_partitions_several_at_once(config, topics, records):
    topic = topics.create(partitions=3)
    records.produce(
        topic, [Record(b"", timestamp=t, partition=p) for p, t in [(0, 10), (0, 30), (0, 20), (0, 40), (1, 25)]]
    )
    p0, p1, p2 = partitions(topic, 0, 1, 2)
    assert first_at(config, [p0, p1, p2], [31, 5, 25, 5, 99]) == [
        {p0: Answer(3, 40)},
        {p0: Answer(0, 10), p1: Answer(0, 25)},
        {p0: Answer(1, 30), p1: Answer(0, 25)},
        {p0: Answer(0, 10), p1: Answer(0, 25)},
        {},
    ]
    assert first_at(config, [p0], []) == []
    assert newest(config, [p0, p1, p2]) == {p0: Answer(3, 40), p1: Answer(0, 25)}


def test_any_number_of_times_is_asked_for_in_bounded_portions(config, topics, records, monkeypatch):
    monkeypatch.setattr("airflow_provider_orderedkafka.kafka.lookup.topics.MOST_AT_ONCE", 7)
    topic = topics.create(partitions=2)
    records.produce(topic, [Record(b"", timestamp=t + 1, partition=t % 2) for t in range(40)])
    found = first_at(config, partitions(topic, 0, 1), range(1, 41))
    assert [[answer[p].timestamp for p in sorted(answer)] for answer in found[:38]] == [
        [t + 1 - t % 2, t + t % 2] for t in range(1, 39)
    ]


def test_the_index_counts_markers_and_aborted_records_and_nothing_that_is_held_back(config, topics, records):
    topic = topics.create()
    records.abort(topic, [Record(b"", timestamp=100)])
    records.produce(topic, [Record(b"", timestamp=50)])
    (p,) = partitions(topic, 0)
    assert first_at(config, [p], [60])[0][p] == Answer(0, 100)
    with records.transaction() as open_:
        open_.produce(topic, [Record(b"", timestamp=NOW * 2)])
        assert first_at(config, [p], [NOW * 2]) == [{}]
        assert first_at(config, [p], [NOW * 2], "read_uncommitted") == [{p: Answer(3, NOW * 2)}]


def test_many_threads_share_one_client(config, topics, records):
    topic = topics.create(partitions=4)
    records.produce(topic, [Record(b"", timestamp=1, partition=p) for p in range(4)])
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(high_ends(config, partitions(topic, *range(4)))))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == [at(topic, 1, 1, 1, 1)] * 16


def test_a_groups_commits_are_read_where_there_are_any(kafka, config, topics):
    topic = topics.create(partitions=3)
    commit(kafka, topic, topic, {0: 5, 2: 0})
    p0, _, p2 = wanted = partitions(topic, 0, 1, 2)
    assert committed(config, topic, wanted) == {p0: 5, p2: 0}
    assert committed(config, f"{topic}-nobody", wanted) == {}


@pytest.fixture
def orders(topics, records):
    """Two partitions of ten records a second apart; the first three of partition 0 are gone."""
    topic = topics.create("orders", partitions=2)
    records.produce(
        topic, [Record(b"", timestamp=NOW - (10 - n) * 1_000, partition=p) for p in (0, 1) for n in range(10)]
    )
    records.delete_before(topic, {0: 3})
    return topic


def start(config, topic, policy, **others):
    return StartResolver(Brokers(config), partitions(topic, 0, 1), NOW, **others).resolve(parse_start(policy, "start"))


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ("earliest", (3, 0)),
        ("latest", (10, 10)),
        ("-4s", (6, 6)),
        ("-4500ms", (6, 6)),
        ("-1h", (3, 0)),
        (NOW - 1_000, (9, 9)),
        (NOW, (10, 10)),
    ],
)
def test_a_start_policy_becomes_offsets(config, orders, policy, found):
    assert start(config, orders, policy).offsets == at(orders, *found)


def test_explicit_offsets_may_name_the_ends(config, orders):
    assert start(config, orders, {orders: [5, -2]}) == ResolvedStart(at(orders, 5, 0))
    assert start(config, orders, {orders: {"0": -1, "1": 10}}) == ResolvedStart(at(orders, 10, 10))


def test_a_moment_starts_at_the_first_visible_record_of_that_time(config, topics, records):
    topic = topics.create(partitions=2)
    records.abort(topic, [Record(b"", timestamp=500, partition=0)])
    records.produce(topic, [Record(b"", timestamp=t, partition=0) for t in (100, NOW * 2, 200, 600)])
    assert start(config, topic, 400).offsets == at(topic, 5, 0)


def test_a_group_starts_where_it_stands_and_at_0_where_it_never_was(kafka, config, orders):
    commit(kafka, orders, orders, {0: 7})
    found = start(config, orders, f"committed:{orders}")
    assert found.offsets == at(orders, 7, 0)
    assert found.remarks == (f"group {orders!r} never committed {orders}[1]: the start is offset 0 there",)


def test_what_retention_took_before_a_group_ever_committed_is_a_loss(kafka, config, orders):
    commit(kafka, orders, orders, {1: 7})
    with pytest.raises(DataLossError) as error:
        start(config, orders, f"committed:{orders}")
    assert (error.value.topic, error.value.partition, error.value.offset) == (orders, 0, 0)
    found = start(config, orders, f"committed:{orders}", clamp=True)
    assert (found.offsets, found.asked) == (at(orders, 3, 7), at(orders, 0, 7))


def test_a_group_that_committed_nothing_there_is_an_error(config, orders):
    assert "'earliest'" in refused(SettingError, start, config, orders, f"committed:{orders}-mistyped")


def test_a_start_that_is_gone_is_a_loss_unless_it_is_accepted(config, orders):
    said = refused(DataLossError, start, config, orders, {orders: [1, 0]})
    assert said.startswith(
        f"the start is {orders}[0]@1, which is gone: the log starts at {orders}[0]@3; start there (-2)"
    )
    found = start(config, orders, {orders: [1, 0]}, clamp=True)
    assert (found.offsets, found.asked) == (at(orders, 3, 0), at(orders, 1, 0))
    assert found.remarks == (
        f"the start is {orders}[0]@1, which is gone: the log starts at {orders}[0]@3; 2 offsets are lost",
    )


def test_a_start_beyond_the_end_names_both(kafka, config, orders):
    said = refused(SettingError, start, config, orders, {orders: [11, 0]})
    assert said.startswith(f"the start is {orders}[0]@11, beyond the high end {orders}[0]@10")
    commit(kafka, orders, orders, {1: 4_000})
    said = refused(SettingError, start, config, orders, f"committed:{orders}")
    assert said.startswith(f"group {orders!r} stands at {orders}[1]@4000, beyond the high end {orders}[1]@10")


def test_a_start_has_to_name_every_partition_that_is_read_and_no_other(config, orders, topics):
    said = refused(SettingError, start, config, orders, {orders: [5]})
    assert said.startswith(f"the start names no offset for {orders}[1]: name every partition that is read, with -2")
    assert f"{orders}[2]" in refused(UnknownTopicError, start, config, orders, {orders: [5, 5, 5]})
    other = topics.create("other")
    said = refused(SettingError, start, config, orders, {orders: [5, 5], other: [0]})
    assert said == f"the start names {other}[0], which is not read: leave it out"


def test_an_unknown_topic_is_named_with_the_nearest_and_never_created(config, topics):
    topic = topics.create("shipments")
    wrong = topic[:-1]
    said = refused(UnknownTopicError, discover, config, Named((topic, wrong)))
    assert said.startswith(f"topic {wrong!r} does not exist at ")
    assert said.endswith(f"did you mean {topic!r}?")
    refused(UnknownTopicError, high_ends, config, partitions(wrong, 0))
    assert wrong not in topics.admin.list_topics(timeout=5).topics


def test_a_pattern_without_match_says_what_there_is(config, topics):
    topics.create()
    said = refused(UnknownTopicError, discover, config, Matching("nothing-is-called-this"))
    assert said.startswith("the pattern 'nothing-is-called-this' matches no topic at ")


def test_a_partition_that_does_not_exist_is_named(config, topics):
    topic = topics.create(partitions=2)
    discovered = refused(UnknownTopicError, discover, config, parse_subscription("assign", f'{{"{topic}": [0, 2]}}'))
    assert discovered == f"{topic}[2] does not exist: {topic!r} has the partitions 0 to 1"
    assert refused(UnknownTopicError, high_ends, config, partitions(topic, 0, 2)) == discovered
    fresh = KafkaConfig({**config, "client.id": "knows-nothing-yet"})
    assert refused(UnknownTopicError, first_at, fresh, partitions(topic, 2), [5]) == discovered


@pytest.mark.parametrize(
    ("call", "asked_for"),
    [
        (lambda nobody: discover(nobody, Named(("orders",)), 2.0), "orders"),
        (lambda nobody: discover(nobody, Matching("orders"), 2.0), "cluster"),
        (lambda nobody: high_ends(nobody, partitions("orders", *range(9)), deadline=2.0), "orders\\[4\\] and 4 more"),
        (lambda nobody: committed(nobody, "billing", partitions("orders", 0), 2.0), "group 'billing'"),
    ],
)
def test_an_unreachable_broker_is_named_with_the_deadline_and_what_refused(call, asked_for):
    # A client of its own tries at once and often; one that has tried for long pauses between its attempts.
    nobody = KafkaConfig({**NOBODY, "client.id": asked_for})
    begun = time.monotonic()
    with pytest.raises(UnreachableError, match=f"'127.0.0.1:1' .*2 s, .*{asked_for}.*refused"):
        call(nobody)
    assert 2.0 <= time.monotonic() - begun < DEADLINE


def test_where_kafka_does_not_answer_partitions_are_not_called_missing():
    from airflow_provider_orderedkafka.kafka.clients.answers import Patience
    from airflow_provider_orderedkafka.kafka.clients.pools import admin

    check_partitions(admin(NOBODY), partitions("orders", 0), Patience(1.0, "the partitions of"))
