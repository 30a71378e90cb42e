"""How much a slice's consumer asks of each partition at once, and whose settings win."""

from collections import deque

import pytest

from airflow_provider_orderedkafka.core.order.timeline import BatchSize
from airflow_provider_orderedkafka.kafka.clients import pools
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings, configuration, fetch_bytes, thin


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([100_000], 1_048_576),
        ([97_000, *[430] * 7], 1_048_576),
        ([12_500] * 8, 262_144),
        ([200] * 500, 32_768),
        ([1], 262_144),
    ],
)
def test_a_request_asks_much_of_few_partitions_and_little_of_many(offsets, expected):
    assert fetch_bytes(offsets) == expected


def batches(*sizes):
    return [BatchSize(4, size, size) for size in sizes]


@pytest.mark.parametrize("size", [500, 5_000, 8_000, 12_000, 15_200, 16_384, 20_000, 30_000])
def test_a_request_of_thin_partitions_has_room_for_whole_batches_of_about_one_size(size):
    for sent in ([size + 75, size + 70, size + 60], [size - size // 250, size, size - size // 200]):
        asked = fetch_bytes([40_000] * 100, batches(*sent))
        assert asked % size / (asked - asked % size) < 0.05
        assert asked * 100 <= 16_000_000  # what an answer may have


@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [(100, (1_000_000,)), (100, (200_000,)), (100, (14_000, 16_000)), (100, ()), (1, (15_200,))],
)
def test_a_request_is_as_usual_where_batches_are_large_or_of_any_size_or_partitions_not_thin(partitions, sizes):
    assert fetch_bytes([40_000] * partitions, batches(*sizes)) == fetch_bytes([40_000] * partitions)


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [([4_000] * 100, True), ([10] * 100, False), ([4_000_000], False), ([100_000, 100_000], False)],
)
def test_batches_are_looked_at_where_much_is_read_of_thin_partitions(offsets, expected):
    assert thin(offsets) is expected


def test_a_users_setting_wins_over_what_suits_but_not_over_what_the_reader_relies_on():
    kafka = {"queued.max.messages.kbytes": "9", "auto.offset.reset": "earliest", "fetch.message.max.bytes": "7"}
    config = configuration(ReadSettings(kafka, isolation="read_uncommitted"), 32_768)
    assert config["queued.max.messages.kbytes"] == "9"
    assert config["fetch.message.max.bytes"] == "7"
    assert config["auto.offset.reset"] == "error"
    assert config["isolation.level"] == "read_uncommitted"


def test_few_consumers_are_kept_that_nobody_uses(monkeypatch):
    monkeypatch.setattr(pools, "_idle", pools.PerProcess())
    settings = ReadSettings({"bootstrap.servers": "127.0.0.1:1"})
    for size in range(12):
        with pools.pooled_consumer(settings, 30_000 + size):
            pass
    with pools._idle.held() as found:
        assert [len(kept) for kept in found.values()] == [0] * 3 + [1] * 9
        for pooled in (each for kept in found.values() for each in kept):
            pooled.consumer.close()


class Late:
    """A consumer that tells of an error at the next `poll` after it heard of it."""

    def __init__(self):
        self.heard, self.troubles = [], deque()

    def poll(self, _seconds):
        self.troubles.extend(self.heard)
        self.heard.clear()

    def unassign(self):
        pass


def test_what_a_consumer_heard_while_nobody_read_is_not_of_now(monkeypatch):
    late = Late()
    monkeypatch.setattr(pools, "_idle", pools.PerProcess())
    monkeypatch.setattr(pools, "_make", lambda config: pools.PooledConsumer(late, late.troubles, config))
    settings = ReadSettings({"bootstrap.servers": "127.0.0.1:1"})
    with pools.pooled_consumer(settings):
        pass
    late.heard.append("refused")
    with pools.pooled_consumer(settings) as pooled:
        late.poll(0.0)
        assert not pooled.troubles
