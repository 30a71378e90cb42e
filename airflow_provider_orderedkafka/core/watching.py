"""When a watcher starts a run: once for each revision of the ledger, then again with growing delays.

A watcher sees the ledger and Kafka, but not the runs that it started. A run appears as the owner of an open range; one
that ends before it opens a range is never seen, so the watcher waits a little longer for it.
"""

from dataclasses import dataclass

from airflow_provider_orderedkafka.core.codec import Document
from airflow_provider_orderedkafka.core.documents import Ledger

LONGEST = 3_600_000
"""The longest wait between two starts for one revision, in milliseconds."""

UNSEEN = 5
"""How many times longer to wait for a run that was never seen than for one that has ended."""

NO_LEDGER = "before the first look"

FIRST = "0"
"""The revision that the first look writes."""


@dataclass(frozen=True, slots=True)
class WatcherState(Document):
    """The last run that a watcher started: for which revision, when, and how many it started for that revision.

    `owner` is the last owner of an open range that it saw at that revision.
    """

    revision: str
    fired_at: int
    times: int
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a watcher sees: the ledger, whether the owner of its open range is active, whether the limit is spent."""

    ledger: Ledger | None
    owner_active: bool
    spent: bool
    now: int

    @property
    def revision(self) -> str:
        """The revision, as stored in a `WatcherState`."""
        return NO_LEDGER if self.ledger is None else str(self.ledger.revision)

    @property
    def owner(self) -> str | None:
        return None if self.ledger is None or self.ledger.open is None else self.ledger.open.owner


def noticed(watch: WatcherState | None, seen: Seen) -> WatcherState | None:
    """The state, updated with the owner seen now."""
    if watch is not None and (watch.revision, seen.revision) == (NO_LEDGER, FIRST):
        # The run that makes the first look has started, and opens its range in a moment.
        return WatcherState(FIRST, seen.now, watch.times, seen.owner or NO_LEDGER)
    if watch is None or watch.revision != seen.revision or seen.owner in {None, watch.owner}:
        return watch
    return WatcherState(watch.revision, watch.fired_at, watch.times, seen.owner)


def silent(watch: WatcherState | None, seen: Seen, backoff: int) -> str | None:
    """Why not to start a run now, whatever Kafka has; None if it depends on Kafka."""
    if seen.owner is not None and seen.owner_active:
        return f"owned by {seen.owner}"
    if seen.spent:
        return "limit spent"
    if watch is None or watch.revision != seen.revision:
        return None
    due = watch.fired_at + patience(watch, seen, backoff)
    return None if seen.now >= due else f"started a run {(seen.now - watch.fired_at) // 1000} s ago"


def patience(watch: WatcherState, seen: Seen, backoff: int) -> int:
    """How long to wait before another run is started for the same revision."""
    ended = seen.owner is not None or watch.owner is not None
    return int(min(backoff * (1 if ended else UNSEEN) * 2 ** min(watch.times - 1, 20), LONGEST))


def fired(watch: WatcherState | None, seen: Seen) -> WatcherState:
    times = watch.times if watch is not None and watch.revision == seen.revision else 0
    return WatcherState(seen.revision, seen.now, times + 1)
