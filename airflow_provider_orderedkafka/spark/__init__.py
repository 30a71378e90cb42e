"""The data source, the sink and the applications for Spark; needs no Airflow."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: "SparkSession") -> None:
    """Register the data source `orderedkafka`, for `spark.read`, `readStream`, `df.write` and `writeStream`.

    Reading and writing need Spark 4.0 or newer, writeStream 4.1, readStream 4.2; a `SettingError` says so. Each thread
    that writes has to call it: Spark looks for a sink in the session that is active in the thread.

    :param session: The Spark session.
    """
    from ..compat.spark import check_data_sources

    check_data_sources()
    from .connector.source import OrderedKafkaDataSource

    session.dataSource.register(OrderedKafkaDataSource)
    session.createDataFrame([], "nothing INT")  # the public way to make a session active in this thread
