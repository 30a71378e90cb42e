"""What a broker sends for what is read, counted by a proxy between the two: each byte once."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from support.proxied import ProxiedKafka
from support.records import Record, Records
from support.slices import FAR
from support.topics import Topics

from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Slice, Span
from airflow_provider_orderedkafka.core.order.planning import Planner, split
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.read.slices import fetching, read_slice
from airflow_provider_orderedkafka.kafka.read_settings import ReadSettings

PARTITIONS, EACH, SIZE = 20, 1_000, 1_000
NEEDED = PARTITIONS * EACH * SIZE
BATCH = 100_000
IN_VAIN = 1.25
"""Of what is needed, with what stands around the records, and with batches that are sent again."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedKafka]:
    with ProxiedKafka(tmp_path_factory.mktemp("proxied")) as started:
        yield started


@pytest.fixture(scope="module")
def log(kafka: ProxiedKafka) -> KafkaLog:
    """One that is not counted."""
    return KafkaLog({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture(scope="module")
def planner(kafka: ProxiedKafka, log: KafkaLog) -> Planner:
    """That of a topic with thin partitions, whose batches are twice as large as the share of a slice."""
    topic = Topics(kafka.bootstrap_servers, "fetched-bytes").create(partitions=PARTITIONS)
    even = [Record(bytes(SIZE), 1 + number, partition) for number in range(EACH) for partition in range(PARTITIONS)]
    Records(kafka.bootstrap_servers).produce(topic, even, **{"batch.size": BATCH, "linger.ms": 60_000})
    ends = Offsets({TopicPartition(topic, partition): EACH for partition in range(PARTITIONS)})
    return Planner(log, Span(Offsets(dict.fromkeys(ends, 0)), ends, NO_FLOOR, FAR))


@pytest.fixture
def sent(kafka: ProxiedKafka, log: KafkaLog) -> Callable[..., float]:
    """How often each byte came while all slices were read, so many of them by one consumer."""

    def sent(slices: list[Slice], together: int, **more: int) -> float:
        settings = replace(ReadSettings({"bootstrap.servers": kafka.proxied_servers}), **more)
        before, rows = kafka.proxy.answered, 0
        for first in range(0, len(slices), together):
            some = slices[first : first + together]
            with fetching(some, settings) as fetching_settings:
                for slice_ in some:
                    found = read_slice(slice_, fetching_settings, resplit=lambda large, each: split(large, log, each))
                    rows += sum(batch.num_rows for batch in found)
        assert rows == PARTITIONS * EACH
        return (kafka.proxy.answered - before) / NEEDED

    return sent


def test_what_follows_a_slice_is_fetched_once_for_the_next_one(planner: Planner, sent: Callable[..., float]) -> None:
    slices = planner.slices(1_000)
    assert len(slices) == PARTITIONS
    assert sent(slices, len(slices)) < IN_VAIN
    assert sent(slices, 1) > 2


def test_a_slice_that_is_too_large_is_fetched_once_for_its_pieces(planner: Planner, sent: Callable[..., float]) -> None:
    slices = planner.slices(PARTITIONS * EACH)
    assert len(slices) == 1
    assert sent(slices, 1, byte_budget=8_000_000) < IN_VAIN
