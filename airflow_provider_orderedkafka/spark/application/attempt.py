"""An attempt to load a range, from the lease to the report; and the loader, which runs it as the command line asks."""

import logging
import secrets
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...compat.spark import tasks_running, volatile
from ...core.batches import STOP_SECONDS, Counts, Holding, Planned, Setup
from ...core.documents import Destination, Ends, Range, Report
from ...core.next_range import rows_left
from ...core.notation.spelling import counted
from ...core.progress import Within
from ...errors import FencedError, OrderedKafkaError, SettingError, StateError
from ...job import Job
from ...kafka.clients.pools import ReadSettings
from ...kafka.lookup.survey import Brokers
from ...storage import State, join, local_path
from ..lanes.engine import Engine
from ..lanes.frames import RangeFrames
from ..lanes.limit import RowLimit
from ..lanes.making import Arguments
from ..session.failures import classify_failure
from ..session.starting import LazySession, check_classic, check_executors, check_location, in_background
from ..state.checkpoint import Checkpoint, open_state
from ..state.lease import LEASE, Heartbeat, Lease, Outside, SystemClock, SystemProcesses
from . import by_hand
from .batch_loop import BatchLoop, Plan, Work, Writer
from .query import Query
from .report import ProgressPrinter, ends_before, report, summary, watching

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2


class Attempt:
    """One attempt on one checkpoint. `run` once; its report is beside the checkpoint however it ends.

    `job` is what is done with the range: its tasks import what its rows need, and the report names it.
    """

    def __init__(self, spark: LazySession, checkpoint: Checkpoint, number: int | None, job: Job) -> None:
        self._spark = spark
        self._job = job
        self._checkpoint = checkpoint
        self._clock = SystemClock()
        outside = Outside(checkpoint.state, self._clock, SystemProcesses(), secrets.token_hex(4))
        self._lease = Lease(outside, number)
        self._heartbeat = Heartbeat(self._lease, self._cancel)
        self._loop: BatchLoop | None = None
        self._query: Query | None = None
        self._running: Future[None] | None = None
        self._unprotected: str | None = None
        self._destination: Destination | None = None
        self._after: Ends | None = None

    def run(self, loaded: Range, prepare: Callable[[], Writer]) -> Report:
        """Load the range; raise the error that ended it, after the report was written.

        `prepare` checks source and output once the lease is held; its errors are reported, too.
        """
        self._lease.acquire(_print_waiting)
        self._checkpoint.hold(self._lease.term)
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
        if error is not None and self._loop is not None:
            _left_word(self._loop)
        if error is not None and (lost := self._checkpoint.loss()) is not None:
            raise lost  # nothing is written there any more: what lost its notes must not look like a checkpoint
        if error is None and (done := already_loaded(self._checkpoint, loaded)) is not None:
            return done  # by one that took over while this one stood still
        counts = self._checkpoint.counts() if self._loop is None else self._loop.counts  # of those who may tidy up, too
        found = replace(
            report(loaded, counts, self._lease.attempt, started, self._clock.now(), error=error),
            unprotected=self._unprotected,
            destination=self._destination,
            job=self._job.key,
            counting_ms=0 if self._loop is None else round(self._loop.counting * 1_000),
        )
        if error is None and counts is not None:
            found = replace(found, before=ends_before(self._checkpoint.note, counts.batch), after=self._after)
        if not isinstance(error, FencedError):
            found = self._checkpoint.put_report(found)
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
        self._executors = in_background(lambda: check_executors(self._spark.started(), self._job.rows.needed))
        self._printer = ProgressPrinter(loaded, self._lease.attempt)
        try:
            with watching(self._look):
                self._load(loaded, prepare())
        except Exception as raised:  # noqa: BLE001 - the report says what it was, and it is raised again
            return self._error() or _behind(raised, self._executors)
        finally:
            self._printer.close()
            self._stop()
        return self._error() or _unfinished(loaded, None if self._loop is None else self._loop.counts)

    def _error(self) -> OrderedKafkaError | None:
        return (self._loop and self._loop.error) or self._heartbeat.lost

    def _load(self, loaded: Range, writer: Writer) -> None:
        """Load batches until the row limit, the range's end or the loss of the lease.

        In a separate thread: a thread that is interrupted during a call to the JVM cannot call it again, and the main
        thread has to stop the query on SIGTERM.
        """
        destination = writer.destination
        self._unprotected, self._destination = writer.output.unprotected, destination
        plan, limit = Plan(writer.frames, self._checkpoint), RowLimit.of(writer.frames)
        self._query = query = Query(writer.frames, self._checkpoint)
        work = Work(loaded, self._checkpoint, self._lease, plan, writer, limit, writer.frames.making.max_bad)
        self._loop = loop = BatchLoop(work, self)
        print(_first_line(loaded, loop.counts, writer.setup, destination.output), flush=True)
        self._running = in_background(lambda: loop.run(query.run))
        self._running.result()
        if loop.error is None:
            self._after = _ends(writer)

    def ready(self) -> None:
        """Wait for the executors; from here on the speed is counted."""
        self._executors.result()
        self._printer.begin(self._clock.now(), None if self._loop is None else self._loop.counts)

    def spent(self) -> int | None:
        with suppress(Exception):  # no load fails because of a number
            driver = self._spark.spent()
            return None if driver is None or self._query is None else (driver + self._query.spent()) // 1_000_000
        return None

    def tell(self, counts: Counts, planned: Planned) -> None:
        self._printer.tell(counts, planned, self._clock.now())

    def _look(self) -> None:
        loading = None if self._loop is None else self._loop.loading
        self._printer.look(loading or self._doing(), self._within, self._clock.now())

    def _within(self, planned: Planned) -> Within | None:
        if self._query is None or self._loop is None:
            return None
        return self._query.within(planned, written=self._loop.writing)

    def _doing(self) -> str:
        if self._spark.there() is None:
            return "Spark is starting"
        if self._loop is None:
            return "looking at the output topics" if self._job.kafka else "opening the table and planning the rows"
        return "planning the next batches" if self._executors.done() else "waiting for an executor"

    def _stop(self) -> None:
        if self._running is not None and not self._running.done():
            self._cancel()
            wait([self._running], STOP_SECONDS)
        with suppress(Exception):  # the JVM is gone, or about to be
            self.wait_for_tasks()

    def _cancel(self) -> None:
        """Called when the lease is lost or the attempt is terminated."""
        if self._loop is not None and self._query is not None:
            self._loop.stop()
            self._query.stop(STOP_SECONDS)

    def wait_for_tasks(self) -> None:
        session, deadline = self._spark.there(), self._clock.monotonic() + STOP_SECONDS
        while session is not None and tasks_running(session) and self._clock.monotonic() < deadline:
            self._clock.sleep(LOOK_SECONDS / 4)

    def _let_go(self) -> None:
        with suppress(OrderedKafkaError):  # found out by the next attempt in any case
            self._lease.let_go()


