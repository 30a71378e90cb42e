"""What is the next range? One answer, from where a load stands, what Kafka has, and what is asked for.

    Survey       what Kafka has at one moment
    cut_time     the time from which on records have to wait
    verdict      whether to run now, by the time index alone: waiting asks often
    next_place   where the range ends, or why there is nothing to load yet
    deleted_at   at which partitions records of a time may be gone, since a log starts there
    new_range    the range's document

Waiting and resolving, intervals, replays, streams and loads by hand all ask here. They differ on purpose in this:

- A boundary between intervals depends on the whole log, not on where some run is, so every run finds the same place.
- An explicit end (`endingOffsets`, a replay's end, a given range) is fixed: nothing is too young for it, and it does
  not wait for transactions.
- A replay loads all that was asked for or is refused: `max_offsets` does not cut it. Its floors are the times that were
  asked for, if it was times.

The first rows in order are the first slices' rows, so the row limit is counted by slices. If it ends inside a slice,
`place_after` gives the position of every partition right after the record of the last row: literal offsets that go into
the report and that the next range starts from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from ..errors import (
    DataLossError,
    LifecycleError,
    RowError,
    SettingError,
    TopicChangedError,
    UnknownTopicError,
    UnreachableError,
)
from .codec import canonical
from .documents import Kind, Ledger, Range
from .notation.spelling import counted, format_duration, listed
from .notation.starts import Moment
from .notation.subscriptions import Discovery, Topic
from .order.cuts import BEFORE_TIME, NO_FLOOR, Bound, Floor, Place, Span, counts, held
from .order.marks import SAME, Compared
from .order.planning import Planner
from .order.positions import LARGEST, Offsets, Position, TopicPartition
from .order.timeline import PATIENCE, Log, OwnIndex, Places, TimeIndex, about
from .pacing import Since, Situation, Terms, Verdict, WayOut, decide

SHOWN = 3

Own = dict[TopicPartition, OwnIndex]


@dataclass(frozen=True, slots=True)
class Ends:
    """The high ends, with how many offsets open transactions hold back behind them, and from which timestamp on.

    `written` are the ends of the log itself; empty for an explicit end, which may have remarks for people.
    """

    offsets: Offsets
    written: Offsets
    held_back: int = 0
    open_since: int | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NothingToLoad:
    reason: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What Kafka has at one moment: the topics, their high ends, and the log starts of topics that are new.

    `latest` is the last timestamp that counts; `fixed` means that the ends are explicit; `logs` is what became of the
    marks of the place that it was seen from.
    """

    now: int
    latest: int
    found: Discovery
    ends: Ends
    starts: Offsets
    fixed: bool = False
    logs: Compared = SAME

    def span(self, place: Place) -> Span:
        """A topic that the place does not know starts where its log does.

        A new partition of one that it knows starts at 0: records that were deleted there were never read.
        """
        known = set(place.offsets.topics)
        firsts = {p: 0 if p.topic in known else self.starts.get(p, 0) for p in self.ends.offsets}
        start = {p: place.offsets.get(p, first) for p, first in firsts.items()}
        ends = {partition: max(end, start[partition]) for partition, end in self.ends.offsets.items()}
        return Span(Offsets(start), Offsets(ends), place.floor, self.latest)

    def check(self, place: Place, topics: Mapping[str, str], way_out: WayOut) -> None:
        """Raise if this place, in topics with these ids, means something else now."""
        for topic, was in topics.items():
            _check_topic(place, topic, was, self.found.ids.get(topic), way_out)
        counts = {topic.name: topic.partitions for topic in self.found.topics if topic.name in topics}
        for partition, stands in place.offsets.items():
            if partition.partition >= counts.get(partition.topic, LARGEST):
                raise UnreachableError(
                    f"{way_out.who} stands at {partition.at(stands)}, but the broker that answered knows only "
                    f"{counted(counts[partition.topic], 'partition')} of topic {partition.topic!r}. A topic never "
                    "loses partitions, so the answer is outdated: try again"
                )
        for partition, end in self.ends.written.items():
            stands = place.offsets.get(partition, 0)
            if end < stands:  # an unclean election, or a restored cluster
                raise DataLossError(
                    f"{way_out.who} stands at {partition.at(stands)}, but the log ends at {partition.at(end)}: records "
                    f"that were loaded are gone from Kafka; {way_out.records_gone.format(topic=partition.topic)}",
                    **partition._asdict(),
                    offset=stands,
                )
        check_logs(place, self.logs, way_out)

    def check_there(self, place: Place, starts: Offsets, who: str) -> None:
        """Raise if a log, by its start, has lost what comes next: whoever reads there would fail in the same way."""
        stands = self.span(place).start
        gone = {p: start - stands[p] for p, start in starts.items() if start > stands.get(p, start)}
        if gone:
            first, lost = next(iter(gone)), sum(gone.values())
            raise DataLossError(
                f"{who} stands at {_listed(Offsets({p: stands[p] for p in gone}))}, which is gone: the log starts at "
                f"{_listed(Offsets({p: starts[p] for p in gone}))}, and {counted(lost, 'offset')} before it "
                f"{'was' if lost == 1 else 'were'} deleted unread; to load the rest and count these as lost, set "
                "on_data_loss='count' (by hand: --option failOnDataLoss=false)",
                **first._asdict(),
                offset=stands[first],
            )


