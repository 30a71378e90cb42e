"""Marks of places, made and compared: whether a log is still the one in which a place was found.

There are three answers: the same; another one, and where the two part; not known, where retention or compaction took
the record, which stops nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from ...core.order.cuts import Place
from ...core.order.marks import NOT_KNOWN, SAME, Compared, LogEnd, Mark, Seen
from ...core.order.positions import Offsets, TopicPartition

REACH: Final = 16
"""How many offsets before a place are looked at: where transactions end there is no record."""


class Logs(Protocol):
    """What is asked of a cluster for it."""

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets: ...

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LogEnd]: ...

    def last_records(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, Seen]: ...


def marked(kafka: Logs, place: Place) -> Place:
    """The place with a mark in each partition that has anything before it; one has no hash where no record is there."""
    bare = {p: offset for p, offset in place.offsets.items() if offset > 0 and str(p) not in place.marks}
    if not bare:
        return place
    ends = kafka.log_ends(bare)  # before the records: what a later leader tells has a higher epoch
    found = kafka.last_records({p: (max(at - REACH, 0), min(at, ends[p].offset)) for p, at in bare.items()})
    last = {p: found.get(p, Seen(at - 1, NOT_KNOWN, "")) for p, at in bare.items()}
    return place.with_marks({p: Mark(ends[p].epoch, seen.offset, seen.digest) for p, seen in last.items()})


def compared(kafka: Logs, place: Place, partitions: Iterable[TopicPartition], *, always: bool = False) -> Compared:
    """Whether the logs of these partitions are still those of the place.

    A record is looked at where there was an election, or `always`: a whole cluster that was restored may count its
    elections again.
    """
    known = place.marked
    marks = {p: known[p] for p in partitions if p in known}
    if not marks:
        return SAME
    ends = kafka.log_ends(marks)
    elected = {p for p, m in marks.items() if ends[p].epoch == NOT_KNOWN or ends[p].epoch != m.epoch}
    asked = {p: m for p, m in marks.items() if p in elected or (always and m.digest)}
    there = {p: m.offset for p, m in asked.items() if m.offset < ends[p].offset}
    seen = kafka.last_records({p: (offset, offset + 1) for p, offset in there.items()}) if there else {}
    other = {p: m for p, m in asked.items() if p not in there or (p in seen and _is_other(seen[p], m))}
    parted = {p: _parting(kafka, p, mark, ends[p]) for p, mark in other.items()}
    return Compared(parted, tuple(p for p in there if p not in parted and not (p in seen and marks[p].digest)))


def _is_other(seen: Seen, mark: Mark) -> bool:
    return seen.epoch > mark.epoch >= 0 or mark.digest not in {"", seen.digest}


def _parting(kafka: Logs, partition: TopicPartition, mark: Mark, end: LogEnd) -> int:
    """Where the log has become another one, at the latest: the first record of a later leader, found by halving."""
    low, high = kafka.log_starts([partition])[partition], min(mark.offset, end.offset)
    while low < high:
        middle = (low + high) // 2
        seen = kafka.last_records({partition: (middle, middle + 1)}).get(partition)
        if seen is not None and seen.epoch > mark.epoch:
            high = middle
        else:
            low = middle + 1
    return high
