"""Print the progress after each batch, for people and programs."""

import sys
from typing import TextIO

from airflow_provider_orderedkafka.core.batches import Counts
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.notation.durations import format_duration
from airflow_provider_orderedkafka.core.plan import Planned
from airflow_provider_orderedkafka.core.progress import AttemptStart, Progress, progress

WIDTH = 30


class ProgressPrinter:
    """Prints a sentence for each batch, and a bar on a terminal or else a line for programs."""

    def __init__(self, loaded: Range, attempt: int, counts: Counts | None, out: TextIO | None = None) -> None:
        self._loaded = loaded
        self._attempt = attempt
        self._before = counts
        self._begun: AttemptStart | None = None
        self._out = out or sys.stdout
        self._terminal = self._out.isatty()
        self._drawn = False

    def begin(self, now: int) -> None:
        """Start to measure the speed, at the first batch."""
        if self._begun is None:
            before = self._before
            done = 0 if before is None else before.end.offsets.since(self._loaded.start.offsets)
            self._begun = AttemptStart(now, done, 0 if before is None else before.total.rows_read)

    def tell(self, counts: Counts, planned: Planned, now: int) -> None:
        """Print the progress."""
        assert self._begun is not None
        found = progress(self._loaded, self._attempt, counts, planned, self._begun, now=now)
        if self._terminal:
            print(f"\r{found.sentence}\x1b[K\n{bar(found)}", end="", file=self._out, flush=True)
            self._drawn = True
        else:
            print(f"{found.sentence}\n{found.line}", file=self._out, flush=True)

    def close(self) -> None:
        """End the bar's line."""
        if self._drawn:
            print(file=self._out, flush=True)


def bar(found: Progress) -> str:
    """A progress bar that fits any terminal."""
    filled = round(found.share * WIDTH)
    left = "" if not found.seconds_left else f", about {format_duration(found.seconds_left * 1_000, 2)} left"
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {found.share:.0%}{left}"
