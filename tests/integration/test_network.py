"""What goes over the network between a load and its brokers: each byte once, and again where it was lost.

A proxy between the two counts, and fails in each way once; tests/fault has it fail for longer.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.loads import START, Load, events
from support.outputs import FLAWLESS, check, expected_of
from support.proxied import WAYS, ProxiedKafka
from support.ranges import whole_range
from support.records import Record, Records
from support.slices import FAR
from support.topics import Topics

from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.cuts import NO_FLOOR, Slice, Span
from airflow_provider_orderedkafka.core.order.planning import Planner, split, worthwhile
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.kafka.clients import pools
from airflow_provider_orderedkafka.kafka.clients.pools import ReadSettings
from airflow_provider_orderedkafka.kafka.lookup import log as lookup
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.topics import (
    committed,
    discover,
    first_at,
    high_ends,
    log_starts,
    newest,
)
from airflow_provider_orderedkafka.kafka.read.slices import fetching, read_slice

RETRYABLE = 75
"""The exit code of an attempt that the next one may make good."""

PARTITIONS, EACH, SIZE = 20, 1_000, 1_000
NEEDED = PARTITIONS * EACH * SIZE
BATCH = 100_000
IN_VAIN = 1.25
"""Of what is needed, with what stands around the records, and with batches that are sent again."""
FRAME = 10
"""Bytes of a record besides its value, about."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedKafka]:
    with ProxiedKafka(tmp_path_factory.mktemp("proxied")) as started:
        yield started


@pytest.fixture(scope="module")
def log(kafka: ProxiedKafka) -> KafkaLog:
    """One whose answers the proxy does not see."""
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
                    found = read_slice(
                        slice_, fetching_settings, resplit=lambda large, each: split(large, log, each, "fail")
                    )
                    rows += sum(batch.num_rows for batch in found)
        assert rows == PARTITIONS * EACH
        return (kafka.proxy.answered - before) / NEEDED

    return sent


def test_what_follows_a_slice_is_fetched_once_for_the_next_one(planner: Planner, sent: Callable[..., float]) -> None:
    slices = planner.slices(1_000, "fail")
    assert len(slices) == PARTITIONS
    assert sent(slices, len(slices)) < IN_VAIN
    assert sent(slices, 1) > 2


def test_a_slice_that_is_too_large_is_fetched_once_for_its_pieces(planner: Planner, sent: Callable[..., float]) -> None:
    slices = planner.slices(PARTITIONS * EACH, "fail")
    assert len(slices) == 1
    assert sent(slices, 1, byte_budget=8_000_000) < IN_VAIN


