"""The summary that the demo prints at its end. Pure: a verdict in, text out, never wider than the screen."""

from collections.abc import Iterable

from airflow_provider_orderedkafka.core.notation.durations import shown_duration
from airflow_provider_orderedkafka.tools.demo.verdict import Loaded, Order, Verdict

_LEFT, _COLUMN = 38, 22


def summary(verdict: Verdict) -> str:
    return "\n".join([*_loaded(verdict), "", *_compared(verdict), "", *_judged(verdict)])


def _loaded(verdict: Verdict) -> Iterable[str]:
    empty = verdict.offsets - verdict.written
    yield "What was loaded"
    yield _fact("offsets", f"{verdict.offsets:,}, {empty} of them without a record (transaction markers)")
    yield _fact("events written, rows in the output", f"{verdict.written:,}, {verdict.after.rows:,}")
    yield _fact("missing, duplicates", f"{verdict.missing:,}, {verdict.duplicates:,}")
    yield _fact("late records", f"{verdict.late:,}, kept in their places, flagged and counted")
    for number, run in enumerate(verdict.runs, start=1):
        yield _fact(f"run {number}", _run_in_words(run))


def _run_in_words(run: Loaded) -> str:
    rows = run.report.rows_emitted
    return f"{rows:,} rows in {run.seconds:.0f} s, {run.working_seconds:.0f} s of them after Spark had started"


def _compared(verdict: Verdict) -> Iterable[str]:
    before, after = verdict.before, verdict.after
    yield _columns("In what order", "a plain reader", "orderedkafka")
    yield _columns("  rows", f"{before.rows:,}", f"{after.rows:,}")
    yield _columns("  rows that come after a later one", _share(before), _share(after))
    yield _columns("  order violations: time runs backwards", f"{before.violations:,}", f"{after.violations:,}")
    yield _columns("  by as much as", shown_duration(before.furthest_ms), shown_duration(after.furthest_ms))
    yield _columns(
        "  time to get them", f"{verdict.reader_seconds:.0f} s", f"{sum(run.seconds for run in verdict.runs):.0f} s"
    )


def _judged(verdict: Verdict) -> Iterable[str]:
    if not verdict.broken:
        yield "The output is, record by record, what a plain sort of the events gives."
        return
    yield "These promises were broken:"
    for sentence in verdict.broken:
        yield f"  {sentence}"


def _fact(name: str, value: str) -> str:
    return f"  {name:<{_LEFT - 2}}{value}"


def _columns(name: str, before: str, after: str) -> str:
    return f"{name:<{_LEFT}}{before:>{_COLUMN}}{after:>{_COLUMN}}"


def _share(order: Order) -> str:
    return f"{order.behind:,} ({order.behind / order.rows:.0%})" if order.behind else "0"
