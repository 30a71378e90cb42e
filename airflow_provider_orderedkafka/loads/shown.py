"""Ranges and reports as text, for people."""

from collections.abc import Iterator

from airflow_provider_orderedkafka.core.documents import Range, Report, doubts
from airflow_provider_orderedkafka.core.notation.durations import shown_duration
from airflow_provider_orderedkafka.core.notation.starts import Moment

SHOWN = 20
"""How many partitions are named."""


def in_numbers(report: Report) -> str:
    """What a committed range came to."""
    took = shown_duration(report.ended_at - report.started_at)
    dead = "" if report.dead_letters else ", no dead letters"
    return (
        f"{report.rows_read:,} rows read, {report.rows_emitted:,} written, {report.late:,} late{dead}{doubts(report)}, "
        f"in {took} by attempt {report.attempt}"
    )


def in_words(loaded: Range) -> str:
    """A range by partition, with times in UTC."""
    return "\n".join(_lines(loaded))


def _lines(loaded: Range) -> Iterator[str]:
    spans = [(p, loaded.start.offsets[p], end) for p, end in loaded.end.offsets.items()]
    filled = [(p, start, end) for p, start, end in spans if start < end]
    begin, end = loaded.start.floor.time, loaded.end.floor.time
    yield f"range {loaded.id}: {loaded.offsets:,} offsets in {len(filled):,} of {len(spans):,} partitions"
    yield f"  planned at  {Moment(loaded.planned_at)}"
    yield f"  order time  {'the beginning' if begin < 0 else Moment(begin)} to {'its end' if end < 0 else Moment(end)}"
    yield from (f"  {p}  {start:,} to {end:,}: {end - start:,} offsets" for p, start, end in filled[:SHOWN])
    if len(filled) > SHOWN:
        yield f"  and {len(filled) - SHOWN:,} more partitions"