def _left_word(loop: BatchLoop) -> None:
    try:
        loop.leave_word()
    except OrderedKafkaError as error:  # that which ended the attempt says more
        _log.warning("rows of batch %s may be doubled, and this could not be stored: %s", loop.unsure, error)


def already_loaded(checkpoint: Checkpoint, loaded: Range) -> Report | None:
    """The complete report of this range, if there is one; finishes an interrupted cleanup."""
    found = checkpoint.proof(loaded)
    if found is not None:
        checkpoint.clean()
        print(f"nothing to do: range {loaded.id} is loaded already, by attempt {found.attempt}", flush=True)
    return found


def _ends(writer: Writer) -> Ends | None:
    """Where the output ends now; a report without it proves a little less, and the range is loaded all the same."""
    try:
        return writer.output.ends()
    except Exception as error:  # noqa: BLE001 - of Kafka, of Spark or of a catalog
        _log.warning("the end of the output could not be read, so the report lacks it: %s", error)
        return None


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


def _print_waiting(holding: Holding) -> None:
    print(
        f"waiting for attempt {holding.attempt} (process {holding.process} on {holding.machine}) to end: at most "
        f"{LEASE:.0f} s after its last heartbeat",
        flush=True,
    )


MakeSink = Callable[[Arguments, RangeFrames], Writer]


