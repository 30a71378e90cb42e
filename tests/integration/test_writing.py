"""Writing rows to a real broker, read back by a reader that shares no code."""

import time
from dataclasses import replace

import pyarrow as pa
import pytest
from support.batches import batch, batches, columns, source
from support.messages import naming
from support.records import violations

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import OrderViolationError, RowError, UnknownTopicError
from airflow_provider_orderedkafka.kafka.provenance import HEADER, Provenance, read_provenance
from airflow_provider_orderedkafka.kafka.replay.landed import Landed, LandedFilter
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings, Written
from airflow_provider_orderedkafka.kafka.write.writing import partitions_of, plan_write, write

NOW = int(time.time() * 1_000)


@pytest.fixture
def to(kafka):
    """Settings for this broker."""

    def settings(topic, **more):
        return WriteSettings({"bootstrap.servers": kafka.bootstrap_servers}, topic=topic, **more)

    return settings


def test_rows_arrive_once_each_and_in_order(topics, records, to):
    topic = topics.create(partitions=3)
    rows = list(batches(25_000, key=lambda n: b"k%d" % (n % 97)))
    written = write(rows, plan_write(to(topic), columns("value", "key")))
    seen = records.read(topic)
    assert sorted(int(record.value) for record in seen) == list(range(25_000))
    assert violations(seen, by=lambda record: record.key) == 0
    assert violations(seen, by=lambda record: record.partition) == 0
    assert written == Written(rows=25_000, bytes=sum(len(r.key + r.value) for r in seen), by_topic={topic: 25_000})


def test_keys_land_where_java_producers_put_them(topics, records, to):
    topic = topics.create(partitions=7)
    keys = [bytes([n % 256]) * (n % 41) for n in range(3_000)]
    write([batch(value=[b""] * len(keys), key=keys)], plan_write(to(topic), columns("value", "key")))
    landed = {record.key: record.partition for record in records.read(topic)}
    assert landed == dict(zip(keys, partitions_of(pa.array(keys), 7).to_pylist(), strict=True))
    # As the tests of Kafka's own Utils.murmur2 have it: -973932308, made positive, modulo 1000.
    assert partitions_of(pa.array([b"21"]), 1_000).to_pylist() == [(-973932308 & 0x7FFFFFFF) % 1_000]


def test_everything_a_record_has_is_kept(topics, records, to):
    topic = topics.create(partitions=2)
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    row = batch(
        value=[None, b"v"], key=[b"k", None], timestamp=[NOW - 5, None], headers=[headers, None], partition=[1, 0]
    )
    write([row], plan_write(to(topic), columns("value", "key", "timestamp", "headers", "partition")))
    plain, tombstone = records.read(topic)
    assert (tombstone.partition, tombstone.key, tombstone.value, tombstone.timestamp) == (1, b"k", None, NOW - 5)
    assert tombstone.headers == [("h", b"1"), ("h", None)]
    assert (plain.partition, plain.key, plain.value, plain.headers) == (0, None, b"v", [])
    assert abs(plain.timestamp - time.time() * 1_000) < 60_000


def test_text_is_written_in_utf_8(topics, records, to):
    topic = topics.create()
    row = pa.record_batch({"value": pa.array(["é", None]), "key": pa.array(["ß", "k"], pa.large_string())})
    write([row], plan_write(to(topic), [("value", "string"), ("key", "string")]))
    assert [(record.key, record.value) for record in records.read(topic)] == [
        ("ß".encode(), "é".encode()),
        (b"k", None),
    ]


def test_each_record_says_where_it_came_from(topics, records, to):
    topic = topics.create()
    settings = plan_write(to(topic, range_id="r1", source="struct"), columns("value", "_source"))
    write(batches(3_000, _source=source), settings)
    for record in records.read(topic):
        number = int(record.value)
        expected = Provenance("r1", TopicPartition("orders", 2), number, 0, number * 1_000)
        assert read_provenance(record.headers) == expected


def test_one_source_record_that_gives_many_rows_gives_many_identities(topics, records, to):
    topic = topics.create()
    settings = plan_write(to(topic, range_id="r1", source="struct"), columns("value", "_source"))
    write(LandedFilter(Landed(), "many", "struct").of(batches(100, _source=lambda _: source(1))), settings)
    assert [read_provenance(record.headers).ordinal for record in records.read(topic)] == list(range(100))


