"""Loading a range: what has to be there before an attempt can begin, and what is said when it ended."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.core.documents import Range, Report
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark.attempt import Attempt, Work
from airflow_provider_orderedkafka.spark.batches import Writer
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.command import Arguments
from airflow_provider_orderedkafka.spark.direct_source import DirectDataSource
from airflow_provider_orderedkafka.spark.frames import RangeFrames
from airflow_provider_orderedkafka.spark.limit import RowLimit, gives_at_most_one
from airflow_provider_orderedkafka.spark.ordering import check_no_shuffle
from airflow_provider_orderedkafka.spark.report import summary
from airflow_provider_orderedkafka.spark.session import check_session, start_session
from airflow_provider_orderedkafka.spark.source import OrderedKafkaDataSource
from airflow_provider_orderedkafka.spark.state import local_path, open_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeSink = Callable[[Arguments, RangeFrames, Setup | None], Writer]


def load_range(loaded: Range, location: str, arguments: Arguments, make_sink: MakeSink) -> Report:
    """Load the range, or say that it is loaded; Spark is only started where there is something to do."""
    if local_path(location) is not None:
        found = already_loaded(Checkpoint(open_state(location)), loaded)
        if found is not None:
            return told(loaded, found, arguments)
    session = start_session(f"orderedkafka {loaded.load} {loaded.id}")
    check_session(session)
    checkpoint = Checkpoint(open_state(location, session))
    found = already_loaded(checkpoint, loaded) or attempted(session, checkpoint, loaded, arguments, make_sink)
    return told(loaded, found, arguments)


def already_loaded(checkpoint: Checkpoint, loaded: Range) -> Report | None:
    """The complete report of this range, if there is one; what a killed cleaning left is deleted."""
    found = checkpoint.report()
    if found is None or not found.complete:
        return None
    if found.range_id != loaded.id:
        raise SettingError(
            f"the checkpoint {checkpoint.location!r} holds the report of range {found.range_id!r}, which is done; "
            f"found range {loaded.id!r}: name a new --checkpoint for it"
        )
    checkpoint.clean()
    print(f"nothing to do: range {loaded.id} is loaded already, by attempt {found.attempt}", flush=True)
    return found


def attempted(
    session: "SparkSession", checkpoint: Checkpoint, loaded: Range, arguments: Arguments, make_sink: MakeSink
) -> Report:
    """One attempt."""
    for source in (OrderedKafkaDataSource, DirectDataSource):
        session.dataSource.register(source)
    frames = RangeFrames(session, loaded, arguments.options, arguments.transform)
    writer = make_sink(arguments, frames, checkpoint.setup())
    checkpoint.take_up(loaded)
    checkpoint.set_up(writer.setup)
    if loaded.rows_left is not None:
        check_no_shuffle(writer.frames.rows())
    limit = RowLimit(writer.frames, gives_at_most_one(writer.frames.rows()))
    work = Work(loaded, writer, limit)
    try:
        return Attempt(session, checkpoint, arguments.attempt).run(work)
    finally:
        session.stop()


def told(loaded: Range, found: Report, arguments: Arguments) -> Report:
    """Print the report, and copy it where it was asked for."""
    if arguments.report is not None:
        Path(arguments.report).write_text(found.to_text(), "utf-8")
    print(summary(loaded, found), flush=True)
    return found


def load(arguments: Arguments, make_sink: MakeSink) -> Report:
    """Load what was asked for."""
    if arguments.range is None:
        raise SettingError("--range is missing: name a range document, as JSON or as a file")
    return load_range(arguments.range, arguments.checkpoint, arguments, make_sink)
