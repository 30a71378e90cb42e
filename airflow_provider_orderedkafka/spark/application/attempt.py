"""An attempt to load a range: from the lease to the report."""

import logging
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

from airflow_provider_orderedkafka.compat.spark import tasks_running
from airflow_provider_orderedkafka.core.batches import Counts, Holding
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.core.limits import rows_left
from airflow_provider_orderedkafka.core.plan import Planned
from airflow_provider_orderedkafka.core.progress import Tasks
from airflow_provider_orderedkafka.errors import (
    FencedError,
    OrderedKafkaError,
    SettingError,
    StateError,
)
from airflow_provider_orderedkafka.spark.application.batches import BatchLoop, Work
from airflow_provider_orderedkafka.spark.application.plan import Plan
from airflow_provider_orderedkafka.spark.application.progress import ProgressPrinter, Watch
from airflow_provider_orderedkafka.spark.application.query import Query
from airflow_provider_orderedkafka.spark.application.report import Ending, report
from airflow_provider_orderedkafka.spark.lanes.limit import RowLimit
from airflow_provider_orderedkafka.spark.lanes.writer import Writer
from airflow_provider_orderedkafka.spark.session.executors import check_executors
from airflow_provider_orderedkafka.spark.session.failures import classify_failure
from airflow_provider_orderedkafka.spark.session.lazy import LazySession, in_background
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.state.lease import LEASE, Heartbeat, Lease, Outside
from airflow_provider_orderedkafka.spark.state.machine import SystemClock, SystemProcesses

LOOK_SECONDS = 0.2
QUIET_SECONDS = 30.0

_log = logging.getLogger(__name__)