def test_provenance_replaces_that_of_an_earlier_load(topics, records, to):
    topic = topics.create()
    settings = plan_write(to(topic, range_id="r2"), columns("value", "headers"))
    earlier = [{"key": HEADER, "value": b"\x01\x02r1"}, {"key": "h", "value": b"kept"}]
    write([batch(value=[b"v"], headers=[earlier])], settings)
    [record] = records.read(topic)
    assert [name for name, _ in record.headers] == ["h", HEADER]
    assert read_provenance(record.headers).range_id == "r2"


def test_keys_are_placed_over_as_many_partitions_as_were_pinned(topics, records, to):
    topic = topics.create(partitions=3)
    settings = replace(plan_write(to(topic), columns("value", "key")), partitions={topic: 3})
    topics.grow(topic, 8)
    keys = [b"key-%d" % number for number in range(500)]
    write([batch(value=keys, key=keys)], settings)
    landed = {record.key: record.partition for record in records.read(topic)}
    assert landed == dict(zip(keys, partitions_of(pa.array(keys), 3).to_pylist(), strict=True))


@pytest.mark.parametrize("partitioner", ["consistent_random", "consistent", "murmur2", "murmur2_random"])
def test_keys_are_placed_where_the_clients_own_partitioner_puts_them(topics, records, to, partitioner):
    one, other = topics.create(partitions=5), topics.create(partitions=5)
    keys = [b"key-%d" % number for number in range(500)]
    for topic, pinned in ((one, {}), (other, {other: 5})):
        asked = plan_write(to(topic), columns("value", "key"))
        config = {**asked.config, "partitioner": partitioner}
        write([batch(value=keys, key=keys)], replace(asked, config=config, partitions=pinned))
    places = [{record.key: record.partition for record in records.read(topic)} for topic in (one, other)]
    assert places[0] == places[1]


@pytest.mark.parametrize("with_keys", [True, False])
@pytest.mark.parametrize("partitioner", ["consistent", "murmur2"])
def test_rows_without_a_key_stay_in_the_partition_that_a_partitioner_has_for_them_though_others_are_added(
    topics, records, to, partitioner, with_keys
):
    topic = topics.create(partitions=3)
    row = batch(value=[b"v"], **{"key": [None]} if with_keys else {})
    asked = plan_write(to(topic), columns(*row.schema.names))
    asked = replace(asked, config={**asked.config, "partitioner": partitioner})
    write([row], asked)
    topics.grow(topic, 7)
    another_process = {**asked.config, "client.id": "another"}  # a client that knows all partitions
    write([row], replace(asked, config=another_process, partitions={topic: 3}))
    before, after = records.read(topic)
    assert (before.partition, before.key) == (after.partition, after.key)


def test_where_partitions_are_kept_in_order_keys_are_placed_in_one_way_whatever_partitioner_is_set(topics, records, to):
    topic = topics.create(partitions=5)
    keys = [b"key-%d" % number for number in range(500)]
    asked = plan_write(to(topic), columns("value", "key"))
    config = {**asked.config, "partitioner": "consistent_random"}
    write([batch(value=keys, key=keys)], replace(asked, config=config, partitions={topic: 5}, keyless="one by one"))
    landed = {record.key: record.partition for record in records.read(topic)}
    assert landed == dict(zip(keys, partitions_of(pa.array(keys), 5).to_pylist(), strict=True))


def test_a_row_that_names_its_partition_keeps_it_though_keys_are_placed(topics, records, to):
    topic = topics.create(partitions=4)
    settings = replace(plan_write(to(topic), columns("value", "key", "partition")), partitions={topic: 4})
    write([batch(value=[b"a"] * 4, key=[b"k"] * 4, partition=[0, 1, 2, 3])], settings)
    assert [record.partition for record in records.read(topic)] == [0, 1, 2, 3]


def test_the_topic_column_routes_when_there_is_no_option(topics, records, to):
    one, two = topics.create(), topics.create()
    settings = plan_write(to(None), columns("value", "topic"))
    written = write(batches(100, topic=lambda n: (one, two)[n % 2]), settings)
    assert [int(record.value) for record in records.read(one)] == list(range(0, 100, 2))
    assert [int(record.value) for record in records.read(two)] == list(range(1, 100, 2))
    assert written.by_topic == {one: 50, two: 50}


