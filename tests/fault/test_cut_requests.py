"""Requests to an object store whose connection ends before they were carried out, or after, without an answer.

The store has the checkpoint and the ledger of loads by hand, whose driver asks by S3A, or the ledger of Airflow's runs,
which ask by s3fs. A connection is cut once, which the client makes good; or all of them from a request on, as a store
is away, until the step has failed.
"""

import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fsspec.core import url_to_fs
from pyspark.sql import SparkSession
from support import hadoop_aws
from support.applications import Application, source_and_output
from support.object_store import ObjectStore, When
from support.outputs import FLAWLESS, check, expected_of
from support.proxied import Proxy
from support.records import Records
from support.runs import PARTITION, World
from support.topics import Topics

from airflow_provider_orderedkafka.errors import LedgerChangedError, StateError
from airflow_provider_orderedkafka.loads.ledger import LedgerStore, store_in
from airflow_provider_orderedkafka.spark.state import lease
from airflow_provider_orderedkafka.storage import ObjectState
from broker import free_port

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

BUCKET, BEHIND = "cut", "behind-a-proxy"
SECONDS = 30.0
RETRYABLE = 75
GIVES_UP = 4
"""More requests than a client that asks again once makes of one."""

TRIES = 8
NOBODYS = 2**30
"""A number that no process has."""
IMPATIENT = {
    "fs.s3a.attempts.maximum": "2",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.interval": "10ms",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.connection.timeout": "20s",
}
"""Ask again once: what a user's S3A does for minutes."""

WHENS: tuple[When, ...] = ("before", "after")
cases = pytest.mark.parametrize(
    "at_most",
    [pytest.param(3, id="some"), pytest.param(40, id="many", marks=[pytest.mark.nightly, pytest.mark.timeout(3_000)])],
)
whens = pytest.mark.parametrize("when", WHENS)


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """One for the module: clients are kept for a whole process."""
    with ObjectStore() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in started.environment.items():
            patch.setenv(name, value)
        for name in (BUCKET, BEHIND):
            started.client.create_bucket(Bucket=name)
        yield started


def each_once(when: When) -> Callable[[str], When | None]:
    """Every request that was not cut the last time that it was made is cut."""
    asked: Counter[str] = Counter()

    def cut(request: str) -> When | None:
        asked[request] += 1
        return when if asked[request] % 2 else None

    return cut


def all_from(number: int, when: When) -> Callable[[str], When | None]:
    """Request by request, from this one on."""
    asked = 0

    def cut(_: str) -> When | None:
        nonlocal asked
        asked += 1
        return None if asked < number else when if asked == number else "before"

    return cut


def away_until_it_was_noticed(number: int, when: When) -> Callable[[str], When | None]:
    """From this request on as many as a client makes of one before it gives up."""
    asked = 0

    def cut(_: str) -> When | None:
        nonlocal asked
        asked += 1
        return None if not number <= asked < number + GIVES_UP else when if asked == number else "before"

    return cut


def some(requests: int, at_most: int) -> list[tuple[int, When]]:
    """Requests of so many, and when they are cut."""
    every = [*product(range(1, requests), WHENS)]
    random.Random(requests).shuffle(every)
    return every[:at_most]


@contextmanager
def cutting(store: ObjectStore, cut: Callable[[str], When | None]) -> Iterator[None]:
    store.cut, before = cut, store.cut
    store.requests.clear()
    try:
        yield
    finally:
        store.cut = before


class ByHand:
    """A load by hand whose checkpoint is in the store."""

    def __init__(self, app: Application, place: str, topics: Topics, records: Records) -> None:
        self.source, self.output = source_and_output(topics, records, 120)
        self._app, self._records = app, records
        app.checkpoint = place  # type: ignore[assignment]  # it is in no folder
        self.place = place

    def run(self) -> object:
        """The exit code."""
        read_options = ("startingOffsets=earliest", f"subscribe={self.source}", "maxOffsetsPerTrigger=60")
        options = [part for each in read_options for part in ("--option", each)]
        try:
            self._app.run(*options, "--output-topic", self.output)
        except SystemExit as ended:
            return ended.code
        return 0

    def check(self) -> None:
        """Everything is there once and in order, and nothing is left to do."""
        assert check(expected_of(self._records, self.source), self._records.read(self.output)) == FLAWLESS


@pytest.fixture(scope="module")
def proxy(store: ObjectStore) -> Iterator[Proxy]:
    """What leads to the store, too."""
    found = Proxy(free_port(), int(store.endpoint.rpartition(":")[2]))
    yield found
    found.close()


