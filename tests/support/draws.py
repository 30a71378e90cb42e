"""What is drawn in the model: the shape of loads, what comes and goes, and how each attempt is run and fails."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from support.makings import ROWS

Where = Literal["store", "source", "output", "question", "look-up"]
Making = Literal["copy", "keep", "expand", "rekey", "route", "keep frames", "expand frames", "join frames"]
MARKER = b"marker"
"""What comes in place of a record where a transaction ends."""


class Come(NamedTuple):
    """A record that comes: in which partition (or where its key belongs), when, with which key, and what it becomes.

    One that is `astray` is in that partition wherever its key belongs.
    """

    partition: int
    timestamp: int
    key: bytes | None
    kind: bytes
    astray: bool = False


class Trouble(NamedTuple):
    """At the n-th touch of something the attempt is killed, or what it touched fails: a question gets no answer."""

    where: Where
    after: int
    kills: bool


class Change(NamedTuple):
    """What happens before an attempt.

    To the source: `compact` takes a record, `retain` all up to one, `grow` adds a partition to a topic. To an output:
    `clean` takes what is not the last of its key up to an offset, `anew` makes its topic anew, from `delete` on none is
    compacted any more. To a table: `another`
    commit, such as a compaction's; `expire` is one after which so many of the oldest are not known any more,
    and `forget` one after which it does not know which transactions it has had.
    """

    what: Literal["compact", "retain", "grow", "clean", "anew", "delete", "another", "expire", "forget"]
    partition: int
    offset: int


@dataclass(frozen=True)
class Shape:
    """What stays the same from attempt to attempt. `keeps_last`: the outputs are compacted.

    `silent`: their settings may not be read.
    """

    topics: tuple[int, ...]
    compacted: bool
    counts_losses: bool
    placed: bool
    making: Making
    keep_order: str
    batch_offsets: int | None
    limited: bool
    loads: int
    keeps_last: bool = False
    silent: bool = False

    @property
    def routed(self) -> bool:
        return self.making == "route"

    @property
    def joins(self) -> bool:
        """Whether the rows of a record may come in another order each time."""
        return self.making == "join frames"

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("out-0", "out-1") if self.routed else ("out",)

    def rows(self, value: bytes) -> int:
        """How many rows a record gives."""
        kind = ROWS[value.split(b"-")[0]]
        return {"copy": 1, "keep": min(kind, 1), "keep frames": min(kind, 1)}.get(self.making, kind)


@dataclass(frozen=True)
class Attempt:
    """One attempt: what changed before it, how it is run, and what goes wrong in it.

    In one that is `sick`, some records are bad that others have rows for; from one that is `moved` on another
    partitioner is set, until that is refused.

    `fates` says again and again what becomes of what is under way when something dies: how much has landed, how much is
    still to land, how far the other tasks have come. `meanwhile` is what happens to the source after so many touches of
    source and output; `beside` is what happens before so many touches of anything, or before an answer is used, where
    another attempt is one that runs to its end while this one, which holds the lease, stands still. `denied` says again
    and again of questions about topics whether their settings may not be read, `stale` of all questions whether they
    are answered as before this attempt, and `outdated` of look-ups by time.
    """

    load: int = 0
    writers: int | None = None
    slice_offsets: int = 100
    batch_bytes: int = 10_000
    raised: int = 0
    grown: int = 0
    names_dead_letters: bool = False
    sick: bool = False
    moved: bool = False
    come: tuple[Come, ...] = ()
    changes: tuple[Change, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    fates: tuple[int, ...] = (0,)
    meanwhile: tuple[tuple[int, Come | Change], ...] = ()
    beside: "tuple[tuple[int, Come | Change | Attempt], ...]" = ()
    denied: tuple[bool, ...] = (False,)
    stale: tuple[bool, ...] = (False,)
    outdated: tuple[bool, ...] = (False,)
