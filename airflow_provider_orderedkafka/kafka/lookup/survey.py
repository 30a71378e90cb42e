"""What a load asks of a cluster: `Kafka` is the port, `Brokers` asks the brokers of a configuration.

`survey` asks for everything that the next range depends on; a `StartResolver` resolves a `Start` to offsets, now.

Marks of places are made and compared here: whether a log is still the one in which a place was found. There are three
answers: the same; another one, and where the two part; not known, where retention or compaction took the record, which
stops nothing.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ...core.documents import Isolation
from ...core.next_range import Deleted, Ends, Survey, deleted_at
from ...core.notation.spelling import counted, listed
from ...core.notation.starts import EARLIEST, LATEST, Ago, ByTopic, Committed, Earliest, Explicit, Latest, Moment, Start
from ...core.notation.subscriptions import Assigned, Discovery, Subscription, Topic
from ...core.order.cuts import FUTURE_TOLERANCE, NO_FLOOR, Bound, Floor, Place
from ...core.order.marks import NOT_KNOWN, SAME, Compared, LogEnd, Mark, Seen
from ...core.order.positions import Offsets, TopicPartition
from ...core.order.timeline import PATIENCE, Log
from ...core.pacing import Terms
from ...errors import DataLossError, NotYetError, SettingError
from ..clients.config import SERVERS
from . import topics
from .log import KafkaLog


class Kafka(Protocol):
    """A cluster's answers; each raises UnreachableError, AccessDeniedError or UnknownTopicError instead."""

    @property
    def servers(self) -> str:
        """The cluster's address, for messages."""

    def discover(self, subscription: Subscription) -> Discovery:
        """The topics and partitions of a subscription."""

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offset that each partition still has."""

    def high_ends(self, partitions: Iterable[TopicPartition], isolation: Isolation) -> Offsets:
        """The offset up to which each partition can be read now: the last stable one, or the high watermark."""

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets of a group; partitions without one are left out."""

    def log(self, isolation: Isolation) -> Log:
        """The records, as a planner asks for them."""

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LogEnd]:
        """Where each log ends, and its leader's epoch."""

    def last_records(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, Seen]:
        """The last record of each span of offsets, an aborted one too; a partition that has none there is left out."""