def check_logs(place: Place, logs: Compared, way_out: WayOut, begun: Place | None = None) -> None:
    """Raise `DataLossError` if a log is another one than that in which this place was found.

    What was `begun` there is what a person goes back from; by default the place itself.
    """
    at_most = place if begun is None else begun
    for partition, parting in logs.parted.items():
        stands = place.offsets[partition]
        here = {p: at for p, at in at_most.offsets.items() if p.topic == partition.topic}
        back = {p: min(at, logs.parted.get(p, at)) for p, at in here.items()}
        to = canonical(Offsets(back).to_json())
        raise DataLossError(
            f"{way_out.who} stands at {partition.at(stands)}, but the log is not the same any more: it was truncated "
            f"at {partition.at(parting)} or before (an unclean election, or a restored backup), and newer records "
            f"there were not read; {way_out.log_parts.format(topic=partition.topic, to=to)}",
            **partition._asdict(),
            offset=parting,
        )


def _check_topic(place: Place, topic: str, was: str, now: str | None, way_out: WayOut) -> None:
    if now == was:
        return
    places = [partition.at(offset) for partition, offset in place.offsets.items() if partition.topic == topic]
    stands = listed(places, SHOWN)
    if now is None:
        raise UnknownTopicError(
            f"topic {topic!r} is not read any more, but {way_out.who} stands at {stands or 'nothing'}: "
            f"{way_out.left_out.format(topic=topic)}",
            topic=topic,
        )
    raise TopicChangedError(
        f"{created_again(topic, was, now)}, so {stands or 'any old offset'} means another record now; "
        f"{way_out.created_again.format(topic=topic)}",
        topic=topic,
    )


def created_again(topic: str, was: str, now: str) -> str:
    """The start of an error about a topic that has another id now."""
    return f"topic {topic!r} was deleted and created again (its id was {was}, now it is {now})"


def check_ends(start: Offsets, ends: Offsets, way_out: str) -> None:
    """Raise `SettingError` if an explicit end lies before the start; a partition that is new has none."""
    for partition, end in ends.items():
        if end < start.get(partition, 0):
            raise SettingError(
                f"the end {partition.at(end)} is before the start {partition.at(start[partition])}: {way_out}"
            )


def cut_time(seen: Survey, terms: Terms, floor: Floor = NO_FLOOR) -> int | None:
    """Records from this time on wait: too young, or an open transaction may commit older ones. None: nothing waits.

    What a floor ahead of the clock has made late does not wait for the clock to reach it: nothing orders it any more.
    """
    bounds = _bounds(seen, terms)
    if not bounds:
        return None
    time = held(min(bounds)[0], seen.ends.open_since, seen.now - terms.transaction_wait)
    if floor.lowest > seen.now:
        time = max(time, least(floor.highest + 1, terms.end_time) or 0)
    return max(time, 0)


def _bounds(seen: Survey, terms: Terms) -> list[tuple[int, str]]:
    """The bounds that were set, each with what to say of records that are not older."""
    found = []
    if terms.grace is not None:
        found.append((seen.now - terms.grace, f"are younger than the grace of {format_duration(terms.grace)}"))
    if terms.end_time is not None:
        found.append((terms.end_time, "are at or after the end that is set"))
    return [] if seen.fixed else found


Firsts = dict[tuple[str, TopicPartition, int], int]
"""The timestamps of the first records at or behind an offset of a partition, at an isolation level."""