@pytest.fixture
def by_hand(
    store: ObjectStore,
    proxy: Proxy,
    kafka: Any,
    spark: SparkSession,
    topics: Topics,
    records: Records,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., ByHand]]:
    """Makes one. Each attempt takes itself for a process that has ended when the next one looks for it."""
    ended = lease.Process(lease._machine(), NOBODYS, 1)
    monkeypatch.setattr(lease.SystemProcesses, "this", lambda _: ended)
    servers, address = kafka.bootstrap_servers, f"http://127.0.0.1:{proxy.port}"
    with hadoop_aws.reached(spark, store.settings | IMPATIENT | {f"fs.s3a.bucket.{BEHIND}.endpoint": address}):
        yield lambda name, bucket=BUCKET: ByHand(
            Application(servers, tmp_path), f"s3a://{bucket}/{tmp_path.name}-{name}", topics, records
        )


@pytest.mark.parametrize("when", ["after", pytest.param("before", marks=pytest.mark.nightly)])
def test_a_load_whose_every_request_is_cut_once_ends_in_one_attempt(
    store: ObjectStore, by_hand: Callable[..., ByHand], when: When
) -> None:
    load = by_hand(when)
    with cutting(store, each_once(when)):
        assert load.run() == 0
    load.check()
    assert len(store.requests) > 40


@cases
def test_a_load_whose_store_goes_away_at_a_request_is_finished_by_the_next_attempt(
    store: ObjectStore, by_hand: Callable[..., ByHand], at_most: int
) -> None:
    whole = by_hand("whole")
    store.requests.clear()
    assert whole.run() == 0
    count = len(store.requests)
    for number, when in some(count, at_most):
        load = by_hand(f"{number}-{when}")
        with cutting(store, all_from(number, when)):
            assert load.run() in (0, RETRYABLE)  # the last ones only tidy
        assert load.run() == 0
        load.check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_load_is_finished_by_the_attempts_after_it_however_the_network_to_its_store_failed(
    by_hand: Callable[..., ByHand], proxy: Proxy, seed: int
) -> None:
    load = by_hand(f"{seed}", BEHIND)
    with proxy.at_random(random.Random(seed), SECONDS):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and load.run() != 0:
            continue
    assert load.run() == 0
    load.check()
    assert len(proxy.done) > 4


class BucketStore:
    """A ledger in the store, which Airflow's clients ask."""

    def __init__(self, place: str) -> None:
        self._place = place
        asked_once = {"retries": {"max_attempts": 1, "mode": "standard"}}
        self._files, self._base = url_to_fs(place, config_kwargs=asked_once)
        self._files.retries = 1

    def opened(self, load: str, settle: Callable[[], None] = lambda: None) -> LedgerStore:
        return store_in(load, ObjectState(self._place, self._files, self._base))

    watched = opened


@pytest.fixture
def world(store: ObjectStore) -> World:
    """A load whose ledger is there, and whose clients ask again no more than once."""
    found: Any = BucketStore(f"s3://{BUCKET}/{secrets.token_hex(4)}")
    return World(found, high=5)


def stepped(world: World, number: int = 1) -> None:
    """The steps of a run, each of which is tried again until it succeeds, as a scheduler does."""
    run, ids = world.run(f"d/{number}"), []
    for step in (lambda: ids.append(run.resolve()), lambda: run.load(ids[0]), lambda: run.commit(ids[0])):
        for _ in range(TRIES):
            with suppress(StateError, LedgerChangedError):
                step()
                break
        else:
            raise AssertionError("it did not succeed")
    run.end()


def check_loaded(world: World, runs: int, to: int) -> None:
    """One range for each run, written once, and a ledger that stands behind the last one."""
    ledger = world.ledger
    assert ledger is not None
    assert (ledger.place.offsets[PARTITION], ledger.revision, ledger.open) == (to, runs, None)
    spans = sorted(world.written.values())
    assert len(spans) == runs
    assert [begin for begin, _ in spans[1:]] == [end for _, end in spans[:-1]]


@whens
def test_a_ledger_whose_every_request_is_cut_once_is_moved_once(store: ObjectStore, world: World, when: When) -> None:
    with cutting(store, each_once(when)):
        stepped(world)
    assert len(store.requests) > 30
    check_loaded(world, 1, 5)


@cases
def test_a_ledger_whose_store_goes_away_at_a_request_is_moved_once_by_the_next_try(
    store: ObjectStore, world: World, at_most: int
) -> None:
    store.requests.clear()
    stepped(world)
    count, runs = len(store.requests), 1
    for number, when in some(count, at_most):
        world.high += 5
        runs += 1
        with cutting(store, away_until_it_was_noticed(number, when)):
            stepped(world, runs)
        check_loaded(world, runs, world.high)
