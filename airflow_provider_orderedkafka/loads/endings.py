"""Describe how a load ended."""

from airflow_provider_orderedkafka.core.documents import DOUBTS, Outcome, Report

TOLD = ("range_id", "attempt", "limit_spent", "batches", "rows_read", "rows_emitted", "late", "replayed", *DOUBTS)


def told(report: Report) -> str:
    """The report as a sentence."""
    return (
        f"range {report.range_id} is loaded: {report.rows_read:,} rows read, {report.rows_emitted:,} written in "
        f"{report.batches:,} batches, {report.late:,} late, {report.replayed:,} replayed{doubts(report)}"
    )


def doubts(found: Report | Outcome) -> str:
    """The counts that people should know of, if they are not 0."""
    counts = ((name, getattr(found, name)) for name in DOUBTS)
    return "".join(f", {count:,} {name.replace('_', ' ')}" for name, count in counts if count)
