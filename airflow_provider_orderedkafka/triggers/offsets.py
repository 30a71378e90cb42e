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

from ..compat.airflow import StateOfAsset, asset_state
from ..context import is_active, ledger_asset, now_ms, queued_behind
from ..core.documents import Ledger, Open
from ..core.next_range import limit_reached
from ..core.pacing import Remarks, Seen, Verdict, WatcherState, fired, noticed, silent, until
from ..errors import CredentialsError, OrderedKafkaError
from ..load import OrderedLoad
from ..loads.ledger import LedgerStore
from ..loads.ledger_operations import ledger_of
from ..locations import ledger_in, location_for
from ..reporting import metrics, status

if TYPE_CHECKING:
    from ..hooks.ordered_kafka import OrderedKafkaHook

PATH = "airflow_provider_orderedkafka.triggers.offsets.OffsetRangeTrigger"
POLL_SECONDS = 5.0
THOROUGH_SECONDS = 60.0
"""Seconds between looking for new partitions, reading the connection or the ledger again, and asking Airflow."""

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
    :param dag_id: The DAG of a deferred run that ends, to be skipped, when another one is queued behind it.
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
        dag_id: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.load = load
        self.ledger = ledger
        self.poll_interval = poll_interval
        self.moment = moment
        self.backoff = backoff
        self.stored = stored
        self.dag_id = dag_id
        self._looked_thoroughly = 0.0
        self._remarks = Remarks()
        self._known: Ledger | None = None
        self._known_at = self._asked_at = time.monotonic()
        self._kept: tuple[WatcherState | None, Seen] | None = None

    @classmethod
    def waiting(
        cls,
        load: OrderedLoad,
        ledger: Ledger | None,
        poll_interval: float,
        moment: int | None,
        dag_id: str | None = None,
    ) -> Self:
        """For a deferred run: wait until the load is due or, without a ledger, until the moment."""
        text = None if ledger is None else replace(ledger, open=None, outcomes=()).to_text()
        large = text is not None and len(text) > LARGEST
        return cls(load.to_json(), None if large else text, poll_interval, moment, stored=large, dag_id=dag_id)

    @classmethod
    def watching(cls, load: OrderedLoad, poll_interval: float = POLL_SECONDS, backoff: int = 60_000) -> Self:
        return cls(load.to_json(), poll_interval=poll_interval, backoff=backoff)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("load", "ledger", "poll_interval", "moment", "backoff", "stored", "dag_id")
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
        """Outages, also those of Airflow itself, are waited out; an error that a retry cannot mend ends the wait.

        The task has just looked. Nor should it go on before its worker has reported that it ended, when it was
        deferred: Airflow's scheduler takes that for the end of a task that was killed, and fails it.
        """
        self._known = None if self.ledger is None else Ledger.from_text(self.ledger)
        while True:
            await asyncio.sleep(self.poll_interval)
            try:
                verdict = await self._verdict(load)
            except Exception as error:  # noqa: BLE001 - Airflow's errors, and those of its stores, share no base
                if _ends_a_wait(error):
                    yield _event(error=str(error), kind=type(error).__name__)
                    return
                self.log.warning("%s: %s", load.name, error)
            else:
                if self._remarks.new(verdict.reason, now_ms()) or verdict.run:
                    self.log.info("%s: %s", load.name, verdict.reason)
                if verdict.run or verdict.skip:
                    yield _event(**{"reason" if verdict.run else "skip": verdict.reason})
                    return

    async def _verdict(self, load: OrderedLoad) -> Verdict:
        if self.ledger is None and not self.stored:
            return until(self.moment or 0, now_ms())
        return await _in_thread(lambda: self._now(load, self._present(load)))

    def _present(self, load: OrderedLoad) -> Ledger:
        """The ledger as it is kept, read once a minute: a person may rewind it, another run may move it.

        Where it cannot be read now, it stays as it was seen, which is logged.
        """
        if self._known is not None and time.monotonic() - self._known_at <= THOROUGH_SECONDS:
            return self._known
        self._known_at = time.monotonic()
        try:
            self._known = ledger_of(ledger_store(load))
        except Exception as error:
            if self._known is None or (isinstance(error, OrderedKafkaError) and not error.retryable):
                raise
            self.log.warning("%s: a rewind would not be seen, as its ledger cannot be read: %s", load.name, error)
        return self._known

    def _now(self, load: OrderedLoad, ledger: Ledger) -> Verdict:
        """Whether the waiting run is to go on; while another run loads a range, it waits for that."""
        seen = _seen(load, ledger)
        if seen.owner is not None and seen.owner_active:
            return Verdict(run=False, reason=f"{seen.owner} loads a range of this load")
        reason = limit_reached(ledger, load.row_limit) if ledger.open is None else _taken_over(ledger.open)
        if reason is not None:
            return Verdict(run=True, reason=reason)
        verdict = self._ask(load, ledger)
        behind = None if verdict.run else self._behind()
        return verdict if behind is None else replace(verdict, skip=True, reason=f"{behind}; {verdict.reason}")

    def _behind(self) -> str | None:
        """Why to end, if another run is queued; asked once a minute, and by the task before it was deferred."""
        if time.monotonic() - self._asked_at <= THOROUGH_SECONDS:
            return None
        self._asked_at = time.monotonic()
        return queued_behind(self.dag_id)

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
        """Why to start a run now, if at all; stored before the run starts.

        The ledger is read once a minute and after a run was started, and everything once more before one is.
        """
        known = self._kept
        if known is None or time.monotonic() - self._known_at > THOROUGH_SECONDS:
            watch, seen = self._kept_now(load, known)
        else:
            watch, seen = known
        seen = replace(seen, now=now_ms())
        reason = self._reason(load, watch, seen)
        if reason is not None and known is not None:
            watch, seen = self._kept_now(load)
            reason = self._reason(load, watch, seen)
        if reason is not None:
            self._kept = None
            started = fired(watch, seen)
            ledger_store(load).save_watch(started)
            self._kept, self._known_at = (started, seen), float("-inf")
        return reason

    def _kept_now(
        self, load: OrderedLoad, known: tuple[WatcherState | None, Seen] | None = None
    ) -> tuple[WatcherState | None, Seen]:
        """The watcher's own state and the ledger, with what is new there.

        Of what is `known` its own state is not read, as nobody else writes it, but for the watcher of another
        triggerer for a moment: so it is before anything is stored.
        """
        self._known_at = time.monotonic()
        store = ledger_store(load)
        before = store.watch() if known is None else known[0]
        seen = _seen(load, store.ledger())
        watch = noticed(before, seen)
        if watch != before and known is not None:
            return self._kept_now(load)
        if watch is not None and watch != before:
            store.save_watch(watch)
        self._kept = watch, seen
        return self._kept

    def _reason(self, load: OrderedLoad, watch: WatcherState | None, seen: Seen) -> str | None:
        if silent(watch, seen, self.backoff) is not None:
            return None
        if seen.ledger is None:
            return "the first look"
        if seen.ledger.open is not None:
            return _taken_over(seen.ledger.open)
        try:
            verdict = self._ask(load, seen.ledger)
        except Exception as error:
            if not _ends_a_wait(error):
                raise
            return f"waiting does not help, so a run shows the error: {error}"  # a watcher's log alarms nobody
        return verdict.reason if verdict.run else None

    def _ask(self, load: OrderedLoad, ledger: Ledger) -> Verdict:
        thorough = time.monotonic() - self._looked_thoroughly > THOROUGH_SECONDS
        try:
            verdict = hook_of(load.kafka_conn_id).verdict(load, ledger, known=not thorough)
        except CredentialsError:  # they may have been changed since they were read
            verdict = hook_of(load.kafka_conn_id, anew=True).verdict(load, ledger, known=not thorough)
        metrics.waits(load.name, ledger, verdict, in_triggerer=True)
        if thorough:
            status.looked(None, load, ledger, verdict)
            self._looked_thoroughly = time.monotonic()
        return verdict


