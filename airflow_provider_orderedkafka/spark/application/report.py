"""What an attempt shows and reports: a progress line while it runs, the report and its summary at the end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from threading import Event, Lock, Thread
from typing import Final, TextIO

from ...core.batches import Counts, Note, Planned, Tally
from ...core.documents import Ends, Range, Report, costs
from ...core.lifecycle import way_out
from ...core.next_range import rows_left
from ...core.notation.secrets import masked
from ...core.notation.spelling import counted, shown_duration
from ...core.notation.starts import Moment
from ...core.progress import AttemptStart, Progress, Within, progress, running
from ...errors import OrderedKafkaError

WIDTH = 30

SILENCE: Final = 10_000
"""After how many milliseconds without a word something is said; on a terminal the bar moves all the time."""

LOOK_SECONDS: Final = 1.0


class ProgressPrinter:
    """Prints a sentence for each batch, and a bar on a terminal or else a line for programs.

    Where nothing was said for a while, `look` says what is waited for, or how far the batch is.
    """

    def __init__(self, loaded: Range, attempt: int, out: TextIO | None = None) -> None:
        self._loaded = loaded
        self._attempt = attempt
        self._counts: Counts | None = None
        self._begun: AttemptStart | None = None
        self._out = out or sys.stdout
        self._terminal = self._out.isatty()
        self._silence = 0 if self._terminal else SILENCE
        self._drawn = False
        self._said: int | None = None
        self._doing: tuple[str | Planned, int] | None = None
        self._lock = Lock()

    def begin(self, now: int, before: Counts | None) -> None:
        """Start to measure the speed, at the first batch after those that were counted before."""
        if self._begun is None:
            self._counts = before
            done = 0 if before is None else before.end.offsets.since(self._loaded.start.offsets)
            rows = 0 if before is None else before.total.rows_read
            self._begun = AttemptStart(self._loaded, self._attempt, now, done, rows)

    def tell(self, counts: Counts, planned: Planned, now: int) -> None:
        assert self._begun is not None
        found = progress(self._begun, counts, planned, now=now)
        with self._lock:
            self._counts, self._doing, self._said = counts, None, now
            self._print(found)

    def look(self, doing: str | Planned, within: Callable[[Planned], Within | None], now: int) -> None:
        with self._lock:
            if isinstance(doing, Planned) and self._counts is not None and doing.batch <= self._counts.batch:
                return  # it was counted since the look began
            if self._doing is None or self._doing[0] != doing:
                self._doing = (doing, now)
            since = self._doing[1]
            self._said = now if self._said is None else self._said
            if now - self._said < self._silence:
                return
            if isinstance(doing, Planned):
                assert self._begun is not None
                batch = running(self._begun, self._counts, doing, within(doing), since=since, now=now)
                self._draw(batch) if self._terminal else self._print(batch)
            elif not self._terminal:
                print(f"{doing}, for {shown_duration(now - since)} so far", file=self._out, flush=True)
            self._said = now

    def close(self) -> None:
        """End the bar's line."""
        with self._lock:
            if self._drawn:
                print(file=self._out, flush=True)
            self._drawn = False

    def _print(self, found: Progress) -> None:
        if self._terminal:
            print(f"\r{found.sentence}\x1b[K\n", end="", file=self._out)
            self._draw(found)
        else:
            print(f"{found.sentence}\n{found.line}", file=self._out, flush=True)

    def _draw(self, found: Progress) -> None:
        print(f"\r{bar(found)}\x1b[K" if self._drawn else bar(found), end="", file=self._out, flush=True)
        self._drawn = True


