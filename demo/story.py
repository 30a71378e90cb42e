"""The events of the demo: three minutes of a shop's flash sale, and what came in while they were loaded.

Pure: the same seed, size and beginning give the same events. They are put into time order by a plain sort, so that the
demo is not checked by the code that it checks.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

MEAN_DELAY_MS, OFFLINE_MS = 6_000, 60_000
LATE_SHARE, RUSH_SHARE = 0.03, 0.4
IN_TRANSACTION, CUSTOMERS, SEED = 50, 400, 7


class Lane(NamedTuple):
    """A partition, and its share of the events."""

    topic: str
    partition: int
    share: float

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


LANES = (
    Lane("orders", 0, 0.41),
    Lane("orders", 1, 0.22),
    Lane("orders", 2, 0.13),
    Lane("orders", 3, 0.05),
    Lane("orders", 4, 0.0),  # idle: an empty partition must not hold up the others
    Lane("refunds", 0, 0.12),
    Lane("refunds", 1, 0.07),
)
"""In the order of partitions: `(topic, partition)`."""

TRANSACTION_LANE = len(LANES) - 1
"""The last events of this lane are written in a transaction, whose marker takes an offset and holds no record."""


class ShopEvent(NamedTuple):
    lane: Lane
    timestamp: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Chapter:
    """A part of the events, in the order in which they are written.

    Event i has the number `first + i`, which its value carries; `lanes` says where it is written, `times` when it
    happened, in milliseconds.
    """

    first: int
    lanes: Numbers
    times: Numbers
    customers: Numbers
    cents: Numbers
    ends_at: int

    def __len__(self) -> int:
        return len(self.times)

    @property
    def in_transaction(self) -> NDArray[np.bool_]:
        """Which events are written in the transaction: the last ones of their lane."""
        chosen = np.zeros(len(self), dtype=bool)
        chosen[np.flatnonzero(self.lanes == TRANSACTION_LANE)[-IN_TRANSACTION:]] = True
        return chosen

    def events(self, chosen: NDArray[np.bool_]) -> Iterator[ShopEvent]:
        """The chosen events, as they are written."""
        rows = zip(
            (np.flatnonzero(chosen) + self.first).tolist(),
            *(column[chosen].tolist() for column in (self.lanes, self.times, self.customers, self.cents)),
            strict=True,
        )
        for number, lane, time, customer, cents in rows:
            yield _event(number, LANES[lane], time, customer, cents)


def chapter(first: int, begins_at: int, events: int, seconds: int, offline: float = 0.0) -> Chapter:
    """The chapter that begins at this moment; `first` is the number of its first event.

    `offline` is the share of events from before its beginning.
    """
    random = np.random.default_rng((SEED, first))
    shares = np.array([lane.share for lane in LANES])
    lanes = random.choice(len(LANES), events, p=shares / shares.sum())
    happened, written = _crowd(random, events, 1_000 * seconds, offline)
    order = np.argsort(written, kind="stable")
    return Chapter(
        first=first,
        lanes=lanes[order].astype(np.int64),
        times=begins_at + happened[order],
        customers=random.integers(0, CUSTOMERS, events),
        cents=np.rint(random.lognormal(8.2, 0.8, events)).astype(np.int64),
        ends_at=begins_at + 1_000 * seconds,
    )


def order_times(chapter: Chapter, floor: int) -> Numbers:
    """The order time of each event: the highest time of its lane so far, never below the floor."""
    found = np.empty(len(chapter), dtype=np.int64)
    for lane in range(len(LANES)):
        mine = chapter.lanes == lane
        found[mine] = np.maximum.accumulate(np.maximum(chapter.times[mine], floor))
    return found


def right_order(lanes: Numbers, times: Numbers) -> Numbers:
    """The numbers of the events in the order that is right: by order time, lane, and place in the lane."""
    return np.lexsort((np.arange(len(times)), lanes, times)).astype(np.int64)


def _crowd(random: np.random.Generator, events: int, length: int, offline: float) -> tuple[Numbers, Numbers]:
    """When the events happened and when they are written, in milliseconds from the chapter's beginning."""
    rush = random.random(events) < RUSH_SHARE
    happened = np.where(rush, random.beta(1.6, 7.0, events), random.random(events)) * length
    delay = np.where(random.random(events) < LATE_SHARE, random.exponential(MEAN_DELAY_MS, events), 0)
    written = happened + delay
    early = random.random(events) < offline
    happened[early] = -random.uniform(0, OFFLINE_MS, int(early.sum()))
    return np.floor(happened).astype(np.int64), np.floor(written).astype(np.int64)


def _event(number: int, lane: Lane, time: int, customer: int, cents: int) -> ShopEvent:
    name = f"customer-{customer:03}-{lane.partition}"  # one partition of each topic holds all of a customer
    value = {"event": number, "kind": lane.topic[:-1], "customer": name, "amount": cents / 100}
    return ShopEvent(lane, time, name.encode(), json.dumps(value, separators=(",", ":")).encode())
