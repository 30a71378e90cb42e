"""Read slices in a task, with the options of the source and the range."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.documents import Isolation
from airflow_provider_orderedkafka.core.order.cuts import Slice
from airflow_provider_orderedkafka.kafka.reading import ReadSettings, ReadTally

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from airflow_provider_orderedkafka.kafka.read.reader import Make
    from airflow_provider_orderedkafka.kafka.read.records import Records
    from airflow_provider_orderedkafka.spark.connector.options import SourceOptions


def read_settings(options: "SourceOptions", isolation: Isolation, topics: Mapping[str, str]) -> ReadSettings:
    return ReadSettings(
        options.kafka,
        isolation=isolation,
        include_headers=options.include_headers,
        on_data_loss=options.on_data_loss,
        topic_ids=topics,
    )


def read_batches(slice_: Slice, settings: ReadSettings, tally: ReadTally | None = None) -> Iterator["RecordBatch"]:
    """The records of a slice, in order, as Arrow batches of at most the byte budget."""
    from airflow_provider_orderedkafka.kafka.read.arrow import BatchBuilder

    return _read(slice_, settings, tally, BatchBuilder.batch)


def read_records(slice_: Slice, settings: ReadSettings, tally: ReadTally | None = None) -> Iterator["Records"]:
    """The same, for a plain copy."""
    from airflow_provider_orderedkafka.kafka.read.records import Records

    return _read(slice_, settings, tally, Records.of)


def _read(slice_: Slice, settings: ReadSettings, tally: ReadTally | None, make: "Make") -> Iterator[Any]:
    from airflow_provider_orderedkafka.core.order.planning import split
    from airflow_provider_orderedkafka.kafka.lookup.log import KafkaLog
    from airflow_provider_orderedkafka.kafka.read.reader import read_slice

    log = KafkaLog(settings.kafka, settings.isolation)
    return read_slice(slice_, settings, tally, lambda large, each: split(large, log, each), make)