def verdict(
    log: Log, place: Place, seen: Survey, terms: Terms, since: Since, *, firsts: Firsts | None = None
) -> Verdict:
    """Whether to run now. What `firsts` has is not read again; what is read is added."""
    span, time = seen.span(place), cut_time(seen, terms, place.floor)
    older = span.end if time is None or time > span.latest else about(log, span, time)
    young = span.end.since(older)
    offsets = older.since(span.start)
    known = {} if firsts is None else firsts
    aged = span if span.floor.lowest <= seen.now else replace(span, floor=NO_FLOOR)
    oldest = _oldest(log, aged, older, terms, known) if terms.pace.asks_for_the_oldest(offsets) else None
    found = decide(terms.pace, Situation(offsets, since, seen.now, seen.ends.held_back, young, oldest))
    return replace(found, span=span)


def _oldest(log: Log, span: Span, ends: Offsets, terms: Terms, firsts: Firsts) -> int | None:
    """The order time of the first record before these ends; None if there is none.

    The first one of each partition is read, once: what the time index has of a partition may be markers, aborted, or
    loaded before. Where nothing tells its time, it counts as old.
    """
    keys = {p: (terms.isolation, p, start) for p, start in span.start.items() if start < ends[p]}
    bounds = {p: Bound(key[2]) for p, key in keys.items() if key not in firsts}
    seen = log.look(bounds, ends, span.latest, PATIENCE) if bounds else {}
    firsts |= {keys[p]: each.timestamp for p, each in seen.items() if each.offset is not None}
    found = {p: firsts[key] for p, key in keys.items() if key in firsts}
    times = (max(time if counts(time, span.latest) else BEFORE_TIME, span.floor.of(p)) for p, time in found.items())
    return min(times, default=None)


def next_place(log: Log, place: Place, seen: Survey, terms: Terms, own: Own | None = None) -> Place | NothingToLoad:
    span, time = seen.span(place), cut_time(seen, terms, place.floor)
    if span.offsets:
        cut = None if time is None or time > span.latest else time  # no order time reaches a cut beyond
        end = Planner(log, span, own).end(terms.max_offsets, cut)
        if end.offsets != span.start:
            return end
    return NothingToLoad(_nothing(span, seen, terms))


def place_at(log: Log, seen: Survey, time: int) -> Place:
    """Where the whole log reaches a time: the first visible record of each partition that is not older, or its end."""
    return Planner(log, seen.span(Place(Offsets(), NO_FLOOR))).end(None, time)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The partitions where the place of a time is the start of a log that starts above 0, by their log starts.

    Of `maybe` records from that time on may have been deleted; of `older` retention deleted what was before that time,
    by its settings as they are now: nothing in Kafka tells whether they were raised since.
    """

    time: int
    maybe: Offsets = Offsets()  # noqa: RUF009 - it never changes
    older: Offsets = Offsets()  # noqa: RUF009 - it never changes

    @property
    def remarks(self) -> tuple[str, ...]:
        """For people; empty where nothing was deleted before the time's place."""
        maybe = f"records from {Moment(self.time)} on may have been deleted"
        older = f"all deleted records are older than {Moment(self.time)}, if retention was never changed"
        return tuple(
            f"the log starts at {_listed(starts)}, and has no older record than those that are read: {then}"
            for starts, then in ((self.maybe, maybe), (self.older, older))
            if starts
        )


def deleted_at(log: Log, starts: Offsets, topics: Sequence[Topic], time: int, now: int) -> Deleted:
    """Where the place of a time is a log's start above 0; an older record, even an invisible one, proves the place.

    `topics` are those of the partitions, with their settings: where these may not be read, nothing is known.
    """
    begun = tuple(partition for partition, start in starts.items() if start > 0)
    first, found = log.first_at(begun, [0, time]) if begun and time > 0 else ({}, {})
    there = {p: first[p].offset if p in first else None for p in begun}
    unproven = [p for p, offset in there.items() if offset is None or (p in found and found[p].offset == offset)]
    settings = {topic.name: topic.settings for topic in topics}
    older = [p for p in unproven if _keeps(settings.get(p.topic, {}), now - time, empty=there[p] is None)]
    return Deleted(
        time, Offsets({p: starts[p] for p in unproven if p not in older}), Offsets({p: starts[p] for p in older})
    )


def _keeps(settings: Mapping[str, str], age: int, *, empty: bool) -> bool:
    """Whether retention deletes nothing of this age: by time it keeps for longer, and by size it empties no log."""
    by_time, by_size = int(settings.get("retention.ms", -1)), settings.get("retention.bytes") != "-1"
    return "delete" in settings.get("cleanup.policy", "") and by_time >= age and (empty or not by_size)


def _listed(offsets: Offsets) -> str:
    return listed([partition.at(offset) for partition, offset in offsets.items()], SHOWN)


