"""The streaming query of a load: available now, over the documents of a plan.

It streams a folder with one file for each planned batch, one file a micro-batch, and `foreachBatch` loads the batch in
its file. So Spark's page of streaming queries and its listeners follow a load like any other query. Its checkpoint is
new for each window of each attempt, because notes and counts alone say what is done. It is on the driver's disk, where
Spark's many small files and renames are cheap.

Available-now lists its files once, so each window of the plan has a query. Spark takes files by the time of their last
change: that is set where the store lets us; what comes early all the same waits in the loop.
"""

import re
import secrets
import tempfile
from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from ...compat.spark import be_interrupted, running_plans, time_of_tasks
from ...core.batches import Planned
from ...core.progress import Within
from ...storage import local_path
from ..lanes.frames import RangeFrames
from ..session.counting import LastProgress, task_progress
from ..session.starting import LOCAL, in_background
from ..state.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from .batch_loop import BatchLoop

METRICS: Final = "orderedkafka"
"""The name under which a query's progress has its batch, how many offsets that spans, and how many are left."""

LOOK_SECONDS: Final = 0.1


class Query:
    """Spark's query over a range, window after window; `run` in one thread, `stop` in any other."""

    def __init__(self, frames: RangeFrames, checkpoint: Checkpoint) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._token = secrets.token_hex(4)
        self._tag = f"orderedkafka-{self._token}"
        self._name = f"orderedkafka: range {frames.loaded.id}"
        self._lock = Lock()
        self._running: StreamingQuery | None = None
        self._last = LastProgress()
        self._job, self._spent = -1, 0

    def run(self, window: Sequence[Planned], loop: "BatchLoop") -> None:
        """Pass each batch of the window to the loop; return when Spark's query or the loop has ended."""
        folder = f"{self._token}/{window[0].batch:08d}"
        self._checkpoint.put_plan(folder, window)
        with tempfile.TemporaryDirectory(prefix="orderedkafka-query-", ignore_cleanup_errors=True) as own:
            query = self._begun(folder, own, window, loop)
            if query is not None:
                while not loop.over and not query.awaitTermination(LOOK_SECONDS):
                    pass
                query.stop()  # Spark's thread has left the folder then: a query counts as ended once it is told to end
                self._running = None
        self._checkpoint.forget_plan(folder)

    def stop(self, seconds: float) -> None:
        """Stop the query and cancel its tasks, and wait up to `seconds` for that."""
        with self._lock:
            query = self._running
        if query is None:
            return
        stopping, deadline = in_background(query.stop), monotonic() + seconds
        while not stopping.done() and monotonic() < deadline:
            with suppress(Exception):  # the JVM may be gone
                self._frames.engine.session.sparkContext.cancelJobsWithTag(self._tag)
            wait([stopping], LOOK_SECONDS)

    def within(self, planned: Planned, *, written: bool) -> Within | None:
        """How far Spark is with a batch; None if it does nothing. While it is not `written`, only its tasks change."""
        query = self._running
        if query is None:
            return None
        session = self._frames.engine.session
        tracker = session.sparkContext.statusTracker()
        active = set(tracker.getActiveJobsIds())
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId)) if job in active]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        known = [stage for stage in stages if stage is not None]
        tasks = (sum(s.numTasks for s in known), sum(s.numCompletedTasks for s in known)) if known else (None, None)
        ended = max(known, key=lambda stage: stage.stageId).numCompletedTasks if known else 0
        now = task_progress(running_plans(session), planned.offsets, ended) if written else None
        return replace(self._last.of(planned.batch, now), tasks=tasks[0], tasks_done=tasks[1])

    def spent(self) -> int:
        """Nanoseconds of processor time that other JVMs than the driver's have taken for its tasks so far."""
        session, query = self._frames.engine.session, self._running
        if query is not None and not LOCAL.fullmatch(session.sparkContext.master):
            known = session.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId))
            new = [job for job in known if job > self._job]
            self._spent += time_of_tasks(session, new)
            self._job = max(new, default=self._job)
        return self._spent

    def _begun(self, folder: str, own: str, window: Sequence[Planned], loop: "BatchLoop") -> "StreamingQuery | None":
        """The started query; None if the loop is over."""
        session = self._frames.engine.session  # outside of the lock: a cluster may take minutes for it
        with self._lock:
            self._running = None if loop.over else self._start(session, folder, own, window, loop)
            return self._running

    def _start(
        self, session: "SparkSession", folder: str, own: str, window: Sequence[Planned], loop: "BatchLoop"
    ) -> "StreamingQuery":
        place, in_order = self._checkpoint.plan(folder), iter(window)
        readable = self._tasks_can_read(session.sparkContext.master)

        def load(documents: "DataFrame", _number: int) -> None:
            found = [Planned.from_text(row.value) for row in documents.collect()] if readable else [next(in_order)]
            for planned in found:
                self._name_jobs(session, planned)
                loop.take(planned)
            while loop.over:  # until it is stopped: Spark must not report a batch that is not loaded
                if self._running is not None and not self._running.isActive:
                    be_interrupted()  # by Spark it was, once, and a batch may have taken that for its own
                sleep(LOOK_SECONDS)

        writer = _documents(session, place).writeStream.foreachBatch(load).queryName(self._name)
        return writer.trigger(availableNow=True).start(checkpointLocation=_for_spark(own))

    def _name_jobs(self, session: "SparkSession", planned: Planned) -> None:
        """Describe the jobs of this thread; their group is the query's own."""
        session.sparkContext.addJobTag(self._tag)
        session.sparkContext.setJobDescription(f"{self._name}, batch {planned.batch} of {planned.batches}")

    def _tasks_can_read(self, master: str) -> bool:
        """Whether tasks may run where the plan's files are: not on a cluster, where they are on the driver's disk."""
        return local_path(self._checkpoint.location) is None or master.startswith("local")


def _documents(session: "SparkSession", folder: str) -> "DataFrame":
    """The planned batches in a folder as a stream, with observed metrics of each batch."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    files = session.readStream.format("text").schema(StructType().add("value", StringType()))
    documents = files.options(wholetext=True, maxFilesPerTrigger=1).load(_literal(_for_spark(folder)))
    fields = {"batch": "batch", "offsets": "planned_offsets", "left": "offsets_left"}
    numbers = {name: f.get_json_object("value", f"$.{field}").cast("long") for field, name in fields.items()}
    return documents.observe(METRICS, *(f.max(number).alias(name) for name, number in numbers.items()))


def _for_spark(location: str) -> str:
    """The location as a URI: Spark's default file system may not be the local disk."""
    path = local_path(location)
    return location if path is None else f"file:{path.absolute()}"


def _literal(location: str) -> str:
    """The location with the characters of patterns escaped."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", location)
