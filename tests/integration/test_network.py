"""A network that fails between a load and its brokers, in each way once; tests/fault has it fail for longer."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.loads import START, Load, events
from support.outputs import FLAWLESS, check, expected_of
from support.proxied import WAYS, ProxiedKafka
from support.ranges import whole_range
from support.records import Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.lookup.topics import (
    committed,
    discover,
    first_at,
    high_ends,
    log_starts,
    newest,
)

RETRYABLE = 75
"""The exit code of an attempt that the next one may make good."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedKafka]:
    with ProxiedKafka(tmp_path_factory.mktemp("proxied")) as cluster:
        yield cluster


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


PARTITIONS = [0, 1, 2, 3]
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
    topic = topics.create("in", len(PARTITIONS))
    records.produce(topic, events(400, 1))

    def asked(servers: str) -> Any:
        config = {"bootstrap.servers": servers}
        return QUESTIONS[question](config, [TopicPartition(topic, number) for number in PARTITIONS])

    asked(kafka.proxied_servers)  # from now on there is a connection, which is lost with the answer
    kafka.proxy.does("mute")
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(asked, kafka.proxied_servers)
        time.sleep(0.5)
        kafka.proxy.does("cut")
        assert answer.result() == asked(kafka.bootstrap_servers)
