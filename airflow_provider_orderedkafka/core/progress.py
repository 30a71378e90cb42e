"""The progress of a run: a document after each batch and during a long one, as a sentence and a line for programs."""

from dataclasses import dataclass
from typing import Self

from airflow_provider_orderedkafka.core.batches import Counts, Tally
from airflow_provider_orderedkafka.core.codec import Document
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.notation.durations import shown_duration
from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.core.plan import Planned

MARK = "orderedkafka-progress "
"""The beginning of a line for programs; the document follows."""


@dataclass(frozen=True, slots=True)
class Progress(Document):
    """The progress of a range after a batch or, where `running` is set, while it is loaded.

    Rows are those of all attempts, the rate is that of this one. `order_time` is the order time reached, in
    milliseconds; null before any timestamp. `batches` is how many are planned; `about` means that there may be fewer,
    or that the rest is planned later. Version 1 had neither. `running` is how many seconds the batch has run for, with
    the numbers of Spark's tasks, as far as they are known; without it, the batch is done.
    """

    range_id: str
    attempt: int
    batch: int
    offsets_done: int
    offsets_planned: int
    rows_read: int
    rows_emitted: int
    late: int
    rows_per_second: int
    order_time: int | None
    seconds_left: int | None
    batches: int | None = None
    about: bool = False
    running: int | None = None
    tasks: int | None = None
    tasks_done: int | None = None

    @property
    def line(self) -> str:
        return MARK + self.to_text()

    @classmethod
    def of_line(cls, line: str) -> Self | None:
        """Parse a progress line; None for any other line."""
        _, mark, text = line.partition(MARK)
        return cls.from_text(text.strip()) if mark else None

    @property
    def sentence(self) -> str:
        of = "" if self.batches is None else f" of {'about ' if self.about else ''}{self.batches:,}"
        parts = [
            f"batch {self.batch:,}{of}{self.within}: "
            f"{self.offsets_done:,} of {self.offsets_planned:,} offsets ({self.share:.0%})",
            f"{self.rows_read:,} rows read",
            f"{self.rows_emitted:,} written",
        ]
        if self.running is None:
            parts.append(f"{self.rows_per_second:,} rows/s")
        if self.order_time is not None:
            parts.append(f"order time {Moment(self.order_time)}")
        if self.late:
            parts.append(f"{self.late:,} late")
        if self.seconds_left:
            parts.append(f"about {shown_duration(self.seconds_left * 1_000)} left")
        return ", ".join(parts)

    @property
    def within(self) -> str:
        """How far the batch itself is, if it still runs."""
        tasks = f", {self.tasks_done or 0:,} of {self.tasks:,} tasks done" if self.tasks else ""
        return "" if self.running is None else f" runs for {shown_duration(self.running * 1_000)}{tasks}"

    @property
    def share(self) -> float:
        """The share of the planned offsets that is done, from 0 to 1."""
        return self.offsets_done / self.offsets_planned if self.offsets_planned else 1.0


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """When the first batch of an attempt began, in milliseconds, and what was done before."""

    at: int
    offsets: int
    rows: int


def progress(
    loaded: Range, attempt: int, counts: Counts, planned: Planned, begun: AttemptStart, *, now: int
) -> Progress:
    done = counts.end.offsets.since(loaded.start.offsets)
    elapsed = max(now - begun.at, 1) / 1000
    left = loaded.offsets - done
    speed = (done - begun.offsets) / elapsed
    time = counts.end.floor.time
    return Progress(
        range_id=loaded.id,
        attempt=attempt,
        batch=counts.batch,
        offsets_done=done,
        offsets_planned=loaded.offsets,
        rows_read=counts.total.rows_read,
        rows_emitted=counts.total.rows_emitted,
        late=counts.total.late,
        rows_per_second=round((counts.total.rows_read - begun.rows) / elapsed),
        order_time=time if time >= 0 else None,
        seconds_left=round(left / speed) if speed > 0 and not counts.limit_spent else None,
        batches=planned.batches,
        about=planned.about,
    )


@dataclass(frozen=True, slots=True)
class Tasks:
    """How many tasks Spark has for what it does now, and how many of them are done."""

    done: int
    all: int


def running(
    loaded: Range, attempt: int, counts: Counts | None, planned: Planned, tasks: Tasks | None, *, since: int, now: int
) -> Progress:
    """The progress while a planned batch is loaded: the counts are those before it."""
    place, total = (loaded.start, Tally()) if counts is None else (counts.end, counts.total)
    return Progress(
        range_id=loaded.id,
        attempt=attempt,
        batch=planned.batch,
        offsets_done=place.offsets.since(loaded.start.offsets),
        offsets_planned=loaded.offsets,
        rows_read=total.rows_read,
        rows_emitted=total.rows_emitted,
        late=total.late,
        rows_per_second=0,
        order_time=place.floor.time if place.floor.time >= 0 else None,
        seconds_left=None,
        batches=planned.batches,
        about=planned.about,
        running=max(now - since, 0) // 1_000,
        tasks=None if tasks is None else tasks.all,
        tasks_done=None if tasks is None else tasks.done,
    )
