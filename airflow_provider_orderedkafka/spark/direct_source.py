"""The source of the direct lane: it says where each micro-batch ends, and hands over no record.

The driver plans the batch's slices itself, and its tasks read and write them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from airflow_provider_orderedkafka.spark.options import parse_options
from airflow_provider_orderedkafka.spark.source import OrderedKafkaDataSource, OrderedKafkaStreamReader

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class DirectDataSource(OrderedKafkaDataSource):
    """A stream whose batches are empty, with the offsets that they would have."""

    @classmethod
    def name(cls) -> str:
        """What `format(...)` calls it."""
        return "orderedkafka-direct"

    def schema(self) -> str:
        """A column that nobody reads."""
        return "nothing boolean"

    def streamReader(self, schema: StructType) -> "DirectStreamReader":  # noqa: ARG002, N802
        """For `spark.readStream`."""
        return DirectStreamReader(parse_options(self.options, stream=True))


class DirectStreamReader(OrderedKafkaStreamReader):
    """The offsets of each micro-batch alone."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002
        """One without records: Spark wants one."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator["RecordBatch"]:  # noqa: ARG002
        """Nothing."""
        return iter(())
