"""Where the batches of a range come from: the plan, and what earlier attempts wrote down.

No streaming query of Spark runs for this. Notes, allotments and counts say all that a query's checkpoint would, in both
lanes; and a query over a source in Python starts four more processes of it, which takes longer than a small load.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from airflow_provider_orderedkafka.core.cuts import Place
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.stream import Stream

Take = Callable[[Batch], None]
Until = Callable[[], bool]


class Feed:
    """Hands a range's batches over, one after the other; a batch that was begun is the one that was written down."""

    def __init__(self, frames: RangeFrames, checkpoint: Checkpoint) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._group = f"orderedkafka-{secrets.token_hex(4)}"

    def follow(self, take: Take, until: Until) -> None:
        """Plan each batch where the one before it ended; return at the range's end, or once `until` holds."""
        loaded, counts = self._frames.loaded, self._checkpoint.counts()
        number, at = (0, loaded.start) if counts is None else (counts.batch, counts.end)
        context = self._frames.session.sparkContext
        stream = Stream(self._frames.cluster.options, self._frames.cluster)
        stream.fix_target()
        while at.offsets != loaded.end.offsets and not until():
            number += 1
            end = self._begun(number) or _planned(stream, at, loaded.batch_offsets)
            if end is None:
                return
            context.setJobGroup(self._group, f"orderedkafka: batch {number} of range {loaded.id}")
            take(Batch(number, at, end))
            at = end

    def cancel(self) -> None:
        """Cancel what Spark runs for the batch and would run for it yet, from any other thread."""
        with suppress(Exception):
            self._frames.session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    def _begun(self, number: int) -> Place | None:
        """The end of a batch that an earlier attempt began: its rows are numbered up to there."""
        begun = self._checkpoint.note(number) or self._checkpoint.allotment(number)
        return None if begun is None else begun.end


def _planned(stream: Stream, at: Place, most: int | None) -> Place | None:
    found = stream.after(replace(stream.first(), place=at), most)
    return None if found is None else found.place
