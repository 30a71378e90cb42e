"""The Spark sink `orderedkafka`: `df.write` and `df.writeStream`, by one code path.

    batch_writer(options, schema, overwrite) -> OrderedKafkaWriter
    stream_writer(options, schema, overwrite) -> OrderedKafkaStreamWriter

A task's rows reach Kafka at least once, in order, with their timestamps. Options, columns and output topics are checked
when Spark plans. If Spark runs a task again, its rows are written again; only `run_available_now` skips them.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from airflow_provider_orderedkafka.errors import UnreachableError
from airflow_provider_orderedkafka.kafka.write.write_settings import WriteSettings, Written
from airflow_provider_orderedkafka.spark.connector.sink_options import parse_sink_options

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_QUERY = "sql.streaming.queryId"

_log = logging.getLogger(__name__)


@dataclass
class TaskWritten(WriterCommitMessage):
    """The numbers of what a task wrote."""

    written: Written = field(default_factory=Written)


def batch_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "OrderedKafkaWriter":
    """For `DataSource.writer`; raises here, before anything runs, if it cannot work."""
    from airflow_provider_orderedkafka.kafka.write.writing import plan_write

    columns = _columns(schema)
    settings = _named(parse_sink_options(options, columns, overwrite=overwrite), f"write-{uuid.uuid4().hex}")
    return OrderedKafkaWriter(plan_write(settings, columns))


def stream_writer(
    options: Mapping[str, str],
    schema: "StructType",
    overwrite: bool,
) -> "OrderedKafkaStreamWriter":
    """For `DataSource.streamWriter`.

    Spark makes one for each micro-batch, and another one to commit it. If Kafka cannot be reached here, the tasks check
    the topics instead, so that a short outage does not fail a batch that is already written.
    """
    from airflow_provider_orderedkafka.kafka.write.writing import plan_write

    columns = _columns(schema)
    settings = parse_sink_options(options, columns, overwrite=overwrite)
    try:
        return OrderedKafkaStreamWriter(plan_write(settings, columns))
    except UnreachableError:
        return OrderedKafkaStreamWriter(settings)


class OrderedKafkaWriter(DataSourceArrowWriter):
    """Writes a DataFrame to Kafka."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskWritten:
        """Write a task's rows; return when Kafka has acknowledged them all."""
        return _write(iterator, self._settings)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written."""
        _log.info("wrote %s", _total(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what a failed write left in the output."""
        _log.warning("the write failed; tasks that had ended wrote %s, and a rerun writes it again", _total(messages))


class OrderedKafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, whose ID takes the place of a range's."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskWritten:
        """Write a task's rows of a micro-batch; return when Kafka has acknowledged them all."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        return _write(iterator, _named(self._settings, query or "stream"))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was written."""
        _log.info("batch %d: wrote %s", batchId, _total(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what a failed batch left in the output."""
        _log.warning("batch %d failed; tasks that had ended wrote %s", batchId, _total(messages))


def _write(iterator: Iterator["RecordBatch"], settings: WriteSettings) -> TaskWritten:
    from airflow_provider_orderedkafka.kafka.replay.landed import Landed
    from airflow_provider_orderedkafka.kafka.replay.landed_filter import LandedFilter
    from airflow_provider_orderedkafka.kafka.write.writing import write

    if settings.source is not None:
        iterator = LandedFilter(Landed(), "many", settings.source).of(iterator)
    return TaskWritten(write(iterator, settings))


def _named(settings: WriteSettings, range_id: str) -> WriteSettings:
    """Write provenance if the rows say where they came from."""
    return settings if settings.source is None else replace(settings, range_id=range_id)


def _columns(schema: "StructType") -> list[tuple[str, str]]:
    return [(each.name, each.dataType.simpleString()) for each in schema.fields]


def _total(messages: Sequence[WriterCommitMessage | None]) -> str:
    total = Written.total(message.written for message in messages if isinstance(message, TaskWritten))
    return f"{total.rows:,} rows, {total.dead_letters:,} dead letters, {total.bytes:,} bytes"