class Attempt:
    """One attempt on one checkpoint. `run` once; its report is beside the checkpoint however it ends.

    `needed` names what its tasks import beyond what every load needs.
    """

    def __init__(
        self, spark: LazySession, checkpoint: Checkpoint, number: int | None, needed: Sequence[str] = ()
    ) -> None:
        self._spark = spark
        self._needed = needed
        self._checkpoint = checkpoint
        self._clock = SystemClock()
        outside = Outside(checkpoint.state, self._clock, SystemProcesses(), secrets.token_hex(4))
        self._lease = Lease(outside, number)
        self._heartbeat = Heartbeat(self._lease, self._cancel)
        self._loop: BatchLoop | None = None
        self._query: Query | None = None
        self._running: Future[None] | None = None
        self._unprotected: str | None = None

    def run(self, loaded: Range, prepare: Callable[[], Writer]) -> Report:
        """Load the range; raise the error that ended it, after the report was written.

        `prepare` checks source and output once the lease is held; its errors are reported, too.
        """
        self._lease.acquire(_tell_waiting)
        done = already_loaded(self._checkpoint, loaded)  # by the attempt that was waited for
        if done is not None:
            return done
        started = self._clock.now()
        self._heartbeat.start()
        try:
            error = self._loaded(loaded, prepare)
        except BaseException:  # told to end: the next attempt need not wait
            self._heartbeat.stop()
            self._let_go()
            raise
        self._heartbeat.stop()
        error = error or self._heartbeat.lost or self._lost()
        if error is not None and (lost := self._checkpoint.loss()) is not None:
            raise lost  # nothing is written there any more: what lost its notes must not look like a checkpoint
        ending = Ending(self._lease.attempt, started, self._clock.now(), error, self._unprotected)
        found = report(loaded, self._checkpoint.counts(), ending)
        if not isinstance(error, FencedError):
            self._checkpoint.put_report(found)
        if error is None:
            self._checkpoint.clean()
            return found
        self._let_go()
        raise error

    def _lost(self) -> OrderedKafkaError | None:
        """Why this attempt must not report success: a newer one may have taken over while this one was stuck."""
        try:
            self._lease.check()
        except (FencedError, StateError) as error:
            return error
        return None

    def _loaded(self, loaded: Range, prepare: Callable[[], Writer]) -> OrderedKafkaError | None:
        """Load the range's batches to its end; the error that ended it, if one did."""
        self._executors = in_background(lambda: check_executors(self._spark.started(), self._needed))
        self._printer = ProgressPrinter(loaded, self._lease.attempt, self._checkpoint.counts())
        try:
            with Watch(self._look):
                self._load(loaded, prepare())
        except Exception as raised:  # noqa: BLE001 - the report says what it was, and it is raised again
            return self._error() or _behind(raised, self._executors)
        finally:
            self._printer.close()
            self._stop()
        return self._error() or _unfinished(loaded, self._checkpoint.counts())

    def _error(self) -> OrderedKafkaError | None:
        return (self._loop and self._loop.error) or self._heartbeat.lost

    def _load(self, loaded: Range, writer: Writer) -> None:
        """Load batches until the row limit, the range's end or the loss of the lease.

        In a separate thread: a thread that is interrupted during a call to the JVM cannot call it again, and the main
        thread has to stop the query on SIGTERM.
        """
        self._unprotected = writer.output.unprotected
        plan, limit = Plan(writer.frames, self._checkpoint), RowLimit.of(writer.frames)
        self._query = query = Query(writer.frames, self._checkpoint)
        work = Work(loaded, self._checkpoint, self._lease, plan, writer, limit, writer.frames.making.max_bad)
        self._loop = loop = BatchLoop(work, self)
        self._running = in_background(lambda: loop.run(query.run))
        self._running.result()

    def ready(self) -> None:
        """Wait for the executors; from here on the speed is counted."""
        self._executors.result()
        self._printer.begin(self._clock.now())

    def before_a_retry(self) -> None:
        """Wait until no task of the failed batch runs any more."""
        self._wait_for_tasks()

    def tell(self, counts: Counts, planned: Planned) -> None:
        """Print and store the progress."""
        self._printer.tell(counts, planned, self._clock.now())

    def _look(self) -> None:
        """Say what is waited for or loaded, if nothing was said for a while."""
        loading = None if self._loop is None else self._loop.loading
        self._printer.look(loading or self._doing(), self._tasks, self._clock.now())

    def _tasks(self) -> Tasks | None:
        return None if self._query is None else self._query.tasks()

    def _doing(self) -> str:
        if self._spark.there() is None:
            return "Spark is starting"
        if self._loop is None:
            return "asking Kafka about the output"
        return "planning the next batches" if self._executors.done() else "waiting for an executor"

    def _stop(self) -> None:
        if self._running is not None and not self._running.done():
            self._cancel()
            wait([self._running], QUIET_SECONDS)
        with suppress(Exception):  # the JVM is gone, or about to be
            self._wait_for_tasks()

    def _cancel(self) -> None:
        """Called when the lease is lost or the attempt is terminated."""
        if self._loop is not None and self._query is not None:
            self._loop.stop()
            self._query.stop(QUIET_SECONDS)

    def _wait_for_tasks(self) -> None:
        session, deadline = self._spark.there(), self._clock.monotonic() + QUIET_SECONDS
        while session is not None and tasks_running(session) and self._clock.monotonic() < deadline:
            self._clock.sleep(LOOK_SECONDS / 4)

    def _let_go(self) -> None:
        with suppress(OrderedKafkaError):  # found out by the next attempt in any case
            self._lease.let_go()


def already_loaded(checkpoint: Checkpoint, loaded: Range) -> Report | None:
    """The complete report of this range, if there is one; finishes an interrupted cleanup."""
    found = checkpoint.proof(loaded)
    if found is not None:
        checkpoint.clean()
        print(f"nothing to do: range {loaded.id} is loaded already, by attempt {found.attempt}", flush=True)
    return found


def _behind(raised: Exception, executors: Future[None]) -> OrderedKafkaError:
    """The cause of an exception: if Python lacks a package, Spark's own errors do not say so."""
    found = classify_failure(raised)
    if isinstance(raised, OrderedKafkaError) or isinstance(found, SettingError):
        return found
    return next((error for error in (executors.exception(),) if isinstance(error, SettingError)), found)


def _unfinished(loaded: Range, counts: Counts | None) -> OrderedKafkaError | None:
    """The error for batches that succeeded without reaching the range's end."""
    rows, reached = (0, loaded.start) if counts is None else (counts.total.rows, counts.end)
    if rows_left(loaded.rows_left, rows) == 0 or reached.offsets == loaded.end.offsets:
        return None
    return OrderedKafkaError(
        f"the batches ended before the range's end: {loaded.end.offsets.since(reached.offsets):,} offsets "
        f"are left; run the same range again, and please report it"
    )


def _tell_waiting(holding: Holding) -> None:
    print(
        f"waiting for attempt {holding.attempt} (process {holding.process} on {holding.machine}) to end: at most "
        f"{LEASE:.0f} s after its last heartbeat",
        flush=True,
    )
