"""Telling people and programs how far a run is, after each batch."""

import sys
from typing import TextIO

from airflow_provider_orderedkafka.core.batches import Counts
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.progress import Begun, Progress, progress

WIDTH = 30


class Teller:
    """Prints the progress of one attempt: a bar on a terminal, else a sentence and a marked line for each batch."""

    def __init__(self, loaded: Range, attempt: int, now: int, counts: Counts | None, out: TextIO | None = None) -> None:
        done = 0 if counts is None else counts.end.offsets.since(loaded.start.offsets)
        self._begun = Begun(now, done, 0 if counts is None else counts.total.rows_read)
        self._loaded = loaded
        self._attempt = attempt
        self._out = out or sys.stdout

    def tell(self, counts: Counts, now: int) -> None:
        """Say how far it is."""
        found = progress(self._loaded, self._attempt, counts, self._begun, now)
        if self._out.isatty():
            over = found.offsets_done >= found.offsets_planned or counts.limit_spent
            print(f"\r{bar(found)} {found.sentence}\x1b[K", end="\n" if over else "", file=self._out, flush=True)
        else:
            print(f"{found.sentence}\n{found.line}", file=self._out, flush=True)


def bar(found: Progress) -> str:
    """How much is done, drawn."""
    filled = round(found.share * WIDTH)
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}]"
