"""The exact offsets of times: from the index's lower bounds to the first visible record.

`Places.at(time)` is the row of offsets where each partition's running maximum reaches the time, exactly. Where a look
passes too many older records the index is blind there; the partition is read once and the look repeated.

`about(log, span, time)` is the same for who only asks how much there is, and often: it never reads a partition.
"""

from airflow_provider_orderedkafka.core.order.cuts import Bound, Span, counts
from airflow_provider_orderedkafka.core.order.index import Row, TimeIndex
from airflow_provider_orderedkafka.core.order.ports import Log, Sighting
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition

PATIENCE = 1_000
"""How many visible records older than a bound may follow it before the index counts as blind there."""


class Places:
    """Finds the exact offsets where the partitions of a span reach a time; reads each place once."""

    def __init__(self, log: Log, index: TimeIndex) -> None:
        self._log = log
        self._index = index
        self._seen: dict[tuple[TopicPartition, int], list[tuple[int, Sighting]]] = {}

    def at(self, time: int) -> Row:
        """The row of exact offsets, with the time up to which it holds."""
        span = self._index.span
        if time <= span.floor.time:
            return self._index.start()
        offsets, until = [], span.latest
        for partition, sighting in self._sightings(time).items():
            end = span.end[partition]
            offsets.append(end if sighting.offset is None else min(sighting.offset, end))
            if offsets[-1] < end:
                until = min(until, sighting.timestamp)
        return Row(time, max(until, time), tuple(offsets), sum(offsets) - sum(span.start.values()))

    def look(self, bounds: dict[TopicPartition, Bound]) -> dict[TopicPartition, Sighting]:
        """The first visible record at each of some bounds."""
        unseen = {p: bound for p, bound in bounds.items() if self._known(p, bound) is None}
        span = self._index.span
        limits = {partition: span.end[partition] for partition in unseen}
        if unseen:
            for partition, sighting in self._log.look(unseen, limits, span.latest, PATIENCE).items():
                bound = unseen[partition]
                self._seen.setdefault((partition, bound.offset), []).append((bound.time or 0, sighting))
        known = {partition: self._known(partition, bound) for partition, bound in bounds.items()}
        return {partition: sighting for partition, sighting in known.items() if sighting is not None}

    def _sightings(self, time: int) -> dict[TopicPartition, Sighting]:
        """What stands where each partition reaches the time; partitions whose index is blind are read first."""
        while True:
            found, bounds = self._without_looking(time)
            seen = self.look(bounds)
            blind = [partition for partition, sighting in seen.items() if sighting.gave_up]
            if not blind:
                seen = {**found, **seen}
                return {partition: seen[partition] for partition in self._index.span.partitions}
            for partition in blind:
                self._index.read_own(partition)

    def _without_looking(self, time: int) -> tuple[dict[TopicPartition, Sighting], dict[TopicPartition, Bound]]:
        span, row = self._index.span, self._index.at([time])[0]
        found, bounds = {}, {}
        for (partition, start), offset in zip(span.start.items(), row.offsets, strict=True):
            floor = span.floor.of(partition)
            if time <= floor:
                found[partition] = Sighting(start, floor, 0)
            elif offset >= span.end[partition]:
                found[partition] = Sighting(None, time, 0)
            else:
                bounds[partition] = Bound(offset, time)
        return found, bounds

    def _known(self, partition: TopicPartition, bound: Bound) -> Sighting | None:
        for since, sighting in self._seen.get((partition, bound.offset), ()):
            ends = sighting.offset is None or (bound.time or 0) <= sighting.timestamp
            same = since == (bound.time or 0) if sighting.gave_up else since <= (bound.time or 0) and ends
            if same:
                return sighting
        return None


def about(log: Log, span: Span, time: int) -> Offsets:
    """The offset of each partition up to which it is older than a time, by the index.

    If the index answers with a record of the future, which hides all that follow it, a few records are sampled instead;
    late records may then make the result a little too large.
    """
    index = TimeIndex(log, span, {})
    found = Offsets(zip(span.partitions, index.at([time])[0].offsets, strict=True))
    answers = {partition: index.answer(time, place) for place, partition in enumerate(span.partitions)}
    blind = [p for p, answer in answers.items() if answer and answer.timestamp > span.latest and found[p] < span.end[p]]
    return found.updated(_halved(log, span, time, {partition: found[partition] for partition in blind}))


def _halved(log: Log, span: Span, time: int, low: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Halve what may be older until a look finds the place; a record in the middle stands for those around it."""
    high = {partition: span.end[partition] for partition in low}
    while middle := {p: Bound((low[p] + high[p]) // 2) for p in low if high[p] - low[p] > PATIENCE}:
        limits = {partition: high[partition] for partition in middle}
        for partition, sighting in log.look(middle, limits, span.latest, PATIENCE).items():
            young = counts(sighting.timestamp, span.latest) and sighting.timestamp >= time
            if sighting.offset is None or young:
                high[partition] = middle[partition].offset
            else:
                low[partition] = sighting.offset + 1
    bounds = {partition: Bound(offset, time) for partition, offset in low.items()}
    seen = log.look(bounds, high, span.latest, PATIENCE)
    return {p: high[p] if sighting.offset is None else sighting.offset for p, sighting in seen.items()}