def bar(found: Progress) -> str:
    filled = round(found.share * WIDTH)
    left = found.seconds_left and f", about {shown_duration(found.seconds_left * 1_000)} left"
    batch = f", batch {found.batch:,}{found.within}" if found.within else ""
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {found.share:.0%}{left or batch}"


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Call a function every now and then meanwhile, in a thread of its own."""
    closed = Event()

    def run() -> None:
        while not closed.wait(LOOK_SECONDS):
            with suppress(Exception):  # the JVM may be gone: who needs it says so
                look()

    Thread(target=run, name="orderedkafka-progress", daemon=True).start()
    try:
        yield
    finally:
        closed.set()


def report(
    loaded: Range,
    counts: Counts | None,
    attempt: int,
    started_at: int,
    ended_at: int,
    *,
    error: OrderedKafkaError | None = None,
) -> Report:
    """The report of an attempt, from the newest counts; without any, nothing was done. It lacks where rows went."""
    total = Tally() if counts is None else counts.total
    spent = rows_left(loaded.rows_left, total.rows) == 0
    reached = loaded.start if counts is None else counts.end
    complete = error is None
    return Report(
        range_id=loaded.id,
        attempt=attempt,
        complete=complete,
        limit_reached=spent,
        stop=reached if spent or not complete else loaded.end,
        batches=0 if counts is None else counts.batches,
        started_at=started_at,
        ended_at=ended_at,
        error=None if error is None else masked(str(error)),
        advice=_advice(loaded, error, spent=spent),
        **{each.name: getattr(total, each.name) for each in fields(total)},
        range=loaded,
        let_through=None if loaded.rows_left is None else total.rows,
    )


def ends_before(note: Callable[[int], Note | None], batches: int) -> Ends | None:
    """Where the output ended before the first batch, by the notes; what came later, or was made anew, before its own.

    None without a batch.
    """
    first, last = note(1), note(batches)
    if first is None:
        return None
    if last is None or last.output_ids != first.output_ids:
        for each in filter(None, map(note, range(2, batches + 1))):
            first = first.joined(each.outputs, each.output_ids, "")
    return Ends(first.outputs, first.output_ids, first.table)


def _advice(loaded: Range, error: OrderedKafkaError | None, *, spent: bool) -> str:
    alone = loaded.kind != "incremental"
    if error is None and alone:
        return "the row limit is reached: only a replay loads the rest" if spent else "nothing is left to load of it"
    if error is None and spent:
        return "the row limit is reached: raise it, and the next range continues where this one stopped"
    if error is None:
        return "the next range starts where this one stopped"
    if error.retryable:
        return "run the same range with the same checkpoint again: it continues where it was"
    otherwise = way_out(loaded) if alone else "abandon the range: the rows written so far stay in the output"
    return (
        "a retry alone will fail again: first do what the error says, then run the same range with the same checkpoint "
        f"again, and it continues where it was; or {otherwise}"
    )


def summary(loaded: Range, found: Report) -> str:
    done = found.stop.offsets.since(loaded.start.offsets)
    took = shown_duration(found.ended_at - found.started_at)
    lines = [
        f"range {found.range_id}, attempt {found.attempt}: {_outcome(found)} after {took}",
        f"  read      {done:,} of {counted(loaded.offsets, 'offset')}, {counted(found.rows_read, 'row')}, "
        f"{counted(found.bytes_read, 'byte')}",
        f"  written   {counted(found.rows_emitted, 'row')}{found.changes.words} in {counted(found.batches, 'batch')}",
    ]
    if cost := costs(found).removeprefix(", "):
        lines.append(f"  cost      {cost}")
    if found.stop.floor.lowest >= 0:
        lines.append(f"  times     up to {Moment(found.stop.floor.lowest)}, {counted(found.late, 'late row')}")
    remarks = {
        "left out, already in the output": found.replayed,
        "kept as dead letters": found.dead_letters,
        "may be doubled": found.may_be_doubled,
        "may be out of order": found.may_be_out_of_order,
        f"lost to retention before they were read{', at most' if found.replayed else ''}": found.lost,
    }
    lines += [f"  {count:,} {what}" for what, count in remarks.items() if count]
    if found.of_columns:
        lines.append(f"  {found.of_columns.removeprefix(', ')}")
    if found.unprotected is not None:
        lines.append(f"  a retry would have written its batch twice: {found.unprotected}")
    return "\n".join([*lines, f"  {found.advice}"])


def _outcome(found: Report) -> str:
    if not found.complete:
        return "failed"
    return "the row limit is reached" if found.limit_reached else "complete"
