"""Counts that tasks report to the driver: once they are done with a piece of work, and while they are at it.

    TaskCounter(session.sparkContext)    on the driver; it goes to the tasks with the function that they run
    counter.add(piece, count)            in a task, once it is done with the piece
    counter.total(), counter.counts      on the driver, once the job is done

It is an accumulator of Spark. A task that fails reports nothing; and where Spark does a piece twice (to sample what it
will sort, or for both sides of a union) the piece counts once, with its highest count.

    results(each_partition(frame, work))        on the driver: what `work` returned in each task
    task_progress(running_plans(session), ...)   on the driver, meanwhile: how far the tasks are

A task of Python can report nothing while it works but by its rows, which Spark counts and its executors' heartbeats
bring to the driver. So a task that `work`s gives rows without content now and then, one for each `UNIT` that is done.
"""

import pickle
import re
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from ...compat.spark import READ, ROWS, SHUFFLED, RunningNode
from ...core.progress import Within
from ...errors import TaskFailedError

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

PieceCounts = dict[Any, int]

UNIT: Final = 1_000
"""How many records or rows a row without a content stands for."""

SECONDS: Final = 1.0
"""The shortest time between two reports of a task."""

_FLUSHING: Final = bytes(2**17)
"""More than Python's worker keeps before it sends anything to the JVM."""

_FOUND, _BEAT = "found", "beat"
_FUNCTION = re.compile(r"MapInArrow (\w+)\(")
_PIECES = re.compile(r"^Range \(.*splits=(?:Some\()?(\d+)")

Work = Callable[[Iterator["RecordBatch"]], Generator[int, None, Any]]
"""The work of a task: it yields how many records or rows are done so far, and returns what it came to."""


class TaskCounter:
    """A sum over pieces of work, reported by tasks."""

    def __init__(self, context: "SparkContext") -> None:
        self._counts = context.accumulator({}, _Most())

    def add(self, piece: Hashable, count: int) -> None:
        if count:
            self._counts.add({piece: count})

    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def counts(self) -> PieceCounts:
        return dict(self._counts.value)


class _Most:
    """Merges reports by the maximum for each piece."""

    def zero(self, _value: PieceCounts) -> PieceCounts:
        return {}

    def addInPlace(self, counts: PieceCounts, more: PieceCounts) -> PieceCounts:  # noqa: N802 - Spark's name
        for piece, count in more.items():
            counts[piece] = max(counts.get(piece, 0), count)
        return counts


class TaskWithProgress:
    """Does the work of a task and reports its progress; a plan shows it by the name of this class."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, batches: Iterator["RecordBatch"]) -> Iterator["RecordBatch"]:
        work = self._work(batches)
        sent, due = 0, monotonic() + SECONDS
        while True:
            try:
                units = next(work) // UNIT - sent
            except StopIteration as done:
                yield _row([pickle.dumps(done.value)], [None])
                return
            if units > 0 and monotonic() >= due:
                yield _row([None] * units, [_FLUSHING, *[None] * (units - 1)])
                sent, due = sent + units, monotonic() + SECONDS


def _row(found: list[bytes | None], beat: list[bytes | None]) -> "RecordBatch":
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array(found, pa.binary()), pa.array(beat, pa.binary())], [_FOUND, _BEAT])


def each_partition(frame: "DataFrame", work: Work) -> "DataFrame":
    """The work over each partition of the frame, as a frame; `results` runs it."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField(name, BinaryType()) for name in (_FOUND, _BEAT)])  # text would need a parser
    return frame.mapInArrow(TaskWithProgress(work), schema).select(_FOUND)


def results(rows: "DataFrame", tasks: int | None = None) -> list[Any]:
    """Run the tasks; what each of them came to. `tasks` is how many there are, where that is known.

    A Spark that is killed while it answers gives what it had sent, and no error: it has to be there still.
    """
    came = [row[_FOUND] for row in rows.collect()]
    found = [pickle.loads(each) for each in came if each is not None]  # noqa: S301 - of our own tasks
    rows.isLocal()  # raises if the JVM is gone
    if tasks is not None and len(found) < tasks:
        raise TaskFailedError(f"Spark gave the results of {len(found):,} tasks only, and {tasks:,} have run")
    return found


class LastProgress:
    """What was heard last of a batch, and of no other one: for moments in which Spark has no plan of it."""

    def __init__(self) -> None:
        self._batch, self._within = 0, Within()

    def of(self, batch: int, now: Within | None) -> Within:
        """What is heard of the batch now, or was before if that was more: a plan may have no counts yet."""
        if batch != self._batch:
            self._batch, self._within = batch, Within()
        if now is not None and now.share >= self._within.share:
            self._within = now
        return self._within


def task_progress(plans: Sequence[Sequence[RunningNode]], offsets: int, ended: int = 0) -> Within | None:
    """The progress of the tasks in a batch of `offsets` offsets, by what Spark has counted; None if it has nothing.

    What goes through a shuffle is read first and written then, and each counts for a part of the whole. Each task of
    the last stage that has `ended` gave one row with what it came to, which stands for nothing.
    """
    for nodes in reversed(plans):
        rows = {found[1]: node.counts.get(ROWS, 0) for node in nodes if (found := _FUNCTION.search(node.text))}
        done = max(rows.get(TaskWithProgress.__name__, 0) - ended, 0) * UNIT
        if "ReadRecords" in rows:
            read, written = rows["ReadRecords"], done
        elif "ReadSeveral" in rows:
            read, written = round(_begun(nodes) * offsets), done or rows["ReadSeveral"]
        elif TaskWithProgress.__name__ in rows:  # a task that reads and writes
            read, written = done, 0
        else:
            continue
        shares = [min(read / max(offsets, 1), 1.0), *_passed(nodes)]
        return Within(share=sum(shares) / len(shares), read=read, written=written)
    return None


def _begun(nodes: Sequence[RunningNode]) -> float:
    """The share of the slices that a task has begun, but for one that it is at."""
    for node in nodes:
        if pieces := _PIECES.search(node.text):
            return max(node.counts.get(ROWS, 0) - 1, 0) / max(int(pieces[1]), 1)
    return 0.0


def _passed(nodes: Sequence[RunningNode]) -> list[float]:
    """For each shuffle, the share of its rows that came out again."""
    shuffles = [node.counts for node in nodes if node.text.startswith("Exchange ")]
    return [min(counts.get(READ, 0) / max(counts.get(SHUFFLED, 0), 1), 1.0) for counts in shuffles]
