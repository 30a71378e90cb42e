"""The watcher's trigger in an asyncio loop of its own, on a ledger in a store by hand; Kafka always has enough."""

import asyncio

import pytest
from support.runs import LOAD, TOPICS, DictStore, a_range, a_report, place

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.pacing import Verdict
from airflow_provider_orderedkafka.ledger import LedgerStore
from airflow_provider_orderedkafka.triggers import offsets

LOOK = 0.005
BACKOFF = 100


class Watched:
    """A watcher in a loop, and the ledger that it looks at."""

    def __init__(self, monkeypatch, **settings):
        self.store = DictStore()
        self.ledger = LedgerStore(LOAD, self.store, lambda: None)
        self.active = set()
        self.reasons = []
        self.trigger = offsets.OffsetRangeTrigger.watching(
            OrderedLoad(LOAD, topics=["orders"], **settings), LOOK, BACKOFF
        )
        monkeypatch.setattr(offsets, "ledger_store", lambda _: self.ledger)
        monkeypatch.setattr(offsets, "is_active", lambda owner: owner in self.active)
        monkeypatch.setattr(self.trigger, "_ask", lambda load, ledger: Verdict(run=True, reason="enough"))

    def play(self, story):
        async def both():
            watching = asyncio.create_task(self._watch())
            await story
            assert not watching.done(), "a watcher never returns"
            watching.cancel()

        asyncio.run(both())

    async def _watch(self):
        async for event in self.trigger.run():
            self.reasons.append(event.payload["reason"])

    async def looks(self, count=20):
        """So many looks later."""
        await asyncio.sleep(count * LOOK * 2)

    def look_first(self):
        ledger = moves.first_look(LOAD, instance="i", home_dag="d", place=place(0), topics=TOPICS, now=0)
        self.ledger.save(ledger, None)

    def open(self, number):
        ledger = self.ledger.ledger()
        self.ledger.save(moves.opened(ledger, f"r{number}", f"d/{number}"), ledger)
        self.active = {f"d/{number}"}

    def commit(self, number):
        ledger = self.ledger.ledger()
        loaded = a_range(f"r{number}", ledger.revision, number, number + 1)
        self.ledger.save(moves.committed(ledger, loaded, a_report(loaded, 1), f"d/{number}", 1), ledger)
        self.active = set()


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_it_starts_one_run_for_each_revision_and_none_while_a_range_is_owned(watched):
    async def story():
        await watched.looks()
        assert watched.reasons == ["the first look"]
        watched.look_first()
        for number in range(3):
            await watched.looks()
            assert watched.reasons[1:] == ["enough"] * (number + 1)
            watched.open(number)
            await watched.looks(60)
            assert watched.reasons[1:] == ["enough"] * (number + 1)
            watched.commit(number)

    watched.play(story())


def test_after_an_owner_that_ended_without_a_commit_it_starts_others_ever_later(watched):
    async def story():
        watched.look_first()
        await watched.looks()
        watched.open(0)
        await watched.looks()
        watched.active = set()
        await asyncio.sleep(BACKOFF / 1000 * 10)  # it waits 1, 2, 4, 8 times the backoff

    watched.play(story())
    taken = "range r0 of d/0 is to be taken over"
    assert watched.reasons[0] == "enough"
    assert set(watched.reasons[1:]) == {taken}
    assert 2 <= len(watched.reasons[1:]) <= 4


def test_it_is_silent_once_the_row_limit_is_spent(monkeypatch):
    watched = Watched(monkeypatch, row_limit=1)

    async def story():
        watched.look_first()
        await watched.looks()
        watched.open(0)
        watched.commit(0)
        await watched.looks(60)

    watched.play(story())
    assert watched.reasons == ["enough"]


def test_another_watcher_goes_on_where_the_one_before_it_was_ended(monkeypatch):
    first = Watched(monkeypatch)

    async def one_run():
        first.look_first()
        await first.looks()

    first.play(one_run())
    second = Watched(monkeypatch)
    second.store.values = first.store.values
    second.play(second.looks())
    assert (first.reasons, second.reasons) == (["enough"], [])


def test_it_outlives_what_goes_wrong(watched, monkeypatch, caplog):
    def fails(load, ledger):
        raise RuntimeError("Kafka is gone")

    async def story():
        watched.look_first()
        monkeypatch.setattr(watched.trigger, "_ask", fails)
        await watched.looks()
        assert watched.reasons == []
        monkeypatch.setattr(watched.trigger, "_ask", lambda load, ledger: Verdict(run=True, reason="enough"))
        await watched.looks()

    watched.play(story())
    assert watched.reasons == ["enough"]


def test_its_asset_keeps_it_beside_the_tasks_that_name_the_ledger(example):
    from airflow.dag_processing.collection import AssetModelOperation
    from airflow.serialization.serialized_objects import LazyDeserializedDAG

    dag = LazyDeserializedDAG.from_dag(example("orders_watched"))
    collected = AssetModelOperation.collect({"orders_watched": dag}).assets
    assert {name: len(asset.watchers) for (name, _), asset in collected.items()} == {
        "orderedkafka.orders_watched.due": 1,
        "orderedkafka.orders_watched.ledger": 0,
    }
