"""Sample a few records at the beginning and the end of each partition."""

from typing import Any, Final

from airflow_provider_orderedkafka.core.order.cuts import Bound, Slice, Span, Stretch
from airflow_provider_orderedkafka.core.order.positions import TopicPartition
from airflow_provider_orderedkafka.kafka.read.reader import read_slice
from airflow_provider_orderedkafka.kafka.reading import ReadSettings

RECORDS: Final = 4_000
EACH: Final = 50


def sample(span: Span, settings: ReadSettings) -> list[Any]:
    """Sampled record batches of a span; none if there are no visible records at its ends."""
    if not span.offsets:
        return []
    each = max(min(EACH, RECORDS // len(span.partitions)), 1)
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
