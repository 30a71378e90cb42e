"""One attempt to load a range: from the lease to the report."""

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.batches import Counts, Holding
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.errors import FencedError, OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.spark.batches import BatchLoop, Limit, Parts, Writer
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.failures import understood
from airflow_provider_orderedkafka.spark.lease import LEASE, Heart, Lease, Outside
from airflow_provider_orderedkafka.spark.machine import SystemClock, SystemProcesses
from airflow_provider_orderedkafka.spark.places import OffsetLog
from airflow_provider_orderedkafka.spark.progress import Teller
from airflow_provider_orderedkafka.spark.report import Ending, report
from airflow_provider_orderedkafka.spark.session import check_executors, tasks_running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 0.2
QUIET_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """Who writes the range, and how far the row limit lets it go."""

    writer: Writer
    limit: Limit


class Attempt:
    """One attempt on one checkpoint. `run` once; its report is beside the checkpoint however it ends."""

    def __init__(self, session: "SparkSession", checkpoint: Checkpoint, number: int | None) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._clock = SystemClock()
        outside = Outside(checkpoint.state, self._clock, SystemProcesses(), secrets.token_hex(4))
        self._lease = Lease(outside, number)
        self._heart = Heart(self._lease, self._cancel)
        self._query: StreamingQuery | None = None
        self._unprotected: str | None = None

    def run(self, loaded: Range, prepare: Callable[[], Work]) -> Report:
        """Load the range; raise what went wrong when the report says so already.

        `prepare` looks at source and output: it runs once the lease is held, and what it raises is reported too.
        """
        self._lease.acquire(_tell_waiting)
        started = self._clock.now()
        self._heart.start()
        try:
            error = self._loaded(loaded, prepare)
        except BaseException:  # told to end: the next attempt need not wait
            self._heart.stop()
            self._let_go()
            raise
        self._heart.stop()
        error = error or self._heart.lost
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

    def _loaded(self, loaded: Range, prepare: Callable[[], Work]) -> OrderedKafkaError | None:
        """Run the query to its end; the error that ended it, if one did."""
        loop: BatchLoop | None = None
        with ThreadPoolExecutor(1, "orderedkafka-check") as pool:
            executors = pool.submit(check_executors, self._session)
            try:
                work = prepare()
                self._checkpoint.forget_unnoted()
                self._unprotected = work.writer.unprotected
                loop = self._loop(loaded, work, executors.result)
                if loaded.offsets and not loop.done:
                    self._follow(work.writer.stream(), loop)
            except Exception as raised:  # noqa: BLE001 - the report says what it was, and it is raised again
                return (loop and loop.error) or self._heart.lost or _behind(raised, executors)
            finally:
                self._stop()
        return loop.error or _unfinished(loaded, loop.counts)

    def _loop(self, loaded: Range, work: Work, ready: Callable[[], None]) -> BatchLoop:
        teller = Teller(loaded, self._lease.attempt, self._clock.now(), self._checkpoint.counts())
        return BatchLoop(
            Parts(
                loaded=loaded,
                checkpoint=self._checkpoint,
                lease=self._lease,
                writer=work.writer,
                limit=work.limit,
                places=OffsetLog(self._checkpoint.state).batch,
                ready=ready,
                between_tries=self._wait_for_tasks,
                tell=lambda counts: teller.tell(counts, self._clock.now()),
            )
        )

    def _follow(self, frame: "DataFrame", loop: BatchLoop) -> None:
        """Start the query and wait for its end; stop it when no row may follow, or the lease is lost."""
        stream = frame.writeStream.foreachBatch(loop).option("checkpointLocation", self._checkpoint.spark)
        self._query = stream.trigger(availableNow=True).start()
        while not self._query.awaitTermination(LOOK_SECONDS):
            if loop.done or self._heart.lost:
                return

    def _stop(self) -> None:
        """Stop the query and wait until none of its tasks runs."""
        if self._query is None:
            return
        with suppress(Exception):  # a query that failed, or whose JVM is gone, is stopped
            self._query.stop()
            self._wait_for_tasks()

    def _cancel(self) -> None:
        """Cancel what the query runs: the lease is lost."""
        query = self._query
        if query is not None:
            with suppress(Exception):
                self._session.sparkContext.cancelJobGroup(str(query.runId))

    def _wait_for_tasks(self) -> None:
        deadline = self._clock.monotonic() + QUIET_SECONDS
        while tasks_running(self._session) and self._clock.monotonic() < deadline:
            self._clock.sleep(LOOK_SECONDS / 4)

    def _let_go(self) -> None:
        with suppress(OrderedKafkaError):  # found out by the next attempt in any case
            self._lease.let_go()


def _behind(raised: Exception, executors: "Future[None]") -> OrderedKafkaError:
    """What an exception comes from: where Python lacks a package, Spark fails in ways that do not say so."""
    found = understood(raised)
    if isinstance(found, SettingError):
        return found
    return next((error for error in (executors.exception(),) if isinstance(error, SettingError)), found)


def _unfinished(loaded: Range, counts: Counts | None) -> OrderedKafkaError | None:
    """A query that ended well must have come to the end: nothing is called complete that is not."""
    if counts is not None and counts.limit_spent:
        return None
    reached = loaded.start if counts is None else counts.end
    if loaded.rows_left == 0 or reached.offsets == loaded.end.offsets:
        return None
    return OrderedKafkaError(
        f"Spark ended the query before the range's end: {loaded.end.offsets.since(reached.offsets):,} offsets "
        f"are left; run the same range again, and please report it"
    )


def _tell_waiting(holding: Holding) -> None:
    print(
        f"waiting for attempt {holding.attempt} (process {holding.process} on {holding.machine}) to end: at most "
        f"{LEASE:.0f} s after its last heartbeat",
        flush=True,
    )