class Loader:
    """Loads a range as the command line asks; starts Spark only if there is something to load."""

    def __init__(self, arguments: Arguments, make_sink: MakeSink) -> None:
        self._arguments = arguments
        self._make_sink = make_sink
        self._spark = LazySession(arguments.session)
        self._clock = SystemClock()

    def load(self) -> Report | None:
        check_classic()
        try:
            if self._arguments.range is None:
                return self._by_hand()
            return self._load(self._arguments.range, self._arguments.checkpoint)
        finally:
            self._spark.stop()

    def _by_hand(self) -> Report | None:
        base = self._arguments.checkpoint
        books = by_hand.books_of(self._state(base), self._clock.now, lambda folder: self._state(join(base, folder)))
        loaded, why = by_hand.next_range(books, self._arguments, Brokers(self._arguments.source.kafka))
        print(why, flush=True)
        if loaded is None:
            return None
        found = self._load(loaded, join(base, loaded.id))
        source = self._arguments.source
        by_hand.close(books, loaded, by_hand.Alone(source.kafka, source.commit_group))
        return found

    def _load(self, loaded: Range, location: str) -> Report:
        checkpoint = Checkpoint(self._state(location))
        found = already_loaded(checkpoint, loaded)
        if found is None:
            found = self._attempted(loaded, checkpoint)
        _print_report(loaded, found, self._arguments.report)
        return found

    def _attempted(self, loaded: Range, checkpoint: Checkpoint) -> Report:
        self._spark.begin()
        print(f"range {loaded.id}: {counted(loaded.offsets, 'offset')}; Spark is starting", flush=True)
        checkpoint.take_up(loaded, self._arguments.attempt)
        attempt = Attempt(self._spark, checkpoint, self._arguments.attempt, self._arguments.job)
        try:
            return attempt.run(loaded, lambda: self._writer(loaded, checkpoint))
        except OrderedKafkaError as error:
            found = None if isinstance(error, FencedError) else checkpoint.report()
            if found is not None:
                _print_report(loaded, found, self._arguments.report)
            raise

    def _writer(self, loaded: Range, checkpoint: Checkpoint) -> Writer:
        arguments = replace(self._arguments, checkpoint=checkpoint.location)  # by hand, a range has one of its own
        source = arguments.source
        making = arguments.making(loaded)
        kafka, read = Brokers(source.kafka), ReadSettings.of_range(source.kafka, loaded)
        engine = Engine(self._spark)
        frames = RangeFrames(engine, loaded, kafka, read, source.slice_offsets, arguments.transform, making)
        writer = self._make_sink(arguments, frames)
        check_location(self._spark.started(), checkpoint.location)
        checkpoint.set_up(writer.setup, arguments.job)
        if arguments.transform is not None and (found := sorted(volatile(writer.frames.rows))):
            print(
                f"warning: the transform uses {', '.join(found)}, which gives other values in another attempt: rows "
                "that are written again differ, and a filter by such a value may lose rows or write them twice. Take "
                "such values from the record, such as its timestamp",
                flush=True,
            )
        if page := self._spark.started().sparkContext.uiWebUrl:
            print(f"Spark's page for this load, while it runs: {page}", flush=True)
        return writer

    def _state(self, location: str) -> State:
        return open_state(location, None if local_path(location) is not None else self._spark.started())


def _print_report(loaded: Range, found: Report, copy: str | None) -> None:
    if copy is not None:
        try:
            Path(copy).write_text(found.to_text(), "utf-8")
        except OSError as error:
            raise StateError(f"--report {copy!r} cannot be written: {error.strerror}") from error
    print(summary(loaded, found), flush=True)


def _first_line(loaded: Range, before: Counts | None, setup: Setup, output: str) -> str:
    done = 0 if before is None else before.end.offsets.since(loaded.start.offsets)
    state = "from its start"
    if before is not None and done:
        state = f"continued after batch {before.batch}, {counted(done, 'offset')} done"
    limit = "" if loaded.rows_left is None else f", at most {counted(loaded.rows_left, 'row')}"
    spans = f"{counted(loaded.offsets, 'offset')} of {', '.join(sorted(loaded.topics))}"
    return (
        f"range {loaded.id}: {spans}{limit}, {state}; "
        f"to {output} by the {'direct lane' if setup.lane == 'direct' else 'DataFrame lane'}: {setup.reason}"
    )
