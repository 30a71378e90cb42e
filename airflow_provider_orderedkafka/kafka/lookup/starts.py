"""Resolve a `Start` to offsets, now."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.notation.starts import (
    EARLIEST,
    LATEST,
    Ago,
    Committed,
    Earliest,
    Explicit,
    Latest,
    Moment,
    Start,
)
from airflow_provider_orderedkafka.core.order.cuts import FUTURE_TOLERANCE, Bound
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DataLossError, SettingError
from airflow_provider_orderedkafka.kafka.clients.admin import admin
from airflow_provider_orderedkafka.kafka.clients.answers import DEADLINE, Patience, listed
from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
from airflow_provider_orderedkafka.kafka.lookup.offsets import committed, high_ends, log_starts
from airflow_provider_orderedkafka.kafka.lookup.topics import check_partitions


@dataclass(frozen=True, slots=True)
class ResolvedStart:
    """Where each partition starts, with remarks for people about how it was found."""

    offsets: Offsets
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """The context of resolving. `clamp` moves a deleted offset to the log's start, with a remark.

    `word` is "start" or "end" in errors: an end can be given like a start.
    """

    config: Mapping[str, str]
    partitions: tuple[TopicPartition, ...]
    now: int
    isolation: Isolation
    latest: int
    clamp: bool
    word: str

    def log_starts(self) -> Offsets:
        return log_starts(self.config, self.partitions)

    def high_ends(self) -> Offsets:
        return high_ends(self.config, self.partitions, self.isolation)


def resolve_start(
    config: Mapping[str, str],
    start: Start,
    partitions: Sequence[TopicPartition],
    now: int,
    *,
    isolation: Isolation = "read_committed",
    future_tolerance: int = FUTURE_TOLERANCE,
    clamp: bool = False,
    word: str = "start",
) -> ResolvedStart:
    """The offsets that `start` means for these partitions at the moment `now`.

    An offset that retention has deleted raises DataLossError, or is moved to the log's start by `clamp`. An offset
    beyond the high end, or a missing partition, raises SettingError; one that does not exist UnknownTopicError.
    """
    place = _Place(config, tuple(partitions), now, isolation, now + future_tolerance, clamp, word)
    match start:
        case Earliest():
            return ResolvedStart(place.log_starts())
        case Latest():
            return ResolvedStart(place.high_ends())
        case Committed(group):
            return _committed(place, group)
        case Moment(time):
            return ResolvedStart(_at(place, time))
        case Ago():
            return ResolvedStart(_at(place, start.at(now).time))
        case Explicit(offsets):
            return _explicit(place, dict(offsets))


def _at(place: _Place, time: int) -> Offsets:
    """The first visible record at or after the time, or else the high end."""
    log = KafkaLog(place.config, place.isolation)
    index, ends = log.first_at(place.partitions, [time])[0], place.high_ends()
    bounds = {partition: Bound(answer.offset, time) for partition, answer in index.items()}
    seen = log.look(bounds, ends, place.latest, sys.maxsize)
    found = {partition: sighting.offset for partition, sighting in seen.items() if sighting.offset is not None}
    return ends.updated(found)


def _committed(place: _Place, group: str) -> ResolvedStart:
    found = committed(place.config, group, place.partitions)
    never = [partition for partition in place.partitions if partition not in found]
    checked = _checked(place, f"group {group!r} stands at", found | dict.fromkeys(never, EARLIEST))
    if not never:
        return checked
    remark = f"group {group!r} never committed {listed(never)}: the {place.word} is the earliest offset there"
    return ResolvedStart(checked.offsets, (remark, *checked.remarks))


def _explicit(place: _Place, wanted: dict[TopicPartition, int]) -> ResolvedStart:
    if odd := sorted(set(wanted) - set(place.partitions)):
        check_partitions(admin(place.config), odd, Patience(DEADLINE, "the partitions of"))
        raise SettingError(f"the {place.word} names {listed(odd)}, which is not among what is read: leave it out")
    if missing := [partition for partition in place.partitions if partition not in wanted]:
        raise SettingError(
            f"the {place.word} names no offset for {listed(missing)}: name every partition that is read, with "
            f"{EARLIEST} for the earliest offset and {LATEST} for the high end"
        )
    return _checked(place, f"the {place.word} is", wanted)


def _checked(place: _Place, what: str, wanted: Mapping[TopicPartition, int]) -> ResolvedStart:
    """Resolve "earliest" and "latest"; other offsets must lie within the log."""
    starts, ends = place.log_starts(), place.high_ends()
    found, remarks = {}, []
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
                    f"{gone}; start there ({EARLIEST}), or accept losses to go on without these records",
                    **partition._asdict(),
                    offset=offset,
                )
            remarks.append(f"{gone}; {first - offset:,} offsets are lost")
            found[partition] = first
    return ResolvedStart(Offsets(found), tuple(remarks))
