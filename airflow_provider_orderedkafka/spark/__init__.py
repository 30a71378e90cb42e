"""The data source, the sink and the application; knows nothing of Airflow."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: "SparkSession") -> None:
    """Let this session read and write `format("orderedkafka")`."""
    from airflow_provider_orderedkafka.spark.source import OrderedKafkaDataSource

    session.dataSource.register(OrderedKafkaDataSource)
