"""Where the batches of a range come from: an available-now query of Spark, or the plan alone.

The DataFrame lane runs a streaming query: Spark asks the source where each batch ends, logs that in its checkpoint, and
hands the batch over as a frame. The direct lane needs no frame, so no query is started for it, and none of the four
Python processes that Spark keeps for one: the same source says where each batch ends, and notes and counts are the log.
"""

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from airflow_provider_orderedkafka.core.cuts import Place
from airflow_provider_orderedkafka.core.streams import StreamOffset
from airflow_provider_orderedkafka.errors import DocumentError
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.checkpoint import SPARK, Checkpoint
from airflow_provider_orderedkafka.spark.state import State
from airflow_provider_orderedkafka.spark.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from airflow_provider_orderedkafka.spark.frames import RangeFrames

LOOK_SECONDS = 0.2

Take = Callable[[Batch], None]
Until = Callable[[], bool]


class Feed(Protocol):
    """Hands a range's batches over, one after the other, each the same in every attempt."""

    def follow(self, take: Take, until: Until) -> None:
        """Hand over what is left of the range, and return at its end, or once `until` holds."""
        ...

    def cancel(self) -> None:
        """Cancel what Spark runs for the batch, from any thread."""
        ...

    def stop(self) -> None:
        """Let nothing run any more."""
        ...


class QueryFeed:
    """The batches of an available-now query, whose checkpoint says where each of them ends."""

    def __init__(self, frames: "RangeFrames", checkpoint: Checkpoint) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._query: StreamingQuery | None = None

    def follow(self, take: Take, until: Until) -> None:
        """Start the query and wait for its end."""

        def hand_over(frame: "DataFrame", number: int) -> None:
            places = logged(self._checkpoint.state, number)
            if places is not None:
                take(Batch(number, *places, frame))

        self._checkpoint.forget_unnoted()
        stream = self._frames.stream().writeStream.foreachBatch(hand_over)
        stream = stream.option("checkpointLocation", self._checkpoint.spark)
        self._query = stream.trigger(availableNow=True).start()
        while not self._query.awaitTermination(LOOK_SECONDS):
            if until():
                return

    def cancel(self) -> None:
        """Cancel the query's jobs."""
        query = self._query
        if query is not None:
            with suppress(Exception):
                self._frames.session.sparkContext.cancelJobGroup(str(query.runId))

    def stop(self) -> None:
        """Stop the query."""
        if self._query is not None:
            with suppress(Exception):  # a query whose JVM is gone is stopped
                if self._query.isActive:
                    self._query.stop()


class PlanFeed:
    """The batches as they are planned; a batch that was begun is the one that was written down."""

    def __init__(self, frames: "RangeFrames", checkpoint: Checkpoint) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._group = f"orderedkafka-{secrets.token_hex(4)}"
        self._taking = False

    def follow(self, take: Take, until: Until) -> None:
        """Plan each batch where the one before it ended."""
        loaded, counts = self._frames.loaded, self._checkpoint.counts()
        number, at = (0, loaded.start) if counts is None else (counts.batch, counts.end)
        context = self._frames.session.sparkContext
        context.setJobGroup(self._group, f"orderedkafka: range {loaded.id}")
        stream = Stream(self._frames.cluster.options, self._frames.cluster)
        stream.fix_target()
        while at.offsets != loaded.end.offsets and not until():
            number += 1
            end = self._begun(number) or _planned(stream, at, loaded.batch_offsets)
            if end is None:
                return
            self._taking = True
            take(Batch(number, at, end, None))
            self._taking = False
            at = end

    def cancel(self) -> None:
        """Cancel the batch's job."""
        with suppress(Exception):
            self._frames.session.sparkContext.cancelJobGroup(self._group)

    def stop(self) -> None:
        """A job that was left when its driver was interrupted is cancelled."""
        if self._taking:
            self.cancel()

    def _begun(self, number: int) -> Place | None:
        """The end of a batch that an earlier attempt began: its rows are numbered up to there."""
        begun = self._checkpoint.note(number) or self._checkpoint.allotment(number)
        return None if begun is None else begun.end


def _planned(stream: Stream, at: Place, most: int | None) -> Place | None:
    found = stream.after(replace(stream.first(), place=at), most)
    return None if found is None else found.place


def logged(state: State, number: int) -> tuple[Place, Place] | None:
    """Where a batch begins and ends, by the offsets that Spark logs before it runs one; None for an empty one."""
    before = None if number == 0 else _end(state, number - 1)
    end = _end(state, number)
    return None if before is None or end is None or before.offsets == end.offsets else (before, end)


def _end(state: State, number: int) -> Place | None:
    """One file for each batch, with a version, Spark's own settings, and the source's offset."""
    name = f"{SPARK}/offsets/{number}"
    try:
        last = (state.get(name) or "").strip().splitlines()[-1]
        found = StreamOffset.from_json(json.loads(last))
    except (ValueError, IndexError, AttributeError) as error:
        raise DocumentError(
            f"Spark's offset log {name!r} in {state.location!r} cannot be read ({error}): it was damaged, or "
            f"written by a Spark that this release does not know"
        ) from error
    return None if found is None else found.place
