"""Read all records of a slice, in the order `(order_time, topic, partition, offset)`, as Arrow batches.

A slice is bounded, so it is fetched as a whole, sorted once, and handed on. One that exceeds the memory budget is cut
again, by the planner's function, and read piece by piece; what has come is kept for the pieces. A sample is a slice of
a few records at the beginning and the end of each partition.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...core.order.cuts import Bound, Close, Slice, Span, Stretch, joined
from ...core.order.positions import Position, TopicPartition
from ...core.order.timeline import BatchSize
from ...errors import OrderViolationError, UnreachableError
from ..clients.pools import MIB, PerProcess, ReadSettings, ReadTally, fetch_bytes, key_in, pooled_consumer, thin
from ..lookup.log import KafkaLog
from ..lookup.topics import check_topics
from .columns import RECORD_OVERHEAD, BatchBuilder, Ordered, arrange
from .fetching import Fetch, FetchedRecords, OverBudget

_log = logging.getLogger(__name__)

Make = Callable[[BatchBuilder, slice], Any]
"""Builds an Arrow batch, or `Records`, from some rows of a slice."""

Resplit = Callable[[Slice, int], Iterable[Slice]]
"""Cuts a slice into slices of about this many offsets; its outer bounds stay."""


def read_slice(
    slice_: Slice,
    settings: ReadSettings,
    tally: ReadTally | None = None,
    resplit: Resplit | None = None,
    make: Make = BatchBuilder.batch,
) -> Iterator[Any]:
    """Yield the records of a slice in order, as `pyarrow.RecordBatch`es of about `settings.batch_bytes`.

    Nothing is yielded for a slice without records. Without `resplit` the byte budget is ignored. Raises
    DataLossError, UnreachableError, AccessDeniedError, UnknownTopicError, TopicChangedError and OrderViolationError.
    """
    if not slice_.stretches:
        return
    tally = ReadTally() if tally is None else tally
    last: Position | None = None
    with fetching([slice_], settings) as fetching_settings:
        for piece, fetched in _pieces(slice_, fetching_settings, resplit):
            part = fetched.joined()
            ordered = arrange(piece, part.columns.rank, part.columns.offset, part.columns.timestamp)
            builder = BatchBuilder(piece, part, ordered, settings.columns)
            tally.beyond += _beyond(piece, ordered, builder)
            tally.lost += fetched.lost
            for partition, count in fetched.lost.items():
                _log.warning(
                    "%s: retention deleted %s offsets before they were read; reading goes on after", partition, count
                )
            for rows in builder.spans(settings.batch_bytes):
                last = _check_order(builder, ordered, rows, last)
                batch = make(builder, rows)
                _count(tally, piece, ordered, rows, builder.payload(rows))
                yield batch


@contextmanager
def fetching(slices: Sequence[Slice], settings: ReadSettings) -> Iterator[ReadSettings]:
    """The settings, with a `fetch` of slices that follow each other, or of pieces of them, in order.

    Nothing is fetched twice then but at the ends of them all, as long as there is memory for what comes early.
    """
    if settings.fetch is not None or not any(slice_.stretches for slice_ in slices):
        yield settings
        return
    whole = joined(slices)
    offsets = [max(stretch.end.offset - stretch.start.offset, 1) for stretch in whole.stretches]
    topics = {stretch.partition.topic for stretch in whole.stretches}
    batches = _batches(whole, settings) if thin(offsets) else ()
    with pooled_consumer(settings, fetch_bytes(offsets, batches)) as pooled:
        fetch = Fetch(whole, settings, pooled, _ahead(settings, batches, len(offsets)))

        def fetched(piece: Slice, byte_budget: int | None) -> FetchedRecords | OverBudget:
            found = fetch.run(piece, byte_budget)
            if settings.topic_ids and fetch.asked:  # after the last record came: ids are never reused
                check_topics(settings.kafka, topics, settings.topic_ids, settings.deadline)
            return found

        yield replace(settings, fetch=fetched)


_seen: Final[PerProcess[dict[str, list[BatchSize]]]] = PerProcess()

_LOOKS: Final = 3
_LARGE: Final = 2**16
_MOST_AHEAD: Final = 128 * MIB


def _batches(whole: Slice, settings: ReadSettings) -> Sequence[BatchSize]:
    """Some batches of a topic, one of each of its longest partitions, or a large one; each process looks once."""
    longest = sorted(whole.stretches, key=lambda stretch: stretch.start.offset - stretch.end.offset)[:_LOOKS]
    topic = longest[0].partition.topic
    with _seen.held() as kept:
        found = kept.setdefault(key_in(kept, settings.kafka), {})
    if topic not in found:
        found[topic] = list(_sampled(KafkaLog(settings.kafka, settings.isolation, settings.deadline), longest))
    return found[topic]


def _sampled(log: KafkaLog, stretches: Sequence[Stretch]) -> Iterator[BatchSize]:
    for partition, start, end, *_ in stretches:
        found = log.batch_at(partition, (start.offset + end.offset) // 2, end.offset)
        if found is not None:
            yield found
            if found.sent > _LARGE:
                return


def _ahead(settings: ReadSettings, batches: Sequence[BatchSize], partitions: int) -> int:
    """How much memory may have come early: the budget, or more where the batches that each partition begins need it.

    A broker sends whole batches: what there is no memory for is sent again.
    """
    begun = max((each.bytes + each.records * RECORD_OVERHEAD for each in batches), default=0)
    return max(settings.byte_budget, min(2 * partitions * begun, _MOST_AHEAD))


def _pieces(slice_: Slice, settings: ReadSettings, resplit: Resplit | None) -> Iterator[tuple[Slice, FetchedRecords]]:
    """The slice with its records, or its pieces if it is larger than the budget."""
    assert settings.fetch is not None
    fetched = settings.fetch(slice_, None if resplit is None else settings.byte_budget)
    if isinstance(fetched, FetchedRecords):
        yield slice_, fetched
        return
    assert resplit is not None
    pieces = list(resplit(slice_, fetched.offsets))
    # What cannot be cut any further has to be read as it is.
    again = resplit if len(pieces) > 1 else None
    for piece in pieces:
        yield from _pieces(piece, settings, again)


def _beyond(piece: Slice, ordered: Ordered, builder: BatchBuilder) -> int:
    """How many records belong behind the end of their batch; UnreachableError if some do behind that of their slice.

    So it is where a broker was asked for a time that had fewer records than there were. Cut anew, a slice ends
    elsewhere; no record was handed on.
    """
    found = _behind(piece, piece.close, ordered)
    if piece.close is not None and found.size:
        record = builder.position(int(found[0]))
        raise UnreachableError(
            f"{record.partition.at(record.offset)} has the order time {record.order_time}, but its slice ends before "
            f"{piece.close.limit(record.partition)}: the broker that was asked for times lags, and did not know this "
            "record; the next attempt asks again"
        )
    return int(_behind(piece, piece.end, ordered).size)


def _behind(piece: Slice, close: Close | None, ordered: Ordered) -> NDArray[np.intp]:
    if close is None:
        return np.empty(0, np.intp)
    limits = np.array([close.limit(stretch.partition) for stretch in piece.stretches], np.int64)
    return np.flatnonzero(ordered.order_time >= limits[ordered.rank])


def _check_order(builder: BatchBuilder, ordered: Ordered, rows: slice, last: Position | None) -> Position:
    wrong = ordered.first_violation(rows)
    if wrong is not None:
        raise _violation(builder.position(wrong), builder.position(wrong + 1))
    first = builder.position(rows.start)
    if last is not None and not last < first:
        raise _violation(last, first)
    return builder.position(rows.stop - 1)


def _violation(before: Position, after: Position) -> OrderViolationError:
    wrong = f"{after} came out after {before}: they are not in order; please report it"
    return OrderViolationError(wrong, **after.partition._asdict(), offset=after.offset)


def _count(tally: ReadTally, piece: Slice, ordered: Ordered, rows: slice, payload: int) -> None:
    tally.bytes += payload
    ranks, late = ordered.rank[rows], ordered.late[rows]
    for counter, some in ((tally.read, ranks), (tally.late, ranks[late])):
        for rank in np.flatnonzero(counts := np.bincount(some)).tolist():
            counter[piece.stretches[rank].partition] += int(counts[rank])


RECORDS: Final = 4_000


def sample(span: Span, settings: ReadSettings) -> list[Any]:
    """Sampled record batches of a span; none if there are no visible records at its ends."""
    if not span.offsets:
        return []
    each = max(min(settings.sampled, RECORDS // len(span.partitions)), 1)
    first = {p: (start, min(start + each, span.end[p])) for p, start in span.start.items()}
    last = {p: (max(first[p][1], end - each), end) for p, end in span.end.items()}
    return [batch for part in (first, last) for batch in read_slice(_slice(span, part), settings)]


def average_bytes(span: Span, settings: ReadSettings) -> float | None:
    """The estimated bytes of key and value for each offset; None if no record was found."""
    batches = sample(span, settings)
    rows = sum(batch.num_rows for batch in batches)
    return sum(batch.column(name).nbytes for batch in batches for name in ("key", "value")) / rows if rows else None


def _slice(span: Span, part: dict[TopicPartition, tuple[int, int]]) -> Slice:
    stretches = tuple(
        Stretch(partition, Bound(start), Bound(end), end, span.floor.of(partition))
        for partition, (start, end) in part.items()
        if start < end
    )
    return Slice(0, stretches, span.latest, sum(end - start for start, end in part.values()), span.floor)
