"""The watcher's trigger in an asyncio loop, on a ledger in a store by hand; Kafka always has enough.

When it starts a run is told in tests/property/test_watching.py; here is what it looks at, and that it goes on.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.runs import FIRST, LOAD, DictStore, a_range, a_report

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.errors import DataLossError
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.triggers import offsets

SECONDS_A_LOOK = 5
A_MINUTE = 13
"""In so many looks it reads what is kept."""


class CountedStore(DictStore):
    """A store that counts what is read."""

    def __init__(self):
        super().__init__()
        self.read = Counter()

    def get(self, key):
        self.read[key] += 1
        return super().get(key)


class Watched:
    """A watcher in a loop, the ledger that it looks at, and a clock that goes on from look to look."""

    def __init__(self, monkeypatch, store=None, **settings):
        self.store = store or CountedStore()
        self.ledger = LedgerStore(LOAD, self.store, lambda: None)
        self.active = set()
        self.reasons = []
        self.asked = 0
        self.enough = True
        self._now = 0
        self._failed = None
        monkeypatch.setattr(offsets, "time", SimpleNamespace(monotonic=lambda: self._now))
        self.trigger = offsets.OffsetRangeTrigger.watching(OrderedLoad(LOAD, topics=["orders"], **settings), 0)
        self._due = self.trigger._due
        monkeypatch.setattr(self.trigger, "_due", self._look)
        monkeypatch.setattr(offsets, "ledger_store", lambda _: self.ledger)
        monkeypatch.setattr(offsets, "is_active", lambda owner: owner in self.active)
        monkeypatch.setattr(offsets, "now_ms", lambda: self._now * 1000)
        monkeypatch.setattr(self.trigger, "_ask", self._ask)

    def play(self, story):
        """Let the watcher look while the story happens, which yields how many looks go by until it goes on."""

        async def watch():
            async for event in self.trigger.run():
                self.reasons.append(event.payload["reason"])

        async def first_event():
            watching = asyncio.create_task(watch())
            end = asyncio.get_running_loop().call_soon_threadsafe
            self._looks = (None for looks in story for _ in range(looks))
            self._end = lambda: end(watching.cancel)
            with suppress(asyncio.CancelledError):
                await watching
            assert watching.cancelled(), "a watcher never returns"

        asyncio.run(first_event())
        if self._failed is not None:
            raise self._failed

    def _look(self, load):
        self._now += SECONDS_A_LOOK
        try:
            next(self._looks)
        except Exception as end:  # the watcher outlives what goes wrong, which would hide what the story found
            self._failed = None if isinstance(end, StopIteration) else end
            self._end()
            raise LookupError("the story is over") from None
        return self._due(load)

    def _ask(self, load, ledger):
        self.asked += 1
        return Verdict(run=self.enough, reason="enough")

    def look_first(self):
        self.ledger.save(FIRST, None)

    def open(self, number):
        ledger = self.ledger.ledger()
        self.ledger.save(lifecycle.opened(ledger, f"r{number}", f"d/{number}"), ledger)
        self.active = {f"d/{number}"}

    def commit(self, number):
        ledger = self.ledger.ledger()
        loaded = a_range(f"r{number}", ledger.revision, number, number + 1)
        self.ledger.save(lifecycle.committed(ledger, loaded, a_report(loaded, 1), f"d/{number}", 1), ledger)
        self.active = set()


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_it_starts_one_run_for_each_revision_and_another_once_an_owner_ended_without_a_commit(watched):
    def story():
        yield A_MINUTE
        watched.look_first()
        for number in range(3):
            yield A_MINUTE
            watched.open(number)
            yield 100
            watched.commit(number)
        yield A_MINUTE
        watched.open(3)
        yield 100
        watched.active = set()
        yield A_MINUTE

    watched.play(story())
    taken = "range r3 of d/3 is to be taken over"
    assert watched.reasons == ["the first look", "enough", "enough", "enough", taken]


def test_it_looks_at_kafka_each_time_and_reads_what_is_kept_once_a_minute_and_before_it_starts_a_run(watched):
    minutes = 20

    def story():
        watched.look_first()
        watched.enough = False
        watched.store.read.clear()
        yield minutes * 60 // SECONDS_A_LOOK
        assert watched.asked == minutes * 60 // SECONDS_A_LOOK
        assert watched.store.read["watch"] == 1
        assert minutes - 2 <= watched.store.read["ledger"] <= minutes
        watched.enough = True
        before = watched.store.read["ledger"]
        yield 1
        assert watched.reasons == ["enough"]
        assert watched.store.read["watch"] == 3  # before it starts the run, and to see that this is stored
        assert watched.store.read["ledger"] == before + 1
        yield 1
        assert watched.store.read["ledger"] == before + 2

    watched.play(story())


def test_it_takes_no_count_back_that_another_watcher_stored_meanwhile(watched):
    def story():
        watched.look_first()
        yield 1
        assert watched.reasons == ["enough"]
        stored = replace(watched.ledger.watch(), times=5)
        watched.ledger.save_watch(stored)
        watched.open(0)
        yield A_MINUTE
        assert watched.ledger.watch() == replace(stored, owner="d/0")

    watched.play(story())


def test_what_it_knows_of_a_minute_ago_starts_no_run(watched):
    def story():
        watched.look_first()
        watched.enough = False
        yield 2
        watched.open(0)
        watched.enough = True
        yield 100

    watched.play(story())
    assert watched.reasons == []


def test_it_is_silent_once_the_row_limit_is_spent(monkeypatch):
    watched = Watched(monkeypatch, row_limit=1)

    def story():
        watched.look_first()
        yield 3
        watched.open(0)
        watched.commit(0)
        yield 100

    watched.play(story())
    assert watched.reasons == ["enough"]


def test_another_watcher_goes_on_where_the_one_before_it_was_ended(monkeypatch):
    first = Watched(monkeypatch)
    first.look_first()
    first.play(iter([3]))
    second = Watched(monkeypatch, first.store)
    second.play(iter([3]))
    assert (first.reasons, second.reasons) == (["enough"], [])


def test_it_outlives_what_goes_wrong(watched, monkeypatch):
    def fails(load, ledger):
        raise RuntimeError("Kafka is gone")

    def story():
        watched.look_first()
        works = watched.trigger._ask
        monkeypatch.setattr(watched.trigger, "_ask", fails)
        yield 3
        assert watched.reasons == []
        monkeypatch.setattr(watched.trigger, "_ask", works)
        yield 3

    watched.play(story())
    assert watched.reasons == ["enough"]


def test_what_no_waiting_mends_starts_runs_that_fail_with_it_ever_later_and_not_in_silence(watched, monkeypatch):
    def gone(load, ledger):
        raise DataLossError("orders[0]@5 is gone")

    def story():
        watched.look_first()
        monkeypatch.setattr(watched.trigger, "_ask", gone)
        yield 3600 // SECONDS_A_LOOK

    watched.play(story())
    assert set(watched.reasons) == {"waiting does not help, so a run shows the error: orders[0]@5 is gone"}
    assert 3 <= len(watched.reasons) <= 7


def test_its_asset_keeps_it_beside_the_tasks_that_name_the_ledger(example):
    from airflow.dag_processing.collection import AssetModelOperation
    from airflow.serialization.serialized_objects import LazyDeserializedDAG

    from airflow_provider_orderedkafka.reporting.status import outlets

    dag = LazyDeserializedDAG.from_dag(example("orders_watched"))
    collected = AssetModelOperation.collect({"orders_watched": dag}).assets
    before_3_3 = {each.name: 0 for each in outlets(OrderedLoad("orders_watched", topics=["orders"]))}
    assert {name: len(asset.watchers) for (name, _), asset in collected.items()} == before_3_3 | {
        "orderedkafka.orders_watched.due": 1,
        "orderedkafka.orders_watched.ledger": 0,
        "orderedkafka://topic/kafka_default/orders": 0,
    }
