"""The Spark data source `orderedkafka`: `spark.read`, `spark.readStream`, `df.write`, `df.writeStream`.

Spark partition i is slice i, and each slice comes in order: a DataFrame is in time order over all topics and
partitions as it is read, without a shuffle or a sort, and stays so through every narrow transformation.

Readers and writers are imported where Spark asks for them: not every version has what a stream is built on.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ...compat.spark import check_read_stream, check_write_stream
from .options import parse_options
from .reading import asked_columns, source_schema

NAME = "orderedkafka"


class OrderedKafkaDataSource(DataSource):
    """Kafka in time order. Options are those of Spark's own Kafka connector, and more: see docs/reading.md."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """The columns of Spark's own connector, `order_time` and `late`."""
        return source_schema(include_headers=parse_options(self.options, stream=True).terms.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from .batch import OrderedKafkaReader

        options = parse_options(self.options, stream=False)
        return OrderedKafkaReader(options, asked_columns(schema, include_headers=options.terms.include_headers))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_read_stream()
        from .stream_reader import OrderedKafkaStreamReader

        options = parse_options(self.options, stream=True)
        return OrderedKafkaStreamReader(options, asked_columns(schema, include_headers=options.terms.include_headers))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .batch import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        check_write_stream()
        from .stream_writer import stream_writer

        return stream_writer(self.options, schema, overwrite)
