"""The numbers of a load, for the metrics that Airflow sends: `orderedkafka.<load>.<name>`, with the load as a tag."""

from collections.abc import Mapping

from ..compat.airflow import stats
from ..context import now_ms
from ..core.documents import Ledger, Range, Report
from ..core.order.positions import Offsets
from ..core.pacing import Lag, Verdict

COUNTS = {
    "rows_read": "rows_read",
    "rows_written": "rows_emitted",
    **{name: name for name in ("late", "replayed", "dead_letters", "may_be_doubled", "may_be_out_of_order", "lost")},
}
"""Counters of a commit, with what the report calls them."""


def waits(load: str, ledger: Ledger | None, verdict: Verdict, *, in_triggerer: bool = False) -> None:
    """How much there is to load; nothing if the verdict was reached without looking at Kafka."""
    if ledger is None or verdict.waiting is None or verdict.lag is None:
        return
    lag = _of_lag(Lag.of(ledger.place, verdict.lag, now_ms()))
    span = verdict.span
    behind = None if span is None else Offsets({p: end - span.start[p] for p, end in span.end.items()})
    numbers = {"waiting_offsets": verdict.waiting, **lag, **_of_partitions(behind)}
    _gauges(load, numbers, in_triggerer=in_triggerer)


def planned(loaded: Range) -> None:
    _gauges(loaded.load, {"planned_offsets": loaded.offsets})


def attempted(load: str) -> None:
    _count(load, {"attempts": 1})


def committed(load: str, report: Report, lag: Lag | None, left: Offsets | None = None) -> None:
    """A range was committed, for the first time, and so much is `left` in each partition."""
    _count(load, {"commits": 1, **{name: getattr(report, field) for name, field in COUNTS.items()}})
    stats().timing(f"orderedkafka.{load}.duration", report.ended_at - report.started_at, tags={"load": load})
    if lag is not None:
        _gauges(load, {**_of_lag(lag), **_of_partitions(left)})


def doubled(load: str, more: int) -> None:
    """So many more rows of a range that is committed already may be doubled."""
    _count(load, {"may_be_doubled": more})


def _of_partitions(behind: Offsets | None) -> dict[str, float]:
    return {} if behind is None else {f"partition_lag_{name}": count for name, count in behind.spread.items()}


def _of_lag(lag: Lag) -> dict[str, float]:
    seconds = {} if lag.age is None else {"lag_seconds": lag.age / 1_000}
    return {"lag_offsets": lag.offsets, **seconds}


def _gauges(load: str, numbers: Mapping[str, float], *, in_triggerer: bool = False) -> None:
    for name, number in numbers.items():
        stats(in_triggerer=in_triggerer).gauge(f"orderedkafka.{load}.{name}", number, tags={"load": load})


def _count(load: str, numbers: Mapping[str, int]) -> None:
    for name, number in numbers.items():
        stats().incr(f"orderedkafka.{load}.{name}", number, tags={"load": load})