@dataclass(frozen=True)
class Brokers:
    """A cluster itself; can be pickled."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def servers(self) -> str:
        return self.config[SERVERS]

    def discover(self, subscription: Subscription) -> Discovery:
        return topics.discover(self.config, subscription)

    def log_starts(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return topics.log_starts(self.config, partitions)

    def high_ends(self, partitions: Iterable[TopicPartition], isolation: Isolation) -> Offsets:
        return topics.high_ends(self.config, partitions, isolation)

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return topics.committed(self.config, group, partitions)

    def log(self, isolation: Isolation) -> Log:
        return KafkaLog(self.config, isolation)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LogEnd]:
        return topics.log_ends(self.config, partitions)

    def last_records(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, Seen]:
        return KafkaLog(self.config, "read_uncommitted").last_records(spans)


@dataclass(frozen=True, slots=True)
class ResolvedStart:
    """Where each partition starts, with remarks for people about how it was found.

    `deleted` has for each time that it starts at where records from then on may be gone, `lost` how many offsets lie
    between those that were asked for and the log's start.
    """

    offsets: Offsets
    remarks: tuple[str, ...] = ()
    deleted: tuple[Deleted, ...] = ()
    lost: Offsets = Offsets()  # noqa: RUF009 - it never changes

    @property
    def asked(self) -> Offsets:
        """The offsets as they were asked for, those that are gone, too."""
        return Offsets({partition: at - self.lost.get(partition, 0) for partition, at in self.offsets.items()})


@dataclass(frozen=True, slots=True)
class StartResolver:
    """Finds the offsets that a start means for these partitions at the moment `now`.

    The settings of the partitions' `topics` tell what retention cannot have deleted. `clamp` moves a deleted offset to
    the log's start, with a remark. `word` is "start" or "end" in errors: an end can be given like a start.
    """

    kafka: Kafka
    partitions: Sequence[TopicPartition]
    now: int
    isolation: Isolation = "read_committed"
    future_tolerance: int = FUTURE_TOLERANCE
    clamp: bool = False
    word: str = "start"
    topics: Sequence[Topic] = ()

    def resolve(self, start: Start) -> ResolvedStart:
        """A time that is still to come raises NotYetError.

        An offset that retention has deleted raises DataLossError, or is moved to the log's start by `clamp`. An offset
        beyond the high end, or a missing partition, raises SettingError; one that does not exist UnknownTopicError.
        """
        match start:
            case Earliest():
                return ResolvedStart(self.log_starts())
            case Latest():
                return ResolvedStart(self.high_ends())
            case Committed(group):
                return _committed(self, group)
            case Moment(time):
                return _at(self, time)
            case Ago():
                return _at(self, start.at(self.now).time)
            case Explicit(offsets):
                return _explicit(self, dict(offsets))
            case ByTopic(starts):
                return _by_topic(self, dict(starts))

    def log_starts(self) -> Offsets:
        return self.kafka.log_starts(self.partitions)

    def high_ends(self) -> Offsets:
        return self.kafka.high_ends(self.partitions, self.isolation)


def _by_topic(place: StartResolver, starts: Mapping[str, Start]) -> ResolvedStart:
    """Topics with the same start are asked about together."""
    read = {partition.topic for partition in place.partitions}
    if odd := sorted(read ^ starts.keys()):
        wrong = "is not read: leave it out" if odd[0] in starts else "is not named: give it one, such as 'earliest'"
        raise SettingError(f"the {place.word} is set for each topic, but {odd[0]!r} {wrong}")
    found: dict[TopicPartition, int] = {}
    remarks: list[str] = []
    deleted: list[Deleted] = []
    lost = Offsets()
    for start in dict.fromkeys(starts.values()):
        some = tuple(partition for partition in place.partitions if starts[partition.topic] == start)
        resolved = replace(place, partitions=some).resolve(start)
        found.update(resolved.offsets)
        remarks += resolved.remarks
        deleted += resolved.deleted
        lost += resolved.lost
    return ResolvedStart(Offsets(found), tuple(remarks), tuple(deleted), lost)


def _at(place: StartResolver, time: int) -> ResolvedStart:
    """The first visible record at or after the time, or else the high end; and where older ones may be gone."""
    if place.word == "start" and time > place.now:
        raise NotYetError(
            f"the start {Moment(time)} is in the future, so its place in the log is not known yet: choose an earlier "
            "one, or 'latest' for what comes from now on"
        )
    log = place.kafka.log(place.isolation)
    index, ends = log.first_at(place.partitions, [time])[0], place.high_ends()
    bounds = {partition: Bound(answer.offset, time) for partition, answer in index.items()}
    seen = log.look(bounds, ends, place.now + place.future_tolerance, sys.maxsize)
    found = {partition: sighting.offset for partition, sighting in seen.items() if sighting.offset is not None}
    if place.word != "start":  # what lies behind an end is not asked for
        return ResolvedStart(ends.updated(found))
    deleted = deleted_at(log, place.log_starts(), place.topics, time, place.now)
    return ResolvedStart(ends.updated(found), deleted.remarks, (deleted,))


def _committed(place: StartResolver, group: str) -> ResolvedStart:
    """A partition that the group never committed is new to it, and starts at 0."""
    found = place.kafka.committed(group, place.partitions)
    if not found:
        raise SettingError(
            f"group {group!r} never committed any of {listed(place.partitions)}: check its name, or choose another "
            f"{place.word}, such as 'earliest'"
        )
    never = [partition for partition in place.partitions if partition not in found]
    checked = _checked(place, f"group {group!r} stands at", found | dict.fromkeys(never, 0))
    if not never:
        return checked
    remark = f"group {group!r} never committed {listed(never)}: the {place.word} is offset 0 there"
    return replace(checked, remarks=(remark, *checked.remarks))


def _explicit(place: StartResolver, wanted: dict[TopicPartition, int]) -> ResolvedStart:
    if odd := sorted(set(wanted) - set(place.partitions)):
        place.kafka.discover(Assigned(tuple(odd)))  # raises for one that does not exist
        raise SettingError(f"the {place.word} names {listed(odd)}, which is not read: leave it out")
    if missing := [partition for partition in place.partitions if partition not in wanted]:
        raise SettingError(
            f"the {place.word} names no offset for {listed(missing)}: name every partition that is read, with "
            f"{EARLIEST} for the earliest offset and {LATEST} for the high end"
        )
    return _checked(place, f"the {place.word} is", wanted)


def _checked(place: StartResolver, what: str, wanted: Mapping[TopicPartition, int]) -> ResolvedStart:
    """Resolve "earliest" and "latest"; other offsets must lie within the log."""
    starts, ends = place.log_starts(), place.high_ends()
    found, remarks, gone_by = {}, [], {}
    for partition, offset in wanted.items():
        first, end = starts[partition], ends[partition]
        found[partition] = {EARLIEST: first, LATEST: end}.get(offset, offset)
        if found[partition] > end:
            raise SettingError(
                f"{what} {partition.at(offset)}, beyond the high end {partition.at(end)}: was the topic created again, "
                f"or is it another cluster? Choose another {place.word}, such as 'latest'"
            )
        if found[partition] < first:
            gone = f"{what} {partition.at(offset)}, which is gone: the log starts at {partition.at(first)}"
            if not place.clamp:
                raise DataLossError(
                    f"{gone}; start there ({EARLIEST}), or go on without these records, with on_data_loss='count' (by "
                    "hand: --option failOnDataLoss=false)",
                    **partition._asdict(),
                    offset=offset,
                )
            lost = gone_by[partition] = first - offset
            remarks.append(f"{gone}; {counted(lost, 'offset')} {'is' if lost == 1 else 'are'} lost")
            found[partition] = first
    return ResolvedStart(Offsets(found), tuple(remarks), lost=Offsets(gone_by))


NOWHERE: Final = Place(Offsets(), NO_FLOOR)


def survey(
    kafka: Kafka,
    terms: Terms,
    now: int,
    place: Place = NOWHERE,
    found: Discovery | None = None,
    *,
    always: bool = False,
) -> Survey:
    """What Kafka has, seen from this place; `found` if the topics were looked up already.

    Which log it was is compared where there was an election, or `always`.
    """
    found = found or kafka.discover(terms.subscription)
    new = [partition for partition in found.partitions if partition not in place.offsets]
    starts = kafka.log_starts(new) if new else Offsets()
    ends = _ends(kafka, terms, found, now, place)
    logs = compared(kafka, place, found.partitions, always=always)
    return Survey(now, now + terms.future_tolerance, found, ends, starts, fixed=terms.end is not None, logs=logs)


def _ends(kafka: Kafka, terms: Terms, found: Discovery, now: int, place: Place) -> Ends:
    if terms.end is not None:
        end = resolve(kafka, terms, terms.end, found, now, word="end")
        return Ends(end.offsets, written=Offsets(), remarks=end.remarks)
    return readable_ends(kafka, found.partitions, terms.isolation, now + terms.future_tolerance, floor=place.floor)


def resolve(
    kafka: Kafka, terms: Terms, asked: Start, found: Discovery, now: int, *, word: str = "start"
) -> ResolvedStart:
    """The offsets of a start, or of an end given like one, in these topics and with these terms."""
    resolver = StartResolver(
        kafka,
        found.partitions,
        now,
        isolation=terms.isolation,
        future_tolerance=terms.future_tolerance,
        clamp=terms.on_data_loss == "count",
        word=word,
        topics=found.topics,
    )
    return resolver.resolve(asked)


def readable_ends(
    kafka: Kafka, partitions: Sequence[TopicPartition], isolation: Isolation, latest: int, *, floor: Floor = NO_FLOOR
) -> Ends:
    """A timestamp later than `latest` does not count; one below the floor holds nothing back: it is late anyway."""
    if isolation == "read_uncommitted":
        ends = kafka.high_ends(partitions, isolation)
        return Ends(ends, ends)
    # In this order: what was in the log before the stable end was read, and lies behind it, is really held back.
    written = kafka.high_ends(partitions, "read_uncommitted")
    stable = kafka.high_ends(partitions, "read_committed")
    held = Offsets({partition: end for partition, end in written.items() if end > stable[partition]})
    since = _open_since(kafka.log("read_uncommitted"), stable, held, latest, floor)
    return Ends(stable, written, held.since(stable), since)


def _open_since(log: Log, stable: Offsets, held: Offsets, latest: int, floor: Floor) -> int | None:
    """The earliest of the first timestamps from each stable end on that are not below the floor; None without any.

    A cut no later than this keeps records of an open transaction from being late. If a look gives up because too many
    records are below the floor, old data is being written, and nothing waits for it.
    """
    bounds = {partition: Bound(stable[partition], max(floor.of(partition), 0)) for partition in held}
    seen = log.look(bounds, held, latest, PATIENCE).values()
    found = (sighting for sighting in seen if sighting.offset is not None and not sighting.gave_up)
    return min((sighting.timestamp for sighting in found), default=None)


REACH: Final = 16
"""How many offsets before a place are looked at: where transactions end there is no record."""


def marked(kafka: Kafka, place: Place) -> Place:
    """The place with a mark in each partition that has anything before it; one has no hash where no record is there."""
    bare = {p: offset for p, offset in place.offsets.items() if offset > 0 and str(p) not in place.marks}
    if not bare:
        return place
    ends = kafka.log_ends(bare)  # before the records: what a later leader tells has a higher epoch
    found = kafka.last_records({p: (max(at - REACH, 0), min(at, ends[p].offset)) for p, at in bare.items()})
    last = {p: found.get(p, Seen(at - 1, NOT_KNOWN, "")) for p, at in bare.items()}
    return place.with_marks({p: Mark(ends[p].epoch, seen.offset, seen.digest) for p, seen in last.items()})


def compared(kafka: Kafka, place: Place, partitions: Iterable[TopicPartition], *, always: bool = False) -> Compared:
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


def _parting(kafka: Kafka, partition: TopicPartition, mark: Mark, end: LogEnd) -> int:
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
