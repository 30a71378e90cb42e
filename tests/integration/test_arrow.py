"""The reader's Arrow schema is the one that Spark makes of the columns it is told."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from airflow_provider_orderedkafka.kafka.read.columns import schema
from airflow_provider_orderedkafka.spark.connector.reading import source_schema


@pytest.mark.parametrize("include_headers", [False, True])
def test_spark_expects_the_schema_that_the_reader_gives(spark, include_headers):
    expected = to_arrow_schema(source_schema(include_headers=include_headers), timezone="UTC")
    assert schema(include_headers=include_headers).equals(expected, check_metadata=True)
