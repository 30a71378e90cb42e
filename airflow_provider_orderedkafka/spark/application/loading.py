"""Load a range: check the command line, run the attempt, print the outcome."""

from collections.abc import Callable
from pathlib import Path

from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.errors import FencedError, OrderedKafkaError, StateError
from airflow_provider_orderedkafka.spark.application import by_hand
from airflow_provider_orderedkafka.spark.application.attempt import Attempt, already_loaded
from airflow_provider_orderedkafka.spark.application.report import summary
from airflow_provider_orderedkafka.spark.lanes.arguments import Arguments
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames
from airflow_provider_orderedkafka.spark.lanes.writer import Writer
from airflow_provider_orderedkafka.spark.session.lazy import LazySession, check_location
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint, open_state
from airflow_provider_orderedkafka.spark.state.machine import SystemClock
from airflow_provider_orderedkafka.storage.store import State, join, local_path

MakeSink = Callable[[Arguments, RangeFrames], Writer]


class Loader:
    """Loads a range as the command line asks; starts Spark only if there is something to load."""

    def __init__(self, arguments: Arguments, make_sink: MakeSink) -> None:
        self._arguments = arguments
        self._make_sink = make_sink
        self._spark = LazySession(arguments.session)
        self._clock = SystemClock()

    def load(self) -> Report | None:
        """Load the range; None if there is nothing to load."""
        try:
            if self._arguments.range is None:
                return self._by_hand()
            return self._load(self._arguments.range, self._arguments.checkpoint)
        finally:
            self._spark.stop()

    def _by_hand(self) -> Report | None:
        base = self._arguments.checkpoint
        books = by_hand.books_of(self._state(base), self._clock.now, lambda folder: self._state(join(base, folder)))
        loaded, why = by_hand.next_range(books, self._arguments)
        print(why, flush=True)
        if loaded is None:
            return None
        found = self._load(loaded, join(base, loaded.id))
        by_hand.close(books, loaded)
        return found

    def _load(self, loaded: Range, location: str) -> Report:
        checkpoint = Checkpoint(self._state(location))
        found = already_loaded(checkpoint, loaded)
        if found is None:
            found = self._attempted(loaded, checkpoint)
        _tell(loaded, found, self._arguments.report)
        return found

    def _attempted(self, loaded: Range, checkpoint: Checkpoint) -> Report:
        self._spark.begin()
        print(f"range {loaded.id}: {loaded.offsets:,} offsets; Spark is starting", flush=True)
        checkpoint.take_up(loaded)
        attempt = Attempt(self._spark, checkpoint, self._arguments.attempt)
        try:
            return attempt.run(loaded, lambda: self._writer(loaded, checkpoint))
        except OrderedKafkaError as error:
            found = None if isinstance(error, FencedError) else checkpoint.report()
            if found is not None:
                _tell(loaded, found, self._arguments.report)
            raise

    def _writer(self, loaded: Range, checkpoint: Checkpoint) -> Writer:
        arguments = self._arguments
        source = arguments.source
        making = arguments.making(loaded)
        frames = RangeFrames(self._spark, loaded, source.kafka, source.slice_offsets, arguments.transform, making)
        writer = self._make_sink(arguments, frames)
        check_location(self._spark.started(), checkpoint.location)
        checkpoint.set_up(writer.setup)
        print(_first_line(loaded, checkpoint, writer), flush=True)
        if page := self._spark.started().sparkContext.uiWebUrl:
            print(f"Spark's page of it, while it runs: {page}", flush=True)
        return writer

    def _state(self, location: str) -> State:
        return open_state(location, None if local_path(location) is not None else self._spark.started())


def _tell(loaded: Range, found: Report, copy: str | None) -> None:
    """Print the report, and copy it to `--report`."""
    if copy is not None:
        try:
            Path(copy).write_text(found.to_text(), "utf-8")
        except OSError as error:
            raise StateError(f"--report {copy!r} cannot be written: {error.strerror}") from error
    print(summary(loaded, found), flush=True)


def _first_line(loaded: Range, checkpoint: Checkpoint, writer: Writer) -> str:
    before, setup = checkpoint.counts(), writer.setup
    done = 0 if before is None else before.end.offsets.since(loaded.start.offsets)
    state = "from its start" if before is None else f"on from batch {before.batch}, {done:,} offsets are done"
    limit = "" if loaded.rows_left is None else f", at most {loaded.rows_left:,} rows"
    return (
        f"range {loaded.id}: {loaded.offsets:,} offsets of {', '.join(sorted(loaded.topics))}{limit}, {state}; to "
        f"{setup.output} by the {'direct lane' if setup.lane == 'direct' else 'DataFrame lane'}: {setup.reason}"
    )