def test_the_topic_option_wins_over_the_column(topics, records, to):
    topic = topics.create()
    write(batches(10, topic=lambda _: "nowhere"), plan_write(to(topic), columns("value", "topic")))
    assert len(records.read(topic)) == 10


def test_an_unknown_output_topic_is_an_error_at_planning(topics, to):
    topic = topics.create()
    with pytest.raises(UnknownTopicError, match=f"'{topic}'"):
        plan_write(to(topic + "s"), columns("value"))
    with pytest.raises(UnknownTopicError):
        plan_write(to(topic, dead_letter_topic=topics.name("dead")), columns("value"))


def a_fault(given, said):
    return pytest.param(given, said, id=said[:40])


STRICT = {"max.message.bytes": 50_000, "message.timestamp.after.max.ms": 3_600_000}
FAULTS = [
    a_fault({"topic": None}, "its topic is null, and there is no option 'topic'"),
    a_fault({"topic": "no-such-topic"}, "its topic 'no-such-topic' does not exist"),
    a_fault({"partition": 99}, "its partition is 99, but '{topic}' has 0 to 1"),
    a_fault({"partition": -2}, "its partition is -2, but '{topic}' has 0 to 1"),
    a_fault({"value": b"x" * 60_000}, "has 60,017 bytes of key, value and headers, but '{topic}' takes 49,"),
    a_fault({"timestamp": NOW + 10**9}, "ms ahead of the clock, but '{topic}' takes 3600000"),
    a_fault({"timestamp": 0}, "its timestamp is exactly 1970-01-01 00:00:00.000"),
    a_fault({"headers": [{"key": None, "value": b"x"}]}, "one of its headers has no name"),
    a_fault({"headers": [{"key": "a\0b", "value": b"x"}]}, "one of its headers has U+0000 in its name"),
]


def rows_with(topic, given):
    """Ten rows, the seventh of them faulty."""
    sound = {
        "value": b"v",
        "key": b"key-n",
        "topic": topic,
        "partition": 0,
        "timestamp": NOW,
        "headers": [{"key": "h", "value": b"1"}],
    }
    rows = [{**sound, "_source": source(n), **(given if n == 7 else {})} for n in range(10)]
    return batch(**{name: [row[name] for row in rows] for name in rows[0]})


ALL = columns("value", "key", "topic", "partition", "timestamp", "headers", "_source")


@pytest.mark.parametrize(("given", "said"), FAULTS)
def test_a_row_that_cannot_be_written_is_an_error_that_says_where_it_came_from_or_goes_to_the_dead_letter_topic(
    topics, records, to, given, said
):
    topic, dead = topics.create(partitions=2, config=STRICT), topics.create("dead", config=STRICT)
    asked = to(None, range_id="r1", source="struct", dead_letter_topic=dead)
    with pytest.raises(RowError) as caught:
        write([rows_with(topic, given)], plan_write(replace(asked, dead_letter_topic=None), ALL))
    assert said.format(topic=topic) in str(caught.value)
    assert str(caught.value).startswith("orders[2]@7 (order time 7000 ms, range r1): ")
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 2, 7)
    assert records.read(topic) == []
    written = write([rows_with(topic, given)], plan_write(asked, ALL))
    [letter] = records.read(dead)
    assert said.format(topic=topic) in dict(letter.headers)["orderedkafka.error"].decode()
    assert read_provenance(letter.headers) == Provenance("r1", TopicPartition("orders", 2), 7, 0, 7_000)
    assert (letter.key, letter.value) == ((None, None) if "value" in given else (b"key-n", b"v"))
    assert len(records.read(topic)) == 9
    assert (written.rows, written.dead_letters, written.by_topic) == (9, 1, {topic: 9, dead: 1})
    if "timestamp" not in given:
        assert letter.timestamp == NOW