async def _in_thread(work: Callable[[], Found]) -> Found:
    return await asyncio.get_running_loop().run_in_executor(_threads, copy_context().run, work)


_hooks: "dict[str, tuple[float, OrderedKafkaHook]]" = {}


def hook_of(conn_id: str, *, anew: bool = False) -> "OrderedKafkaHook":
    """The hook that all triggers of this process share; its connection is read again every minute, or `anew`.

    `OrderedKafkaError` if that fails, which is tried again at the next look: what was read before may be outdated.
    """
    from ..hooks.ordered_kafka import OrderedKafkaHook

    made, hook = _hooks.get(conn_id, (0.0, None))
    if hook is None or anew or time.monotonic() - made > THOROUGH_SECONDS:
        hook = OrderedKafkaHook(conn_id)
        _ = hook.config
        _hooks[conn_id] = (time.monotonic(), hook)
    return hook


def ledger_store(load: OrderedLoad) -> LedgerStore:
    """The load's documents; the accessor that Airflow gives to a watcher is that of the asset it sits on."""
    location = location_for(load.name, load.ledger)
    if location is not None:
        return ledger_in(load.name, location)
    return LedgerStore(load.name, StateOfAsset(asset_state(ledger_asset(load.name))))


def _seen(load: OrderedLoad, ledger: Ledger | None) -> Seen:
    owner = None if ledger is None or ledger.open is None else ledger.open.owner
    reached = ledger is not None and limit_reached(ledger, load.row_limit) is not None
    return Seen(ledger, owner is not None and is_active(owner), reached, now_ms())


def _ends_a_wait(error: Exception) -> bool:
    """Whether waiting does not mend it. Credentials that are refused alarm, or the task's retry takes new ones."""
    return isinstance(error, CredentialsError) or (isinstance(error, OrderedKafkaError) and not error.retryable)


def _taken_over(opened: Open) -> str:
    return f"range {opened.range_id} of {opened.owner} is to be taken over"


def _event(**payload: str) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
