"""Wait in the triggerer: for a deferred run, or as an asset's watcher that starts runs.

Nothing here blocks the triggerer's event loop: Kafka and the ledger are polled in threads, with one client for each
connection. The thread pool is our own, so that polls which hang do not hold up other triggers.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_orderedkafka.compat.airflow import asset_state
from airflow_provider_orderedkafka.context import is_active, ledger_asset, now_ms
from airflow_provider_orderedkafka.core.documents import Ledger
from airflow_provider_orderedkafka.core.limits import limit_spent
from airflow_provider_orderedkafka.core.pacing import Remarks, Verdict, until
from airflow_provider_orderedkafka.core.watching import Seen, WatcherState, fired, noticed, silent
from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.ledgers import ledger_in, location_for
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.operations import ledger_of
from airflow_provider_orderedkafka.telling import metrics, status

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

PATH = "airflow_provider_orderedkafka.triggers.offsets.OffsetRangeTrigger"
POLL_SECONDS = 5.0
THOROUGH_SECONDS = 60.0
"""Seconds between looking for new partitions and reading the connection again."""

LOOKS_AT_ONCE = 16

LARGEST = 30_000
"""Characters of a ledger that fit into a trigger's arguments: encrypted, MySQL stores at most 64 KiB."""

Found = TypeVar("Found")

_threads = ThreadPoolExecutor(LOOKS_AT_ONCE, "orderedkafka-look")


