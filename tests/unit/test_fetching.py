"""What a fetch makes of what its consumer gives; the consumer is one of this test's own."""

from collections import deque

import numpy as np
import pytest
from confluent_kafka import KafkaError, Message
from support.scripted import ORDERS, REFUNDS, ScriptedConsumer, event, record
from support.slices import slice_of, stretch

from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.clients.pools import PooledConsumer, ReadSettings
from airflow_provider_orderedkafka.kafka.read.columns import Columns, Part
from airflow_provider_orderedkafka.kafka.read.fetching import Fetch

ONE_TOPIC = slice_of(stretch("orders", 0, 0, 3), stretch("orders", 2, 0, 3))
TWO_TOPICS = slice_of(stretch("orders", 0, 0, 3), stretch("refunds", 0, 0, 3))


def fetched(slice_, consumer):
    fetch = Fetch(slice_, ReadSettings({}), PooledConsumer(consumer, deque()))
    columns = fetch.run(slice_).joined().columns
    return list(zip(columns.rank.tolist(), columns.offset.tolist(), strict=True))


def test_records_among_events_are_progress():
    reset = event(KafkaError._AUTO_OFFSET_RESET, 0)
    consumer = ScriptedConsumer(*([reset, record(offset)] for offset in range(3)))
    assert fetched(slice_of(stretch("orders", 0, 0, 3)), consumer) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize(
    ("slice_", "last", "others"),
    [
        (ONE_TOPIC, TopicPartition("orders", 2), [TopicPartition("orders", 1), TopicPartition("orders", 3)]),
        (TWO_TOPICS, REFUNDS, [TopicPartition("orders", 7), TopicPartition("returns", 0)]),
    ],
    ids=["one topic", "two topics"],
)
def test_a_record_of_another_partition_moves_none_of_the_slice(slice_, last, others):
    strange = [record(90, partition=other) for other in others]
    own = [record(offset, partition=partition) for partition in (ORDERS, last) for offset in range(3)]
    consumer = ScriptedConsumer(strange, [own[0], strange[0], *own[1:]])
    assert fetched(slice_, consumer) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_what_comes_early_is_kept_for_the_pieces_that_it_is_of():
    pieces = [stretch("orders", 0, 0, 3), stretch("orders", 0, 3, 6), stretch("refunds", 0, 0, 3)]
    come = [*(record(offset) for offset in range(6)), *(record(offset, partition=REFUNDS) for offset in range(3))]
    whole = slice_of(stretch("orders", 0, 0, 6), pieces[-1])
    fetch = Fetch(whole, ReadSettings({}), PooledConsumer(ScriptedConsumer(come), deque()))
    found = [fetch.run(slice_of(piece)).joined().columns for piece in pieces]
    assert [columns.offset.tolist() for columns in found] == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]


def test_keys_and_values_are_taken_and_counted_only_where_their_column_is_asked_for():
    messages = [Message(*ORDERS, offset, b"key", b"value") for offset in range(3)]
    columns = Columns(*[np.zeros(3, np.int64)] * 4)
    both, value, neither = (
        Part.of(messages, columns, ReadSettings({}, columns=asked)) for asked in (None, ("value",), ("offset",))
    )
    found = [(part.keys.as_list(), part.values.as_list()) for part in (both, value, neither)]
    assert found == [([b"key"] * 3, [b"value"] * 3), ([b""] * 3, [b"value"] * 3), ([b""] * 3, [b""] * 3)]
    assert (both.bytes - value.bytes, value.bytes - neither.bytes) == (9, 15)
