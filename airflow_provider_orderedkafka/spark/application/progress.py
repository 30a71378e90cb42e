"""Print the progress after each batch and during long ones, for people and programs."""

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final, Self, TextIO

from airflow_provider_orderedkafka.core.batches import Counts
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.notation.durations import shown_duration
from airflow_provider_orderedkafka.core.plan import Planned
from airflow_provider_orderedkafka.core.progress import AttemptStart, Progress, Tasks, progress, running

WIDTH = 30

SILENCE: Final = 20_000
"""After how many milliseconds without a word something is said; on a terminal the bar moves all the time."""

LOOK_SECONDS: Final = 1.0


class ProgressPrinter:
    """Prints a sentence for each batch, and a bar on a terminal or else a line for programs.

    Where nothing was said for a while, `look` says what is waited for, or how far the batch is.
    """

    def __init__(self, loaded: Range, attempt: int, counts: Counts | None, out: TextIO | None = None) -> None:
        self._loaded = loaded
        self._attempt = attempt
        self._before = self._counts = counts
        self._begun: AttemptStart | None = None
        self._out = out or sys.stdout
        self._terminal = self._out.isatty()
        self._silence = 0 if self._terminal else SILENCE
        self._drawn = False
        self._said: int | None = None
        self._doing: tuple[str | Planned, int] | None = None
        self._lock = Lock()

    def begin(self, now: int) -> None:
        """Start to measure the speed, at the first batch."""
        if self._begun is None:
            before = self._before
            done = 0 if before is None else before.end.offsets.since(self._loaded.start.offsets)
            self._begun = AttemptStart(now, done, 0 if before is None else before.total.rows_read)

    def tell(self, counts: Counts, planned: Planned, now: int) -> None:
        """Print the progress after a batch."""
        assert self._begun is not None
        found = progress(self._loaded, self._attempt, counts, planned, self._begun, now=now)
        with self._lock:
            self._counts, self._doing, self._said = counts, None, now
            self._print(found)

    def look(self, doing: str | Planned, tasks: Callable[[], Tasks | None], now: int) -> None:
        """Say what is done now, a wait or a batch, if nothing was said for a while."""
        with self._lock:
            if self._doing is None or self._doing[0] != doing:
                self._doing = (doing, now)
            since = self._doing[1]
            self._said = now if self._said is None else self._said
            if now - self._said < self._silence:
                return
            if isinstance(doing, Planned):
                batch = running(self._loaded, self._attempt, self._counts, doing, tasks(), since=since, now=now)
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
    """A progress bar that fits any terminal."""
    filled = round(found.share * WIDTH)
    left = "" if not found.seconds_left else f", about {shown_duration(found.seconds_left * 1_000)} left"
    batch = f", batch {found.batch:,}{found.within}" if found.within else ""
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {found.share:.0%}{left}{batch}"


class Watch:
    """Calls a function every now and then, in a thread of its own, until it is closed."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._closed = Event()

    def __enter__(self) -> Self:
        Thread(target=self._run, name="orderedkafka-progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with suppress(Exception):  # the JVM may be gone: who needs it says so
                self._look()
