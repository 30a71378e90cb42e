"""The streaming query of a load by DataFrames: available now, with a checkpoint; each micro-batch takes one batch.

What it streams is what is left to do: a folder with a small file for each batch, of which it takes one at a time. (For
a source in Python Spark would start four processes, which takes longer than a small load does.) So Spark's page of
streaming queries, and whoever listens to queries, follow a load as they follow any other.

Which batch a turn takes is not in the query's checkpoint, but in notes and counts: a turn takes the first batch that is
not done. So whatever a kill, a full disk or another attempt leaves in there, nothing is left out or taken twice; and a
query that cannot go on is begun anew.
"""

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from airflow_provider_orderedkafka.compat.spark import gateway
from airflow_provider_orderedkafka.errors import StateError
from airflow_provider_orderedkafka.spark.batches import Batch
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.frames import RangeFrames, first_line
from airflow_provider_orderedkafka.spark.state import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

AT_ONCE: Final = 100
"""Turns that a query is started with: their files are written before the first row is read."""

LOOK_SECONDS: Final = 0.1

FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""For local disk. What Spark takes by itself starts a process for each look at a file there: 0.2 seconds in a batch."""

TELLS_ERRORS: Final = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
"""What ends a query is told once, in our words; this logger would put a page of Java's before them."""

Take = Callable[[Batch], None]

_log = logging.getLogger(__name__)


class Turns:
    """The query of one range: one attempt's after the other's, on the same checkpoint."""

    def __init__(self, frames: RangeFrames, checkpoint: Checkpoint) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._token = secrets.token_hex(4)
        self._begun_anew = False

    def follow(self, left: Callable[[], Sequence[int]], batches: Iterator[Batch], take: Take) -> None:
        """Take what `batches` gives, each in a turn of its own, until it gives no more; what `take` raises ends it."""
        while numbers := left():
            for number in islice(numbers, AT_ONCE):
                self._checkpoint.put_turn(f"{number}-{self._token}")
            taker = _Taker(batches, take)
            try:
                with _plain_files(self._frames.session, self._checkpoint):
                    self._run(taker)
            except Exception as error:
                if taker.failed or self._begun_anew:
                    raise
                self._begin_anew(error)
            if taker.nothing_left:
                return

    def _run(self, taker: "_Taker") -> None:
        """One query, to the end of its turns; stopped where turns are left, but nothing to take."""
        query = self._started(taker)
        while not query.awaitTermination(LOOK_SECONDS):
            if taker.nothing_left:
                query.stop()
        if not taker.turns:
            raise StateError(
                f"Spark's streaming query finds no file in {self._checkpoint.turns!r}: was it deleted, or does Spark "
                f"see another file system than this process? Mend it, then run the same range again"
            )

    def _started(self, taker: "_Taker") -> "StreamingQuery":
        from pyspark.sql.types import StringType, StructType

        session = self._frames.session
        log4j = gateway(session).jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(TELLS_ERRORS, log4j.Level.OFF)
        lines = session.readStream.format("text").schema(StructType().add("value", StringType()))
        turns = lines.option("maxFilesPerTrigger", 1).load(_literal(_for_spark(self._checkpoint.turns)))
        writer = turns.writeStream.foreachBatch(taker.turn).queryName(f"orderedkafka: range {self._frames.loaded.id}")
        return writer.trigger(availableNow=True).start(checkpointLocation=_for_spark(self._checkpoint.query))

    def _begin_anew(self, error: Exception) -> None:
        _log.warning("Spark's streaming query ended (%s) and is begun anew", first_line(error))
        self._begun_anew = True
        self._checkpoint.forget_query()


class _Taker:
    """Takes a batch in each turn. `failed` once one could not be taken, `nothing_left` once there was none to take."""

    def __init__(self, batches: Iterator[Batch], take: Take) -> None:
        self._batches = batches
        self._take = take
        self.turns = 0
        self.failed = False
        self.nothing_left = False

    def turn(self, _frame: "DataFrame", _number: int) -> None:
        """What Spark calls in each micro-batch."""
        self.turns += 1
        try:
            batch = None if self.nothing_left else next(self._batches, None)
            if batch is None:
                self.nothing_left = True
            else:
                self._take(batch)
        except BaseException:
            self.failed = True
            raise


def _for_spark(location: str) -> str:
    """The location for Spark, whose own file system may be another one than the local disk."""
    path = local_path(location)
    return location if path is None else f"file:{path.absolute()}"


def _literal(location: str) -> str:
    """The location for one who reads patterns."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", location)


@contextmanager
def _plain_files(session: "SparkSession", checkpoint: Checkpoint) -> Iterator[None]:
    """While a query runs, Spark writes local files as files, unless it was set how."""
    if local_path(checkpoint.location) is None or session.conf.get(FILES, None) is not None:
        yield
        return
    session.conf.set(FILES, PLAIN_FILES)
    try:
        yield
    finally:
        session.conf.unset(FILES)
