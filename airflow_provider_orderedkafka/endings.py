"""Describe how a load ended: its report, or why there is none and what to do."""

from airflow_provider_orderedkafka.core.documents import DOUBTS, Outcome, Report
from airflow_provider_orderedkafka.core.lifecycle import WEARY_AFTER, way_out
from airflow_provider_orderedkafka.errors import FINAL, USAGE
from airflow_provider_orderedkafka.steps import Loading

LAST_LINES = 20
TOLD = ("range_id", "attempt", "limit_spent", "batches", "rows_read", "rows_emitted", "late", "replayed", *DOUBTS)


def told(report: Report) -> str:
    """The report as a sentence."""
    return (
        f"range {report.range_id} is loaded: {report.rows_read:,} rows read, {report.rows_emitted:,} written in "
        f"{report.batches:,} batches, {report.late:,} late, {report.replayed:,} replayed{doubts(report)}"
    )


def doubts(found: Report | Outcome) -> str:
    """The numbers that people should know of, if they are not 0."""
    counts = ((name, getattr(found, name)) for name in DOUBTS)
    return "".join(f", {count:,} {name.replace('_', ' ')}" for name, count in counts if count)


def explained(output: str, code: int | None, todo: Loading, report: Report | None) -> Exception:
    """The exception for a failed application: why it failed and, after some attempts, the ways out."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    why = report.error if report is not None and report.error else _last_words(output)
    text = f"attempt {todo.attempt} of range {todo.range.id if todo.range else ''!r} ended with exit code {code}: {why}"
    if todo.attempt >= WEARY_AFTER and todo.range is not None:
        text += (
            f"\nAfter {todo.attempt} attempts: mend the cause and clear this task, it goes on where it was; or "
            f"{way_out(todo.range)}"
        )
    return AirflowFailException(text) if code in (USAGE, FINAL) else AirflowException(text)


def _last_words(text: str) -> str:
    """The application's own last message, or else the end of its output."""
    lines = text.splitlines()
    own = [line for line in lines if line.partition(":")[0].endswith(".py")]
    return own[-1] if own else "\n".join(lines[-LAST_LINES:])
