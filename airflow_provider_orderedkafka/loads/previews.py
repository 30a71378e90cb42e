"""What a run would load now, as a value: nothing is written by making it or showing it.

    preview(config, terms, store, now, dag=)           the next run of an incremental load
    preview_replay(config, terms, asked, now, rows)    a replay from one start to another

Both ask the functions that a run asks, so they say what a run would do at this moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ..core.batches import WINDOW, Planned, needs_sample, size_of, window
from ..core.codec import for_programs, moment
from ..core.documents import Ledger, Range
from ..core.lifecycle import first_look as imagined
from ..core.lifecycle import joined, status_of
from ..core.next_range import NothingToLoad, Survey, limit_reached
from ..core.notation.spelling import counted, listed
from ..core.notation.starts import Moment, Start
from ..core.notation.subscriptions import lacking, names
from ..core.order.cuts import Bound
from ..core.order.planning import Planner
from ..core.order.positions import TopicPartition
from ..core.order.timeline import PATIENCE, Log
from ..core.pacing import Terms, Verdict
from ..errors import DataLossError, LifecycleError, OrderedKafkaError, UnknownTopicError
from ..kafka.clients.config import KafkaConfig
from ..kafka.clients.pools import ReadSettings
from ..kafka.lookup.survey import Brokers, survey
from . import ranges
from .books import check_chosen, check_dag, without_document
from .ledger import LedgerStore
from .mirror import GroupMirror
from .ranges import plan_replay

Special = Mapping[TopicPartition, tuple[str, ...]]
NOTHING_SPECIAL: Special = MappingProxyType({})

SHOWN = 50
SHOWN_ENDS = 3
NEAR = 10
"""How many of the last offsets of a partition are searched for its last record: the others may be markers."""


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a preview: which offsets, the times of its first and last record, and what is special."""

    partition: TopicPartition
    start: int
    end: int
    times: tuple[int | None, int | None] = (None, None)
    special: tuple[str, ...] = ()

    def __str__(self) -> str:
        first, last = (None if time is None else Moment(time) for time in self.times)
        times = "" if first is None else f", {first} to {last or 'unknown'}"
        special = "".join(f"; {each}" for each in self.special)
        return (
            f"{self.partition.at(self.start)} to {self.end}: {counted(self.end - self.start, 'offset')}{times}{special}"
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do. `planned` is the range or why there is none; `error` is what it would fail with.

    `target` is where a replay would write, where that is known; `remarks` are about where a first look would start.
    """

    load: str
    revision: int | None
    verdict: Verdict
    planned: Range | NothingToLoad
    parts: tuple[Part, ...] = ()
    batches: tuple[Planned, ...] = ()
    error: OrderedKafkaError | None = None
    target: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        planned, of = self.planned, "" if self.revision is None else f", from revision {self.revision}"
        lines = [f"load      {self.load}{of}", f"now       {self._outlook}"]
        lines += [f"target    {self.target}"] if self.target else []
        lines += [f"start     {remark}" for remark in self.remarks]
        if isinstance(planned, NothingToLoad):
            return "\n".join([*lines, f"range     none: {planned.reason}", *self._partitions()])
        time = planned.end.floor.lowest
        lines += [f"range     {planned.reason}"]
        lines += [f"times     up to {Moment(time)}"] if time >= 0 else []
        return "\n".join([*lines, *self._partitions(), *_in_batches(planned, self.batches)])

    @property
    def _outlook(self) -> str:
        if self.error is not None:
            return f"a run would fail: {self.error}"
        if self.verdict.run or self.verdict.skip:
            return f"a run would {'start' if self.verdict.run else 'be skipped'}: {self.verdict.reason}"
        return f"a scheduled run would wait: {self.verdict.reason}"

    def _partitions(self) -> list[str]:
        more = len(self.parts) - SHOWN
        return [f"  {part}" for part in self.parts[:SHOWN]] + (
            [f"  and {counted(more, 'more partition')}"] if more > 0 else []
        )

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        planned = self.planned
        return {
            "load": self.load,
            "revision": self.revision,
            "starts": self.verdict.run and self.error is None,
            "reason": self.verdict.reason,
            "due": moment(self.verdict.due),
            "error": None if self.error is None else str(self.error),
            "range": planned.for_programs() if isinstance(planned, Range) else None,
            "why": planned.reason,
            "remarks": list(self.remarks),
            "partitions": [
                {
                    **part.partition._asdict(),
                    "start": part.start,
                    "end": part.end,
                    "first": moment(part.times[0]),
                    "last": moment(part.times[1]),
                    "special": list(part.special),
                }
                for part in self.parts
            ],
            "batches": for_programs(self.batches),
        }


def preview(
    config: KafkaConfig, terms: Terms, store: LedgerStore | None, now: int, *, dag: str | None = None
) -> Preview:
    """What the next run of an incremental load, in this DAG, would load; without a store, its first run."""
    brokers = Brokers(config)
    ledger = None if store is None else store.ledger()
    if ledger is not None and dag is not None:
        try:
            check_dag(ledger, dag)
        except LifecycleError as error:
            return _failing(terms, ledger, error)
    if store is not None and ledger is not None and ledger.open is not None:
        opened = store.range(ledger.open.range_id)
        if opened is None:
            return _failing(terms, ledger, without_document(terms.load, ledger.open.range_id))
        reason = f"{status_of(ledger, ledger.open.range_id).sentence}; a run would take it over, or skip while its "
        verdict = Verdict(run=True, reason=f"{reason}owner is active")
        return _of_range(brokers, opened, Preview(terms.load, ledger.revision, verdict, opened))
    looked_at, remarks = _with_first_looks(brokers, terms, ledger, now)
    try:
        GroupMirror.of(config, terms.load, names(terms.subscription)).is_behind(ledger)
    except LifecycleError as error:
        return _failing(terms, looked_at, error)
    return replace(_next(brokers, terms, looked_at, now), remarks=remarks)


def preview_replay(
    config: KafkaConfig, terms: Terms, asked: tuple[Start, Start], now: int, rows: int | None = None
) -> Preview:
    brokers = Brokers(config)
    planned = plan_replay(brokers, terms, asked, now=now, rows=rows)
    if isinstance(planned, NothingToLoad):
        return Preview(terms.load, None, Verdict(run=False, reason=planned.reason, skip=True), planned)
    return _of_range(brokers, planned, Preview(terms.load, None, Verdict(run=True, reason="it is a replay"), planned))


def _with_first_looks(
    brokers: Brokers, terms: Terms, ledger: Ledger | None, now: int
) -> tuple[Ledger, tuple[str, ...]]:
    """The ledger as a run would make it, or add new topics to it, before it plans; and remarks on their start."""
    if ledger is None:
        first = ranges.first_look(brokers, terms, now)
        made = imagined(terms.load, instance="imagined", home_dag=None, place=first.place, topics=first.topics, now=now)
        return made, first.remarks
    added = lacking(terms.subscription, ledger.topics, ledger.place.offsets)
    if added is None:
        return ledger, ()
    first = ranges.first_look(brokers, terms, now, added)
    return joined(ledger, first.place, first.topics), first.remarks


def _next(brokers: Brokers, terms: Terms, ledger: Ledger, now: int) -> Preview:
    why = limit_reached(ledger, terms.row_limit)
    if why is not None:
        return Preview(terms.load, ledger.revision, Verdict(run=False, reason=why, skip=True), NothingToLoad(why))
    try:
        seen = survey(brokers, terms, now, ledger.place)
    except UnknownTopicError as error:
        return _failing(terms, ledger, error)
    special = _special(brokers, terms, ledger, seen)
    try:
        check_chosen(ledger, terms.subscription)
        ranges.check(brokers, terms, ledger, seen)
        verdict, planned = ranges.verdict_on(brokers, terms, ledger, seen), ranges.plan_of(brokers, terms, ledger, seen)
    except OrderedKafkaError as error:
        return _only_special(_failing(terms, ledger, error), seen, ledger, special)
    found = Preview(terms.load, ledger.revision, verdict, planned)
    if isinstance(planned, Range):
        return _of_range(brokers, planned, found, special)
    return _only_special(found, seen, ledger, special)


def _failing(terms: Terms, ledger: Ledger, error: OrderedKafkaError) -> Preview:
    failed = Verdict(run=False, reason=str(error)), NothingToLoad("the run would fail before it decides")
    return Preview(terms.load, ledger.revision, *failed, error=error)


def _only_special(found: Preview, seen: Survey, ledger: Ledger, special: Special) -> Preview:
    span = seen.span(ledger.place)
    return replace(found, parts=tuple(Part(p, span.start[p], span.end[p], special=each) for p, each in special.items()))


def _special(brokers: Brokers, terms: Terms, ledger: Ledger, seen: Survey) -> Special:
    """What is special about partitions, in words; those about which nothing is are left out."""
    begins, stands = brokers.log_starts(seen.found.partitions), seen.span(ledger.place).start
    found = {p: tuple(_specials(terms, ledger, seen, p, begins[p] - stands[p])) for p in seen.found.partitions}
    return {p: each for p, each in found.items() if each}


def _specials(terms: Terms, ledger: Ledger, seen: Survey, p: TopicPartition, deleted: int) -> Iterable[str]:
    was = ledger.topics.get(p.topic)
    if was is not None and seen.found.ids[p.topic] != was:
        yield "its topic was deleted and created again"
        return
    if p not in ledger.place.offsets:
        yield "new"
    if deleted > 0:
        then = "counted as lost" if terms.on_data_loss == "count" else "which fails the load"
        were = "was deleted before it was read" if deleted == 1 else "were deleted before they were read"
        yield f"{counted(deleted, 'offset')} {were}, {then}"
    if p.topic in seen.found.compacted:
        yield "compacted"
    held = seen.ends.written.get(p, 0) - seen.ends.offsets[p]
    if held > 0:
        yield f"open transactions hold {counted(held, 'offset')} back"


def _of_range(brokers: Brokers, planned: Range, found: Preview, special: Special = NOTHING_SPECIAL) -> Preview:
    """With the partitions of the range and its first batches, as an application with the default slices plans them."""
    log, start, end = brokers.log(planned.isolation), planned.start.offsets, planned.end.offsets
    times = _times(log, planned, [p for p in end if start[p] < end[p]][:SHOWN])
    parts = tuple(Part(p, start[p], end[p], times.get(p, (None, None)), special.get(p, ())) for p in end)
    try:
        return replace(found, parts=parts, batches=tuple(_batches(brokers, log, planned)))
    except DataLossError as error:  # the application would find it out, too
        return replace(found, parts=parts, error=error)


def _times(
    log: Log, planned: Range, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int | None, int | None]]:
    if not partitions:
        return {}
    start, end = planned.start.offsets, {p: planned.end.offsets[p] for p in partitions}
    first = log.look({p: Bound(start[p]) for p in partitions}, end, planned.latest, PATIENCE)
    near = {p: list(log.scan(p, max(start[p], end[p] - NEAR), end[p])) for p in partitions}
    last = {p: records[-1][1] if records else -1 for p, records in near.items()}
    return {p: (_known(first[p].timestamp if first[p].offset is not None else -1), _known(last[p])) for p in partitions}


def _known(time: int) -> int | None:
    """A timestamp; None where there is no record, or where it has none."""
    return time if time >= 0 else None


def _batches(brokers: Brokers, log: Log, planned: Range) -> list[Planned]:
    from ..kafka.read.slices import average_bytes

    if not planned.offsets:
        return []
    average = average_bytes(planned.span, ReadSettings.of_range(brokers.config, planned))
    size = size_of(planned, average if needs_sample(planned) else None)
    ends = Planner(log, planned.span).ends(size.offsets, WINDOW)
    return window(planned, 1, planned.start, ends, replace(size, average=average))


def _in_batches(planned: Range, batches: Sequence[Planned]) -> list[str]:
    if not batches:
        return ["batches   none"]
    first, about = batches[0], "about " if batches[0].about else ""
    size = "" if first.bytes is None else f", some {_bytes(first.bytes)}"
    if first.bytes is not None and first.batches > 1:
        size += f"; in all some {_bytes(first.bytes * planned.offsets // first.offsets)}"
    lines = [f"batches   {about}{first.batches:,}, of {counted(first.offsets, 'offset')}{size}"]
    for each in batches[:SHOWN_ENDS]:
        ends = [partition.at(offset) for partition, offset in each.end(planned).offsets.items()]
        lines.append(f"  {each.batch:,} ends at {listed(ends, SHOWN_ENDS)}")
    return lines


def _bytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.1f} KiB"