def _nothing(span: Span, seen: Survey, terms: Terms) -> str:
    rest, bounds, time = "", _bounds(seen, terms), cut_time(seen, terms, span.floor)
    if span.offsets and time is not None:
        asked, why = min(bounds)
        rest = f": {counted(span.offsets, 'offset')} {'wait for an open transaction' if time < asked else why}"
    held_back = seen.ends.held_back
    behind = f"; open transactions hold {counted(held_back, 'offset')} back" if held_back else ""
    return f"nothing to load{rest}{behind}"


def new_range(
    range_id: str,
    terms: Terms,
    kind: Kind,
    found: Discovery,
    span: tuple[Place, Place],
    *,
    now: int,
    reason: str,
    revision: int = 0,
    rows_left: int | None = None,
) -> Range:
    begin, end = span
    return Range(
        id=range_id,
        load=terms.load,
        kind=kind,
        reason=reason,
        ledger_revision=revision,
        topics=found.ids,
        start=begin.with_offsets(Offsets({partition: begin.offsets[partition] for partition in end.offsets})),
        end=end,
        planned_at=now,
        future_tolerance=terms.future_tolerance,
        on_data_loss=terms.on_data_loss,
        include_headers=terms.include_headers,
        isolation=terms.isolation,
        cluster_id=found.cluster_id,
        batch_offsets=terms.batch_offsets,
        rows_left=rows_left,
    )


@dataclass(frozen=True, slots=True)
class AtMost:
    """The most that a person lets one run load, in offsets and in rows, besides the load's own; None: no limit."""

    offsets: int | None = None
    rows: int | None = None

    def __str__(self) -> str:
        asked = ((self.offsets, "offset"), (self.rows, "row"))
        return " and ".join(counted(most, noun) for most, noun in asked if most is not None)

    def check_taken_over(self, opened: Range) -> None:
        """Raise `LifecycleError` for an open range that may load more: it is finished as it was written down."""
        offsets, rows = opened.offsets, opened.rows_left
        if least(self.offsets, offsets) == offsets and least(self.rows, rows) == rows:
            return
        limit = "" if rows is None else f" and at most {counted(rows, 'row')}"
        raise LifecycleError(
            f"range {opened.id!r} is open, with {counted(offsets, 'offset')}{limit}, and has to finish first; this run "
            f"was asked for at most {self}. Start a run without that limit, or abandon the range with `orderedkafka "
            f"ledger abandon {opened.load} --reason ...`"
        )


NO_BOUND: Final = AtMost()


def least(one: int | None, other: int | None) -> int | None:
    return min((bound for bound in (one, other) if bound is not None), default=None)


def rows_left(limit: int | None, rows: int) -> int | None:
    """How many rows are left after this many, dead letters included; None without a limit."""
    return None if limit is None else max(limit - rows, 0)


def limit_reached(ledger: Ledger, limit: int | None) -> str | None:
    """Why a load may write no more rows; None if it may."""
    if limit is None or rows_left(limit, ledger.rows):
        return None
    dead = f" and {ledger.dead_letters:,} became dead letters" if ledger.dead_letters else ""
    of = counted(limit, "row")
    return f"the row limit of {of} is reached: {ledger.rows_emitted:,} were written{dead}; raise it to go on"


def allot(rows: Sequence[int], left: int) -> tuple[int, ...]:
    """How many rows of each slice pass: the first ones, slice by slice."""
    before = accumulate(rows, initial=0)
    return tuple(min(count, max(left - gone, 0)) for count, gone in zip(rows, before, strict=False))


def passes(rows: Sequence[int], left: int) -> bool:
    """Whether all of these rows pass with some of the limit left, so that later slices matter."""
    return sum(rows) < left


def place_after(log: Log, span: Span, record: Position) -> Place:
    places = Places(log, TimeIndex(log, span, {}))
    begun, left = places.at(record.order_time), places.at(record.order_time + 1)
    offsets = {}
    for partition, begin, end in zip(span.partitions, begun.offsets, left.offsets, strict=True):
        offsets[partition] = end if partition < record.partition else begin
    offsets[record.partition] = record.offset + 1
    return Place(Offsets(offsets), span.floor.raised(record.order_time, record.partition))


def check_bad(found: int, most: int | None) -> None:
    """Raise if a run has more dead letters than it may; None if it may have any number."""
    if most is not None and found > most:
        raise RowError(
            f"{found:,} records of this range became dead letters, and at most {most:,} are allowed: look at them with "
            "`orderedkafka read <topic> --headers --bootstrap-servers ...`; then correct the format or the schema, or "
            f"let more of them pass with Allow({most + 1}, to=...) or --bad-records, and run the same range again"
        )
