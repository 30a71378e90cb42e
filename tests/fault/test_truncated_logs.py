"""Logs that are truncated and grow again, by an unclean election or a restored backup: whoever stood in one is told.

Offsets alone do not show it: the log is longer than ever. After an election that truncates nothing, all goes on.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.keeping import Values
from support.loads import Load
from support.plain import as_argument
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.notation.starts import parse_start
from airflow_provider_orderedkafka.core.order.marks import Compared
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError, exit_code
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers, resolve
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.outputs import FilesOutput
from airflow_provider_orderedkafka.reader import read
from airflow_provider_orderedkafka.spark.connector.options import parse_options
from airflow_provider_orderedkafka.spark.connector.stream import Stream
from broker import LocalKafka

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]

BASE, HOUR = 1_700_000_000_000, 60 * 60 * 1_000
NOW = BASE + 10 * HOUR
KEPT, STOOD = 50, 100
P = TopicPartition("orders", 0)


class Stood:
    """A topic of 100 records, and who stands at its end: a load with a range, two readers, an interval, a stream."""

    def __init__(self, cluster: LocalKafka, folder: Path) -> None:
        self.folder, self.servers = folder, cluster.bootstrap_servers
        self.kafka = Brokers({"bootstrap.servers": self.servers})
        self.terms = OrderedLoad("orders", topics=[P.topic], start="earliest", grace="0s").terms
        self.options = parse_options(
            {"kafka.bootstrap.servers": self.servers, "subscribe": P.topic, "startingOffsets": "earliest"}, stream=True
        )
        self.boundaries = LedgerStore("orders", Values(), settle=lambda: None)

    def write(self, count: int, first: int) -> None:
        Records(self.servers).produce(P.topic, [Record(b"%d" % n, BASE + first + n, 0, b"k") for n in range(count)])

    def stand(self) -> None:
        first = ranges.first_look(self.kafka, self.terms, NOW)
        where = {"place": first.place, "topics": first.topics, "now": NOW}
        begun = lifecycle.first_look("orders", instance="i", home_dag=None, **where)
        self.planned = self.of_range(ranges.plan(self.kafka, self.terms, begun, now=NOW))
        self.ledger = lifecycle.joined(begun, self.planned.end, self.planned.topics)
        self.of_range(self.interval())
        stream = Stream(self.options)
        start = stream.first()
        end = stream.after(start, None)
        assert end is not None
        self.batch = (start, end)
        self.follower = read(self.servers, P.topic, follow=True)
        while self.follower.rows < STOOD:
            next(self.follower)
        with read(self.servers, P.topic) as whole:
            assert sum(batch.num_rows for batch in whole) == STOOD
            self.position = json.loads(json.dumps(whole.position))

    def of_range(self, planned: object) -> Range:
        assert isinstance(planned, Range)
        assert planned.end.offsets[P] == STOOD
        return planned

    def interval(self) -> object:
        times = (BASE - HOUR, BASE + HOUR)
        return ranges.plan_interval(self.kafka, self.terms, self.boundaries, times, now=lambda: NOW)

    def available_now(self) -> object:
        stream = Stream(self.options)
        stream.fix_target()
        return stream.after(self.batch[1], None)

    def load(self, loaded: Range) -> object:
        folder = self.folder / f"{loaded.id}"
        folder.mkdir()
        output = as_argument(FilesOutput(str(folder / "table")))
        return Load(self.servers, folder, loaded, "--output", output).ending_here()


def restored(cluster: LocalKafka, stood: Stood) -> None:
    """A backup from the middle is restored, and more is written than was lost."""
    stood.write(KEPT, 0)
    [place] = cluster.directory.rglob(f"{P.topic}-{P.partition}")
    cluster.stop()
    shutil.copytree(place, cluster.directory / "backup")
    cluster.start()
    stood.write(STOOD - KEPT, KEPT)
    stood.stand()
    cluster.stop()
    shutil.rmtree(place)
    shutil.copytree(cluster.directory / "backup", place)
    cluster.start()


def elected(cluster: LocalKafka, stood: Stood) -> None:
    """A leader is elected that had missed the second half."""
    stood.write(KEPT, 0)
    cluster.brokers[1].kill()
    stood.write(STOOD - KEPT, KEPT)
    stood.stand()
    cluster.brokers[0].kill()
    cluster.brokers[1].start()


def restarted(cluster: LocalKafka, stood: Stood) -> None:
    """There is an election, and nothing is lost."""
    stood.write(STOOD, 0)
    stood.stand()
    cluster.stop()
    cluster.start()


UNCLEAN = {"unclean.leader.election.enable": True}


@contextmanager
def grown(happens: Callable[[LocalKafka, Stood], None], folder: Path, **how: Any) -> Iterator[Stood]:
    """What it is like when this has happened, and 100 records came after it."""
    with LocalKafka(folder / "kafka", **how) as cluster:
        stood = Stood(cluster, folder)
        assignment = [[1, 2][: len(cluster.brokers)]]
        Topics(stood.servers, "orders").create_named(P.topic, assignment=assignment)
        happens(cluster, stood)
        stood.write(STOOD, 1_000)
        yield stood


@pytest.fixture(scope="module", params=[restored, elected], ids=["a restored folder", "an unclean election"])
def truncated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stood]:
    how: dict[str, Any] = {"brokers": 3, "properties": UNCLEAN} if request.param is elected else {}
    with grown(request.param, tmp_path_factory.mktemp("orders"), **how) as stood:
        yield stood


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stood]:
    with grown(restarted, tmp_path_factory.mktemp("same")) as stood:
        yield stood


WHO: dict[str, Callable[[Stood], object]] = {
    "a reader that goes on": lambda stood: list(read(stood.servers, P.topic, start=stood.position)),
    "a reader that follows": lambda stood: next(stood.follower),
    "the next range of a load": lambda stood: ranges.plan(stood.kafka, stood.terms, stood.ledger, now=NOW),
    "what a sensor looks at": lambda stood: ranges.verdict(stood.kafka, stood.terms, stood.ledger, NOW),
    "an interval": lambda stood: stood.interval(),
    "a stream": lambda stood: Stream(stood.options).after(stood.batch[1], None),
    "a stream that ends with what is there": lambda stood: stood.available_now(),
    "a batch of a stream that is planned again": lambda stood: Stream(stood.options).slices(*stood.batch),
}


@pytest.mark.parametrize("look", WHO.values(), ids=WHO)
def test_a_log_that_was_truncated_and_has_grown_since_is_another_one(
    truncated: Stood, look: Callable[[Stood], object]
) -> None:
    with pytest.raises(DataLossError) as raised:
        look(truncated)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (*P, KEPT)


def test_a_range_that_was_planned_before_is_not_loaded(truncated: Stood) -> None:
    assert truncated.load(truncated.planned) == exit_code(
        DataLossError("gone", topic="orders", partition=0, offset=KEPT)
    )
    assert not list(truncated.folder.rglob("*.parquet"))


def test_the_way_out_gives_what_the_log_has_since(truncated: Stood) -> None:
    with pytest.raises(DataLossError) as raised:
        ranges.plan(truncated.kafka, truncated.terms, truncated.ledger, now=NOW)
    _, _, asked = str(raised.value).partition("--to '")
    found = truncated.kafka.discover(truncated.terms.subscription)
    start = resolve(truncated.kafka, truncated.terms, parse_start(asked.partition("'")[0], "to"), found, NOW)
    assert start.offsets == {P: KEPT}


@pytest.mark.parametrize("look", WHO.values(), ids=WHO)
def test_an_election_that_truncates_nothing_stops_nobody(same: Stood, look: Callable[[Stood], object]) -> None:
    look(same)


@pytest.mark.parametrize(
    "reason",
    [
        lambda stood: ranges.plan(stood.kafka, stood.terms, stood.ledger, now=NOW).reason,
        lambda stood: (
            ranges.plan_interval(
                stood.kafka,
                replace(stood.terms, on_data_loss="count"),
                stood.boundaries,
                (BASE - HOUR, BASE + HOUR),
                now=lambda: NOW,
            ).reason
        ),
    ],
    ids=["the next range of a load", "an interval"],
)
def test_where_retention_took_the_record_before_it_is_said_that_the_log_is_not_known(
    same: Stood, reason: Callable[[Stood], str]
) -> None:
    Records(same.servers).delete_before(P.topic, {P.partition: STOOD})
    assert Compared(unknown=(P,)).remark in reason(same)
