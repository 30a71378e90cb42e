"""Compare what was written with what came out: order, missing and duplicate events, late records. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.tools.demo.reading import Reading
from airflow_provider_orderedkafka.tools.demo.story import LANES, Chapter, Numbers, order_times, right_order


@dataclass(frozen=True, slots=True)
class Order:
    """How well rows are in time order. Rows of the same order time may come in any order.

    `behind` rows come after a row of a later time; at `violations` places time runs backwards from one row to the
    next, by at most `furthest_ms`.
    """

    rows: int
    behind: int
    violations: int
    furthest_ms: int

    @classmethod
    def of(cls, times: Numbers) -> "Order":
        """The order of rows that have these order times."""
        steps = np.diff(times)
        return cls(
            rows=len(times),
            behind=int((times < np.maximum.accumulate(times)).sum()) if len(times) else 0,
            violations=int((steps < 0).sum()),
            furthest_ms=int(max(0, -steps.min(initial=0))),
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run of the DAG: how long it took, and the report of its application."""

    seconds: float
    report: Report

    @property
    def working_seconds(self) -> float:
        """How long its application read and wrote, without the start of Airflow and Spark."""
        return (self.report.ended_at - self.report.started_at) / 1_000


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """All events as they were written, with their expected order times."""

    lanes: Numbers
    times: Numbers
    order_times: Numbers

    @classmethod
    def of(cls, chapters: Sequence[Chapter], runs: Sequence[Loaded]) -> "Told":
        """The chapters, each loaded by one run; each run's floor is where the run before it ended."""
        floors = [[0] * len(LANES)] + [[run.report.stop.floor.time] * len(LANES) for run in runs[:-1]]
        parts = [order_times(chapter, floor) for chapter, floor in zip(chapters, floors, strict=True)]
        lanes, times = (np.concatenate([getattr(chapter, name) for chapter in chapters]) for name in ("lanes", "times"))
        return cls(lanes, times, np.concatenate(parts))

    def __len__(self) -> int:
        return len(self.times)

    @property
    def late(self) -> int:
        return int((self.times < self.order_times).sum())

    def order(self, reading: Reading) -> Order:
        return Order.of(self.order_times[reading.events])


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison; `broken` names the promises that were not kept, as sentences."""

    written: int
    offsets: int
    before: Order
    after: Order
    missing: int
    duplicates: int
    late: int
    reader_seconds: float
    runs: tuple[Loaded, ...]

    broken: tuple[str, ...]


def judge(told: Told, plain: Reading, output: Reading, runs: Sequence[Loaded]) -> Verdict:
    """Compare the output topic with the events that were written, one by one."""
    seen = np.bincount(output.events, minlength=len(told))
    missing, duplicates = int((seen == 0).sum()), int((seen > 1) @ (seen - 1))
    after = told.order(output)
    late = sum(run.report.late for run in runs)
    rows = sum(run.report.rows_emitted for run in runs)
    right = np.array_equal(output.events, right_order(told.lanes, told.order_times))
    promises = {
        f"{missing:,} of {len(told):,} events are missing from the output": missing == 0,
        f"{duplicates:,} events are in the output more than once": duplicates == 0,
        f"the output has {after.violations:,} order violations": after.violations == 0,
        "the output is not in the order that a plain sort of the events gives": right,
        "timestamps were changed on the way": np.array_equal(output.times, told.times[output.events]),
        f"the reports say {rows:,} rows, the output has {after.rows:,}": rows == after.rows,
        f"the reports say {late:,} late records, the events have {told.late:,}": late == told.late,
    }
    return Verdict(
        written=len(told),
        offsets=plain.offsets,
        before=told.order(plain),
        after=after,
        missing=missing,
        duplicates=duplicates,
        late=late,
        reader_seconds=plain.seconds,
        runs=tuple(runs),
        broken=tuple(sentence for sentence, kept in promises.items() if not kept),
    )
