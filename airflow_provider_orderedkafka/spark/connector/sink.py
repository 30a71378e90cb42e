"""The Spark sink `orderedkafka`: `df.write`, and what `df.writeStream` has in common with it.

    batch_writer(options, schema, overwrite) -> OrderedKafkaWriter

A task's rows reach Kafka at least once, in order, with their timestamps. Options, columns and output topics are checked
when Spark plans. If Spark runs a task again, its rows are written again; only `run_available_now` skips them.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from airflow_provider_orderedkafka.core.notation.spelling import counted
from airflow_provider_orderedkafka.kafka.write.settings import WriteSettings, Written

from .options import parse_sink_options

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)


@dataclass
class TaskWritten(WriterCommitMessage):
    written: Written = field(default_factory=Written)


def batch_writer(options: Mapping[str, str], schema: "StructType", overwrite: bool) -> "OrderedKafkaWriter":
    """For `DataSource.writer`; raises here, before anything runs, if it cannot work."""
    from airflow_provider_orderedkafka.kafka.write.writing import plan_write

    columns = columns_of(schema)
    settings = named(parse_sink_options(options, columns, overwrite=overwrite), f"write-{uuid.uuid4().hex}")
    return OrderedKafkaWriter(plan_write(settings, columns))


class OrderedKafkaWriter(DataSourceArrowWriter):
    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["RecordBatch"]) -> TaskWritten:
        return write_task(iterator, self._settings)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.info("wrote %s", total(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.warning("the write failed; tasks that had ended wrote %s, and a rerun writes it again", total(messages))


def write_task(iterator: Iterator["RecordBatch"], settings: WriteSettings) -> TaskWritten:
    """Write a task's rows; return when Kafka has acknowledged them all."""
    from airflow_provider_orderedkafka.kafka.replay.landed import Landed, LandedFilter
    from airflow_provider_orderedkafka.kafka.write.writing import write

    if settings.source is not None:
        iterator = LandedFilter(Landed(), "many", settings.source).of(iterator)
    return TaskWritten(write(iterator, settings))


def named(settings: WriteSettings, range_id: str) -> WriteSettings:
    """Write provenance if the rows say where they came from."""
    return settings if settings.source is None else replace(settings, range_id=range_id)


def columns_of(schema: "StructType") -> list[tuple[str, str]]:
    return [(each.name, each.dataType.simpleString()) for each in schema.fields]


def total(messages: Sequence[WriterCommitMessage | None]) -> str:
    found = Written.total(message.written for message in messages if isinstance(message, TaskWritten))
    return f"{counted(found.rows, 'row')}, {counted(found.dead_letters, 'dead letter')}, {counted(found.bytes, 'byte')}"
