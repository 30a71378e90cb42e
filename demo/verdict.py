"""Compare what was written with what came out: order, missing and duplicate events, late records. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.notation.spelling import shown_duration
from demo.shop import Reading
from demo.story import Chapter, Numbers, order_times, right_order


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
        behind = int((times < np.maximum.accumulate(times)).sum()) if len(times) else 0
        return cls(len(times), behind, int((steps < 0).sum()), int(max(0, -steps.min(initial=0))))


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run of the DAG: how long it took, and the report of its application."""

    seconds: float
    report: Report


@dataclass(frozen=True, slots=True, eq=False)
class Story:
    """All events as they were written, with their expected order times."""

    lanes: Numbers
    times: Numbers
    order_times: Numbers

    @classmethod
    def of(cls, chapters: Sequence[Chapter], floors: Sequence[int]) -> "Story":
        """The chapters, each loaded by one run; each run's floor is where the run before it ended."""
        parts = [order_times(each, floor) for each, floor in zip(chapters, [0, *floors[:-1]], strict=True)]
        lanes, times = (np.concatenate([getattr(chapter, name) for chapter in chapters]) for name in ("lanes", "times"))
        return cls(lanes, times, np.concatenate(parts))

    def __len__(self) -> int:
        return len(self.times)

    def order(self, reading: Reading) -> Order:
        return Order.of(self.order_times[reading.events])


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison; `broken` names the promises that were not kept, as sentences."""

    facts: dict[str, str]
    before: Order
    after: Order
    seconds: tuple[float, float]
    broken: tuple[str, ...]


def judge(story: Story, plain: Reading, output: Reading, runs: Sequence[Loaded]) -> Verdict:
    """Compare the output topic with the events that were written, one by one."""
    seen = np.bincount(output.events, minlength=len(story))
    missing, duplicates = int((seen == 0).sum()), int((seen > 1) @ (seen - 1))
    before, after = story.order(plain), story.order(output)
    rows, late = (sum(getattr(run.report, name) for run in runs) for name in ("rows_emitted", "late"))
    truly_late = int((story.times < story.order_times).sum())
    offsets = sum(plain.ends.values())
    promises = {
        f"{missing:,} of {len(story):,} events are missing from the output": missing == 0,
        f"{duplicates:,} events are in the output more than once": duplicates == 0,
        f"the output has {after.violations:,} order violations": after.violations == 0,
        "the output is not in the order that a plain sort of the events gives": np.array_equal(
            output.events, right_order(story.lanes, story.order_times)
        ),
        "timestamps were changed on the way": np.array_equal(output.times, story.times[output.events]),
        f"the reports say {rows:,} rows, the output has {after.rows:,}": rows == after.rows,
        f"the reports say {late:,} late records, the events have {truly_late:,}": late == truly_late,
    }
    facts = {
        "offsets": f"{offsets:,}, {offsets - len(story)} of them without a record (transaction markers)",
        "events written, rows in the output": f"{len(story):,}, {after.rows:,}",
        "missing, duplicates": f"{missing:,}, {duplicates:,}",
        "late records": f"{late:,}, kept in their places, flagged and counted",
    } | {f"run {number}": in_words(run) for number, run in enumerate(runs, start=1)}
    broken = tuple(sentence for sentence, kept in promises.items() if not kept)
    return Verdict(facts, before, after, (plain.seconds, sum(run.seconds for run in runs)), broken)


def in_words(run: Loaded) -> str:
    working = (run.report.ended_at - run.report.started_at) / 1_000
    return f"{run.report.rows_emitted:,} rows in {run.seconds:.0f} s, {working:.0f} s of them after Spark had started"


def summary(verdict: Verdict) -> str:
    return "\n".join(lines(verdict))


def lines(verdict: Verdict) -> Iterator[str]:
    yield "What was loaded"
    yield from (f"  {name:<36}{value}" for name, value in verdict.facts.items())
    yield ""
    before, after = verdict.before, verdict.after
    for name, *both in (
        ("In what order", "a plain reader", "orderedkafka"),
        ("  rows", f"{before.rows:,}", f"{after.rows:,}"),
        ("  rows that come after a later one", share(before), share(after)),
        ("  order violations: time runs backwards", f"{before.violations:,}", f"{after.violations:,}"),
        ("  by as much as", shown_duration(before.furthest_ms), shown_duration(after.furthest_ms)),
        ("  time to get them", *(f"{seconds:.0f} s" for seconds in verdict.seconds)),
    ):
        yield f"{name:<38}{both[0]:>22}{both[1]:>22}"
    yield ""
    if verdict.broken:
        yield "These promises were broken:"
        yield from (f"  {sentence}" for sentence in verdict.broken)
    else:
        yield "The output is, record by record, what a plain sort of the events gives."


def share(order: Order) -> str:
    return f"{order.behind:,} ({order.behind / order.rows:.0%})" if order.behind else "0"