def test_tasks_of_thin_partitions_are_few_and_long(planner: Planner, log: KafkaLog, sent: Callable[..., float]) -> None:
    size = log.batch_at(TopicPartition(planner.span.partitions[0].topic, 0), EACH // 2, EACH)
    assert size is not None
    assert size.records == pytest.approx(BATCH / SIZE, rel=0.05)
    assert size.bytes == pytest.approx(BATCH, rel=0.05)
    each = worthwhile(log, planner.span, 1_000)
    assert each == pytest.approx(PARTITIONS * size.records * (1 + 2**15 / size.bytes) / 0.05, rel=0.01)
    assert worthwhile(log, planner.span, PARTITIONS * EACH) == PARTITIONS * EACH
    slices = planner.slices(each, "fail")
    assert len(slices) == 1
    assert sent(slices, 1) < IN_VAIN


def test_a_partition_of_which_a_broker_has_no_record_left_says_nothing_of_batches(
    kafka: ProxiedKafka, log: KafkaLog
) -> None:
    topic = Topics(kafka.bootstrap_servers, "deleted-batches").create()
    Records(kafka.bootstrap_servers).produce(topic, [Record(b"1", 1), Record(b"2", 2)])
    gone = TopicPartition(topic, 0)
    assert log.batch_at(gone, 0, 2) is not None
    Records(kafka.bootstrap_servers).delete_before(topic, {0: 2})
    assert log.batch_at(gone, 0, 2) is None


def test_full_batches_of_java_s_default_size_fill_a_request_without_a_rest(kafka: ProxiedKafka, log: KafkaLog) -> None:
    topic, each, size = Topics(kafka.bootstrap_servers, "default-batches").create(partitions=PARTITIONS), 1_400, 100
    even = [Record(bytes(size), 1 + number, partition) for number in range(each) for partition in range(PARTITIONS)]
    Records(kafka.bootstrap_servers).produce(topic, even, **{"batch.size": 16_384, "linger.ms": 60_000})
    ends = Offsets({TopicPartition(topic, partition): each for partition in range(PARTITIONS)})
    (whole,) = Planner(log, Span(Offsets(dict.fromkeys(ends, 0)), ends, NO_FLOOR, FAR)).slices(
        each * PARTITIONS, "fail"
    )
    before = kafka.proxy.answered
    assert list(read_slice(whole, ReadSettings({"bootstrap.servers": kafka.proxied_servers})))
    assert kafka.proxy.answered - before < IN_VAIN * PARTITIONS * each * (size + FRAME)


def thin_topic(kafka: ProxiedKafka, name: str, batch: int, partitions: int = PARTITIONS) -> list[Slice]:
    """The slices of a topic of thin partitions that is large enough for a look at its batches."""
    topic, each, size = Topics(kafka.bootstrap_servers, name).create(partitions=partitions), 50_000 // partitions, 200
    even = [Record(bytes(size), 1 + number, partition) for number in range(each) for partition in range(partitions)]
    Records(kafka.bootstrap_servers).produce(topic, even, **{"batch.size": batch, "linger.ms": 60_000})
    ends = Offsets({TopicPartition(topic, partition): each for partition in range(partitions)})
    span = Span(Offsets(dict.fromkeys(ends, 0)), ends, NO_FLOOR, FAR)
    return Planner(KafkaLog({"bootstrap.servers": kafka.bootstrap_servers}), span).slices(10_000, "fail")


def in_vain(kafka: ProxiedKafka, slices: list[Slice], **more: int) -> float:
    """What came over what is needed, as one consumer reads all slices."""
    settings = replace(ReadSettings({"bootstrap.servers": kafka.proxied_servers}), **more)
    before = kafka.proxy.answered
    with fetching(slices, settings) as fetching_settings:
        assert sum(each.num_rows for one in slices for each in read_slice(one, fetching_settings)) == 50_000
    return (kafka.proxy.answered - before) / (50_000 * (200 + FRAME))


def test_requests_have_room_for_whole_batches_of_whatever_size_a_topic_has(kafka: ProxiedKafka) -> None:
    assert in_vain(kafka, thin_topic(kafka, "batches-of-11-kB", 11_300)) < 1.1


def test_a_topic_is_asked_for_in_few_requests_which_is_what_a_broker_works_for(kafka: ProxiedKafka) -> None:
    slices, before = thin_topic(kafka, "few-requests", 16_384, partitions=4), kafka.proxy.asked
    assert in_vain(kafka, slices) < 1.1
    assert kafka.proxy.asked - before < 50_000 * (200 + FRAME) / 250_000


def test_a_batch_of_each_partition_is_kept_where_it_is_larger_than_the_budget(kafka: ProxiedKafka) -> None:
    assert in_vain(kafka, thin_topic(kafka, "large-batches", 1_000_000), byte_budget=8_000_000) < 1.1


def test_a_look_at_a_batch_takes_one_of_them_however_the_answer_comes(
    kafka: ProxiedKafka, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_ASK", 1)  # as if all that was asked for had come at once
    before = kafka.proxy.answered
    assert KafkaLog({"bootstrap.servers": kafka.proxied_servers}).batch_at(planner.span.partitions[0], 0, EACH)
    assert kafka.proxy.answered - before < 2.5 * BATCH


def test_a_plan_looks_into_few_partitions(kafka: ProxiedKafka, planner: Planner) -> None:
    seen = KafkaLog({"bootstrap.servers": kafka.proxied_servers, "client.id": "looks"})
    before = kafka.proxy.answered
    assert len(Planner(seen, planner.span).slices(5_000, "fail")) == 4
    assert kafka.proxy.answered - before < 4 * BATCH


def test_of_a_batch_whose_size_the_client_says_in_other_words_nothing_is_known(
    planner: Planner, log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_FETCHED", re.compile("Got a fetch of ([0-9]+) bytes"))
    assert log.batch_at(planner.span.partitions[0], 0, EACH) is None


@contextmanager
def failing(kafka: ProxiedKafka, load: Load, seconds: float = 0.5) -> Iterator[None]:
    """Once each batch is begun the network fails, in another way each time."""
    over = threading.Event()

    def fail() -> None:
        for batch, way in enumerate(WAYS, start=1):
            while load.newest("notes") < batch and not over.wait(0.01):
                pass
            kafka.proxy.does(way)
            time.sleep(seconds)
            kafka.proxy.does("pass")

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_each_row_is_there_once_and_in_order_in_whatever_way_the_network_failed(
    kafka: ProxiedKafka, topics: Topics, records: Records, tmp_path: Path
) -> None:
    source, output = topics.create("in", 4), topics.create("out", 3)
    records.produce(source, events(1_200, 1))
    loaded = whole_range(kafka.bootstrap_servers, source, batch_offsets=200)
    load = Load(kafka.proxied_servers, tmp_path, loaded, "--output-topic", output, "--option", "sliceOffsets=100")
    with failing(kafka, load):
        while not load.complete():
            assert load.ending_here() in (0, RETRYABLE)
    report = load.report()
    assert check(expected_of(records, source), records.read(output)) == FLAWLESS
    assert (report.rows_emitted, report.may_be_doubled, report.may_be_out_of_order) == (1_200, 0, 0)


QUESTIONS: dict[str, Callable[[Mapping[str, str], list[TopicPartition]], Any]] = {
    "which topics there are": lambda config, partitions: discover(config, Named((partitions[0].topic,))),
    "where a group stands": lambda config, partitions: committed(config, "nobody", partitions),
    "where logs begin": log_starts,
    "where logs end": high_ends,
    "the newest time": newest,
    "where a time is": lambda config, partitions: first_at(config, partitions, [START + 500]),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_whose_answer_was_lost_is_asked_again(
    kafka: ProxiedKafka, topics: Topics, records: Records, question: str
) -> None:
    topic = topics.create("in", 4)
    records.produce(topic, events(400, 1))

    def asked(servers: str) -> Any:
        config = {"bootstrap.servers": servers}
        return QUESTIONS[question](config, [TopicPartition(topic, number) for number in range(4)])

    asked(kafka.proxied_servers)  # from now on there is a connection, which is lost with the answer
    kafka.proxy.does("mute")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(asked, kafka.proxied_servers)
        time.sleep(0.5)
        kafka.proxy.does("cut")
        assert answer.result() == asked(kafka.bootstrap_servers)
