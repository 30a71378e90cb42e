"""How far a range is: after each batch, and while one is loaded."""

from dataclasses import dataclass, replace
from typing import Self

from .batches import Counts, Planned, Tally
from .codec import Document
from .documents import Range
from .notation.spelling import counted, shown_duration
from .notation.starts import Moment

MARK = "orderedkafka-progress "
"""The beginning of a line for programs; the document follows."""


@dataclass(frozen=True, slots=True)
class Progress(Document):
    """The progress of a range after a batch or, where `running` is set, while it is loaded.

    Rows are those of all attempts, the rate is that of this one. `order_time` is the order time reached, in
    milliseconds; null before any timestamp. `batches` is how many are planned; `about` means that there may be fewer,
    or that the rest is planned later. `running` is how many seconds the batch has run for: what is done of it is as its
    tasks reported it a few seconds ago, and what is written is at least that. Without `running`, the batch is done.
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
    batches: int
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
        about, read = "about " if self.about else "", "" if self.running is None else " read"
        parts = [
            f"batch {self.batch:,} of {about}{self.batches:,}{self.within}: "
            f"{self.offsets_done:,} of {counted(self.offsets_planned, 'offset')}{read} ({self.share:.0%})",
            f"{counted(self.rows_read, 'row')} read",
        ]
        if self.running is None or self.rows_emitted or not self.rows_read:
            parts.append(f"{self.rows_emitted:,} written")
        if self.running is None or self.rows_per_second:
            parts.append(f"{counted(self.rows_per_second, 'row')}/s")
        if self.order_time is not None:
            parts.append(f"times up to {Moment(self.order_time)}")
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
    """When the first batch of an attempt on a range began, in milliseconds, and what was done before."""

    loaded: Range
    attempt: int
    at: int
    offsets: int
    rows: int


@dataclass(frozen=True, slots=True)
class Within:
    """How far a batch is, as far as Spark tells it.

    `share` is how much of it is done, from 0 to 1; `read` and `written` are its rows, these at least. `tasks` is how
    many tasks Spark has for what it does now, `tasks_done` how many of them are done.
    """

    share: float = 0.0
    read: int = 0
    written: int = 0
    tasks: int | None = None
    tasks_done: int | None = None


def progress(begun: AttemptStart, counts: Counts, planned: Planned, *, now: int) -> Progress:
    found = _progress(begun, counts, planned, Within(), now)
    return replace(found, batch=counts.batch, seconds_left=None if counts.limit_reached else found.seconds_left)


def running(
    begun: AttemptStart, counts: Counts | None, planned: Planned, within: Within | None, *, since: int, now: int
) -> Progress:
    """The progress while a planned batch is loaded, since some moment: the counts are those before it."""
    within = within or Within()
    found = _progress(begun, counts, planned, within, now)
    return replace(found, running=max(now - since, 0) // 1_000, tasks=within.tasks, tasks_done=within.tasks_done)


def _progress(begun: AttemptStart, counts: Counts | None, planned: Planned, within: Within, now: int) -> Progress:
    start, all_offsets = begun.loaded.start, begun.loaded.offsets
    place, total = (start, Tally()) if counts is None else (counts.end, counts.total)
    done = place.offsets.since(start.offsets) + round(within.share * planned.offsets)
    read = total.rows_read + within.read
    elapsed = max(now - begun.at, 1) / 1000
    speed = (done - begun.offsets) / elapsed
    return Progress(
        range_id=begun.loaded.id,
        attempt=begun.attempt,
        batch=planned.batch,
        offsets_done=done,
        offsets_planned=all_offsets,
        rows_read=read,
        rows_emitted=total.rows_emitted + within.written,
        late=total.late,
        rows_per_second=round((read - begun.rows) / elapsed),
        order_time=place.floor.lowest if place.floor.lowest >= 0 else None,
        seconds_left=round((all_offsets - done) / speed) if speed > 0 else None,
        batches=planned.batches,
        about=planned.about,
    )