class OffsetRangeTrigger(BaseEventTrigger):
    """Fires when there is enough to load. Made by `OffsetRangeSensor` and `watched_ledger_asset`.

    For a deferred run it fires once. As an asset's watcher it never ends: it fires once for each revision of the
    ledger, and again, with growing delays, while the runs that it started end without a commit.

    :param load: The load, as JSON.
    :param ledger: The ledger that a deferred run saw, as text and without its outcomes.
    :param poll_interval: Seconds between two polls of Kafka.
    :param moment: Without a ledger: the time to wait for, in milliseconds since the epoch.
    :param backoff: Delay before a watcher starts another run for the same revision, in milliseconds.
    :param stored: Read the ledger of a deferred run from its store, because it is too large for an argument.
    """

    def __init__(
        self,
        load: dict[str, Any],
        ledger: str | None = None,
        poll_interval: float = POLL_SECONDS,
        moment: int | None = None,
        backoff: int = 60_000,
        *,
        stored: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.load = load
        self.ledger = ledger
        self.poll_interval = poll_interval
        self.moment = moment
        self.backoff = backoff
        self.stored = stored
        self._looked_thoroughly = 0.0
        self._remarks = Remarks()

    @classmethod
    def waiting(cls, load: OrderedLoad, ledger: Ledger | None, poll_interval: float, moment: int | None) -> Self:
        """For a deferred run: wait until the load is due or, without a ledger, until the moment."""
        text = None if ledger is None else replace(ledger, open=None, outcomes=()).to_text()
        large = text is not None and len(text) > LARGEST
        return cls(load.to_json(), None if large else text, poll_interval, moment, stored=large)

    @classmethod
    def watching(cls, load: OrderedLoad, poll_interval: float = POLL_SECONDS, backoff: int = 60_000) -> Self:
        """For an asset's watcher."""
        return cls(load.to_json(), poll_interval=poll_interval, backoff=backoff)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and the arguments."""
        names = ("load", "ledger", "poll_interval", "moment", "backoff", "stored")
        return PATH, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the load is due; a watcher goes on after that."""
        load = OrderedLoad.from_json(self.load)
        events = (
            self._watch(load) if self.ledger is None and self.moment is None and not self.stored else self._wait(load)
        )
        async for event in events:
            yield event

    async def _wait(self, load: OrderedLoad) -> AsyncIterator[TriggerEvent]:
        """Outages of Kafka are waited out; an error that a retry cannot mend ends the wait."""
        ledger = None if self.ledger is None else Ledger.from_text(self.ledger)
        if self.stored:
            ledger = await _in_thread(lambda: ledger_of(ledger_store(load)))
        while True:
            try:
                verdict = await self._verdict(load, ledger)
            except OrderedKafkaError as error:
                if not error.retryable:
                    yield _event(error=str(error))
                    return
                self.log.warning("%s: %s", load.name, error)
            else:
                if self._remarks.new(verdict.reason, now_ms()) or verdict.run:
                    self.log.info("%s: %s", load.name, verdict.reason)
                if verdict.run:
                    yield _event(reason=verdict.reason)
                    return
            await asyncio.sleep(self.poll_interval)

    async def _verdict(self, load: OrderedLoad, ledger: Ledger | None) -> Verdict:
        if ledger is None:
            return until(self.moment or 0, now_ms())
        return await _in_thread(lambda: self._ask(load, ledger))

    async def _watch(self, load: OrderedLoad) -> AsyncIterator[TriggerEvent]:
        """A watcher that returned would be started again at once, so this never does, whatever happens."""
        while True:
            try:
                reason = await _in_thread(lambda: self._due(load))
            except Exception as error:  # noqa: BLE001 - it has to outlive everything
                self.log.warning("%s: %s", load.name, error)
            else:
                if reason is not None:
                    yield _event(load=load.name, reason=reason)
            await asyncio.sleep(self.poll_interval)

    def _due(self, load: OrderedLoad) -> str | None:
        """Why to start a run now, if at all; stored before the run starts."""
        store = ledger_store(load)
        before, seen = store.watch(), _seen(load, store.ledger())
        watch = noticed(before, seen)
        if watch is not None and watch != before:
            store.save_watch(watch)
        reason = self._reason(load, watch, seen)
        if reason is not None:
            store.save_watch(fired(watch, seen))
        return reason

    def _reason(self, load: OrderedLoad, watch: WatcherState | None, seen: Seen) -> str | None:
        if silent(watch, seen, self.backoff) is not None:
            return None
        if seen.ledger is None:
            return "the first look"
        if seen.ledger.open is not None:
            return f"range {seen.ledger.open.range_id} of {seen.ledger.open.owner} is to be taken over"
        verdict = self._ask(load, seen.ledger)
        return verdict.reason if verdict.run else None

    def _ask(self, load: OrderedLoad, ledger: Ledger) -> Verdict:
        thorough = time.monotonic() - self._looked_thoroughly > THOROUGH_SECONDS
        verdict = hook_of(load.kafka_conn_id).verdict(load, ledger, known=not thorough)
        metrics.waits(load.name, ledger, verdict, in_triggerer=True)
        if thorough:
            status.looked(None, load, ledger, verdict)
            self._looked_thoroughly = time.monotonic()
        return verdict


async def _in_thread(work: Callable[[], Found]) -> Found:
    return await asyncio.get_running_loop().run_in_executor(_threads, copy_context().run, work)


_hooks: "dict[str, tuple[float, OrderedKafkaHook]]" = {}


def hook_of(conn_id: str) -> "OrderedKafkaHook":
    """The hook that all triggers of this process share; its connection is read again every minute."""
    from airflow_provider_orderedkafka.hooks.ordered_kafka import OrderedKafkaHook

    made, hook = _hooks.get(conn_id, (0.0, None))
    if hook is None or time.monotonic() - made > THOROUGH_SECONDS:
        hook = OrderedKafkaHook(conn_id)
        _ = hook.config
        _hooks[conn_id] = (time.monotonic(), hook)
    return hook


def ledger_store(load: OrderedLoad) -> LedgerStore:
    """The load's documents; the accessor that Airflow gives to a watcher is that of the asset it sits on."""
    location = location_for(load.name, load.ledger)
    if location is not None:
        return ledger_in(load.name, location)
    return LedgerStore(load.name, asset_state(ledger_asset(load.name)))


def _seen(load: OrderedLoad, ledger: Ledger | None) -> Seen:
    owner = None if ledger is None or ledger.open is None else ledger.open.owner
    spent = ledger is not None and limit_spent(ledger, load.row_limit) is not None
    return Seen(ledger, owner is not None and is_active(owner), spent, now_ms())


def _event(**told: str) -> TriggerEvent:
    return TriggerEvent(told)  # type: ignore[no-untyped-call]