def test_a_dead_letter_that_does_not_fit_its_topic_leaves_its_value_behind(topics, records, to):
    topic = topics.create(config={"max.message.bytes": 50_000})
    dead = topics.create("dead", config={"max.message.bytes": 30_000})
    asked = to(topic, range_id="r1", source="struct", dead_letter_topic=dead)
    row = batch(value=[b"x" * 60_000], _source=[source(4)])
    assert write([row], plan_write(asked, columns("value", "_source"))).dead_letters == 1
    [letter] = records.read(dead)
    assert (letter.value, read_provenance(letter.headers).offset) == (None, 4)


def test_a_record_without_a_key_is_told_before_a_compacted_topic_refuses_it(topics, to):
    topic = topics.create(config={"cleanup.policy": "compact"})
    settings = plan_write(to(topic), columns("value", "key"))
    with pytest.raises(RowError, match=naming(f"row 1 ... {topic!r}")):
        write([batch(value=[b"a", b"b"], key=[b"k", None])], settings)


def test_a_missing_partition_counts_only_where_one_is_asked_for(topics, records, to):
    topic = topics.create(partitions=2)
    rows = [batch(value=[b"0", b"1"], partition=[1, None], key=[b"a", b"b"])]
    write(rows, plan_write(to(topic, use_partition="given"), columns("value", "partition", "key")))
    assert len(records.read(topic)) == 2
    with pytest.raises(RowError, match="'usePartition'"):
        write(rows, plan_write(to(topic, use_partition="always"), columns("value", "partition", "key")))


def test_output_topics_name_what_a_column_may_choose(topics, to):
    one, two = topics.create(), topics.create()
    settings = plan_write(to(None, output_topics=(one,)), columns("value", "topic"))
    with pytest.raises(RowError, match=f"'{two}'.*'outputTopics'"):
        write(batches(2, topic=lambda n: (one, two)[n]), settings)


def test_a_row_that_names_the_topic_of_dead_letters_becomes_one(topics, records, to):
    topic, dead = topics.create(), topics.create("dead")
    settings = plan_write(to(None, output_topics=(topic,), dead_letter_topic=dead), columns("value", "topic"))
    written = write(batches(2, topic=lambda n: (topic, dead)[n]), settings)
    assert (written.rows, written.dead_letters) == (1, 1)
    [letter] = records.read(dead)
    assert dict(letter.headers)["orderedkafka.error"].decode() == f"its topic {dead!r} is not one of 'outputTopics'"


def test_a_long_reason_of_a_dead_letter_is_cut_between_its_characters(topics, records, to):
    topic, dead = topics.create(), topics.create("dead")
    settings = plan_write(to(topic, dead_letter_topic=dead), columns("value", "_error"))
    assert write([batch(value=[b"v"], _error=["x" + "é" * 3_000])], settings).dead_letters == 1
    [letter] = records.read(dead)
    assert dict(letter.headers)["orderedkafka.error"].decode() == "x" + "é" * 999


def test_small_batches_go_to_topics_that_take_only_those(topics, records, to):
    topic = topics.create(config={"max.message.bytes": 5_000})
    assert write(batches(20_000), plan_write(to(topic), columns("value"))).rows == 20_000
    assert len(records.read(topic)) == 20_000


def test_rows_out_of_their_order_are_never_written_silently(topics, to):
    topic = topics.create()
    settings = plan_write(to(topic), columns("value", "_seq"))
    good = [batch(value=[b"0", b"1"], _seq=[0, 1]), batch(value=[b"2"], _seq=[2**40])]
    assert write(good, settings).rows == 3
    with pytest.raises(OrderViolationError, match="row 2"):
        write([good[0], batch(value=[b"2"], _seq=[1])], settings)
    with pytest.raises(OrderViolationError):
        write([batch(value=[b"0", b"1"], _seq=[7, 6])], settings)


def test_a_topic_without_room_for_provenance_says_so(topics, to):
    topic = topics.create(config={"max.message.bytes": 1_000})
    fits = plan_write(to(topic), columns("value"))
    assert write([batch(value=[b"x" * 800])], fits).rows == 1
    with pytest.raises(RowError, match="provenance"):
        write([batch(value=[b"x" * 800])], replace(fits, range_id="r" * 200))


def test_an_empty_write_writes_nothing(topics, records, to):
    topic = topics.create()
    assert write([], plan_write(to(topic), columns("value"))) == Written()
    assert write([batch(value=[])], plan_write(to(topic), columns("value"))) == Written()
    assert records.read(topic) == []
