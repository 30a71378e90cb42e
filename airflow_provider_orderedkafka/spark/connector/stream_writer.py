"""The Spark sink `orderedkafka` for `df.writeStream`: it writes micro-batches as `df.write` writes a DataFrame."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ...errors import UnreachableError
from ...kafka.write.settings import WriteSettings
from .batch import TaskWritten, columns_of, named, total, write_task
from .options import parse_sink_options

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_QUERY = "sql.streaming.queryId"

_log = logging.getLogger(__name__)


def stream_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "OrderedKafkaStreamWriter":
    """For `DataSource.streamWriter`.

    Spark makes one for each micro-batch, and another one to commit it. If Kafka cannot be reached here, the tasks check
    the topics instead, so that a short outage does not fail a batch that is already written.
    """
    from ...kafka.write.writing import plan_write

    columns = columns_of(schema)
    settings = parse_sink_options(options, columns, overwrite=overwrite)
    try:
        return OrderedKafkaStreamWriter(plan_write(settings, columns))
    except UnreachableError:
        return OrderedKafkaStreamWriter(settings)


class OrderedKafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, whose ID takes the place of a range's."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskWritten:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        return write_task(iterator, named(self._settings, query or "stream"))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _log.info("batch %d: wrote %s", batchId, total(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _log.warning("batch %d failed; tasks that had ended wrote %s", batchId, total(messages))
