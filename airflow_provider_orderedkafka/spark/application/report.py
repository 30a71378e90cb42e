"""The report: what an attempt did, how it ended, and how to continue."""

from dataclasses import asdict, dataclass

from airflow_provider_orderedkafka.core.batches import Counts, Tally
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.core.limits import rows_left
from airflow_provider_orderedkafka.core.notation.durations import shown_duration
from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.errors import OrderedKafkaError


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended: at which moment, and with which error, if any."""

    attempt: int
    started_at: int
    ended_at: int
    error: OrderedKafkaError | None = None
    unprotected: str | None = None


def report(loaded: Range, counts: Counts | None, ending: Ending) -> Report:
    """The report of an attempt, from the newest counts; without any, nothing was done."""
    total = Tally() if counts is None else counts.total
    spent = rows_left(loaded.rows_left, total.rows) == 0
    reached = loaded.start if counts is None else counts.end
    complete = ending.error is None
    return Report(
        range_id=loaded.id,
        attempt=ending.attempt,
        complete=complete,
        limit_spent=spent,
        stop=reached if spent or not complete else loaded.end,
        batches=0 if counts is None else counts.batches,
        started_at=ending.started_at,
        ended_at=ending.ended_at,
        error=None if ending.error is None else str(ending.error),
        unprotected=ending.unprotected,
        advice=_advice(ending.error, spent=spent),
        **asdict(total),
        fingerprint=loaded.fingerprint,
    )


def _advice(error: OrderedKafkaError | None, *, spent: bool) -> str:
    if error is None and spent:
        return "the row limit is reached: raise it, and the next range continues where this one stopped"
    if error is None:
        return "the next range starts where this one stopped"
    if error.retryable:
        return "run the same range with the same checkpoint again: it continues where it was"
    return (
        "a retry alone will fail again: do what the error says, and run the same range with the same checkpoint again, "
        "it continues where it was; or abandon the range, which leaves the rows written so far in the output"
    )


def summary(loaded: Range, found: Report) -> str:
    """The report in a few lines, for people."""
    done = found.stop.offsets.since(loaded.start.offsets)
    took = shown_duration(found.ended_at - found.started_at)
    lines = [
        f"range {found.range_id}, attempt {found.attempt}: {_outcome(found)} after {took}",
        f"  read      {done:,} of {loaded.offsets:,} offsets, {found.rows_read:,} rows, {found.bytes_read:,} bytes",
        f"  written   {found.rows_emitted:,} rows in {found.batches:,} batches",
    ]
    if found.stop.floor.time >= 0:
        lines.append(f"  order     up to {Moment(found.stop.floor.time)}, {found.late:,} late rows")
    remarks = {
        "left out, being there already": found.replayed,
        "sent to the dead letter topic": found.dead_letters,
        "may be doubled": found.may_be_doubled,
        "may be out of order": found.may_be_out_of_order,
        f"lost to retention before they were read{', at most' if found.replayed else ''}": found.lost,
    }
    lines += [f"  {count:,} {what}" for what, count in remarks.items() if count]
    if found.unprotected is not None:
        lines.append(f"  a replay would have written its batch twice: {found.unprotected}")
    return "\n".join([*lines, f"  {found.advice}"])


def _outcome(found: Report) -> str:
    if not found.complete:
        return "failed"
    return "the row limit is spent" if found.limit_spent else "complete"
