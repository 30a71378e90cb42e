"""How the ranges of a load follow each other: the rows of a later one lie behind those of an earlier one.

And as its ledger says: none is gone, and no offset is in none or in two.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from confluent_kafka import Message

from ..core.documents import Ledger, Report
from ..core.lanes import KeepOrder
from ..core.order.positions import TopicPartition


@dataclass
class LoadedOrder:
    """In which order ranges of one load were loaded, and whose rows lie where: those of a later one lie behind.

    Where order is kept by keys, the rows of each key; only of incremental loads, whose ranges follow each other.
    """

    places: Mapping[bytes, tuple[str, int, KeepOrder, frozenset[str]]]
    newest: dict[tuple[Any, ...], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Self:
        known = [
            (each.range, each.destination)
            for each in sorted(reports, key=_begun)
            if each.range.kind == "incremental" and each.destination is not None
        ]
        return cls(
            {
                loaded.id.encode(): (loaded.load, number, to.keep_order, frozenset(named_topics(to.output)))
                for number, (loaded, to) in enumerate(known)
                if to.keep_order != "none"
            }
        )

    def before(self, name: bytes, message: Message, row: tuple[int, int, int, int, bytes]) -> str:
        """The range that was loaded later, and whose row lies before this one; empty if there is none."""
        load, number, keep_order, topics = self.places.get(name, ("", 0, "none", frozenset()))
        if message.topic() not in topics or len(self.places) == 1:
            return ""
        key = message.key() if message.key() is not None else (row[1], row[4])
        group = (load, keep_order, message.topic(), message.partition(), key if keep_order == "key" else None)
        newest = self.newest.get(group, name)
        if self.places[newest][1] > number:
            return newest.decode()
        self.newest[group] = name
        return ""


def _begun(report: Report) -> tuple[int, int]:
    return (report.range.ledger_revision, report.started_at)


def stops(report: Report) -> dict[TopicPartition, int]:
    """Where a range has stopped, in each of its partitions."""
    return {each: report.stop.offsets.get(each, start) for each, start in report.range.start.offsets.items()}


def named_topics(output: str) -> list[str]:
    kind, _, names = output.partition(":")
    return [name for name in names.split(",") if name] if kind == "topic" else []


@dataclass(frozen=True, slots=True)
class Break:
    """Where a range, or the ledger behind the last one, does not begin where the range before has stopped."""

    range_id: str
    what: Literal["missing", "doubled", "unknown"]
    offsets: int
    at: str
    why: str


def lost(ledger: Ledger, reports: Mapping[str, Report | None]) -> dict[str, tuple[int, str]]:
    """The ranges that the ledger has, and of which no report, or not even a folder, is here: their rows, and why."""
    loaded = {name for name, report in reports.items() if report is not None and report.complete}
    found = {
        each.range_id: (each.rows, f"the ledger says that it was committed at revision {each.revision}")
        for each in ledger.outcomes
        if each.kind == "committed" and each.range_id not in loaded
    }
    opened = ledger.open
    if opened is not None and opened.attempt and opened.range_id not in reports:
        found[opened.range_id] = (0, f"the ledger says that its attempt {opened.attempt} was begun")
    return found


def breaks(ledger: Ledger, reports: Mapping[str, Report | None]) -> Iterator[Break]:
    """The holes and overlaps. Where the ledger was moved by hand, or a range is gone, the next one begins anywhere."""
    found = [each for each in reports.values() if each is not None and each.complete]
    mine = [each for each in found if each.range.kind == "incremental" and each.range.load == ledger.load]
    stood: dict[TopicPartition, tuple[int, str]] = {}
    next_revision = -1
    for report in sorted(mine, key=_begun):
        loaded = report.range
        if loaded.ledger_revision > next_revision >= 0:
            yield from _unexplained(ledger, range(next_revision + 1, loaded.ledger_revision + 1), loaded.id)
            stood = {}
        stopped = stops(report)
        for each, start in loaded.start.offsets.items():
            yield from _between(each, stood.get(each), (start, stopped[each]), loaded.id, who="this one begins")
        stood |= {each: (stop, loaded.id) for each, stop in stopped.items()}
        next_revision = loaded.ledger_revision + 1
    if next_revision == ledger.revision:
        for each, before in stood.items():
            place = max(ledger.place.offsets.get(each, 0), before[0])
            yield from _between(each, before, (place, place), before[1], who="the ledger stands")


def _unexplained(ledger: Ledger, revisions: range, range_id: str) -> Iterator[Break]:
    known = {each.revision for each in ledger.outcomes if each.kind != "abandoned"}
    gone = [each for each in revisions if each not in known]
    if gone:
        why = f"no range here moved the ledger to revision {gone[0]}, and the ledger no longer says what did"
        yield Break(range_id, "unknown", 1, "", why)


def _between(
    partition: TopicPartition, before: tuple[int, str] | None, span: tuple[int, int], range_id: str, *, who: str
) -> Iterator[Break]:
    """What lies between where the one before has stopped and where this one begins."""
    start, stop = span
    stood, name = before or (start, "")
    twice = min(stood, stop) - start
    where = f"range {name} stopped at {partition.at(stood)}, but {who} at {partition.at(start)}"
    if start > stood:
        offsets = start - stood
        yield Break(range_id, "missing", offsets, partition.at(stood), f"{offsets:,} offsets are in no range: {where}")
    elif twice > 0:
        yield Break(range_id, "doubled", twice, partition.at(start), f"{twice:,} offsets are in two ranges: {where}")
