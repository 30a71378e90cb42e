"""Where the batches of a range come from: the plan, and what earlier attempts wrote down.

In both lanes notes, allotments and counts say which batch is next and where it ends. `turns` says when, where a query
of Spark runs.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from airflow_provider_orderedkafka.compat.spark import cancel_jobs
from airflow_provider_orderedkafka.core.cuts import Place
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.stream import Stream

Until = Callable[[], bool]
Next = Callable[[], tuple[int, Place]]


class Feed:
    """The batches of a range that are left; one that was begun is the one that was written down.

    `next_` gives the number of the next batch and where it begins, once the one before it is counted.
    """

    def __init__(self, frames: RangeFrames, checkpoint: Checkpoint, next_: Next) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._next = next_
        self._group = f"orderedkafka-{secrets.token_hex(4)}"

    def batches(self, until: Until) -> Iterator[Batch]:
        """Each batch, planned from where the one before it ended; no more at the range's end, or once `until` holds."""
        loaded, context = self._frames.loaded, self._frames.session.sparkContext
        stream = Stream(self._frames.options, self._frames.cluster)
        stream.fix_target()
        while not until():
            number, start = self._next()
            if start.offsets == loaded.end.offsets:
                return
            end = self._begun(number) or _planned(stream, start, loaded.batch_offsets)
            if end is None:
                return
            context.setJobGroup(self._group, f"orderedkafka: batch {number} of range {loaded.id}")
            yield Batch(number, start, end)

    def left(self) -> range:
        """The numbers of the batches that are left, as far as is known: one that was begun may be a smaller one."""
        loaded = self._frames.loaded
        first, at = self._next()
        rest = loaded.end.offsets.since(at.offsets)
        return range(first, first + -(-rest // (loaded.batch_offsets or max(rest, 1))))

    def cancel(self) -> None:
        """Cancel what Spark runs for the batch and would run for it yet, from any other thread."""
        with suppress(Exception):
            cancel_jobs(self._frames.session, self._group)

    def _begun(self, number: int) -> Place | None:
        """The end of a batch that an earlier attempt began: its rows are numbered up to there."""
        begun = self._checkpoint.note(number) or self._checkpoint.allotment(number)
        return None if begun is None else begun.end


def _planned(stream: Stream, at: Place, most: int | None) -> Place | None:
    found = stream.after(replace(stream.first(), place=at), most)
    return None if found is None else found.place
