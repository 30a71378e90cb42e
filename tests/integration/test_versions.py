"""What a Spark is too old for is refused at once, in words that say since when it is there and what to use instead."""

import pyspark
import pytest
from pyspark.errors import PySparkException
from support.messages import naming, says
from support.spark import before, since

from airflow_provider_orderedkafka.compat.spark import check_data_sources, check_read_stream, check_write_stream
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.spark import register

AN_APPLICATION = "load with an application, run_available_now of airflow_provider_orderedkafka.spark.app"

pytestmark = pytest.mark.versions


@pytest.mark.parametrize(
    ("check", "newest", "said"),
    [
        (check_data_sources, "3.5.8", f"4.0 ... 3.5.8 ... {AN_APPLICATION}"),
        (check_write_stream, "4.0.4", "4.1 ... 4.0.4 ... foreachBatch"),
        (check_read_stream, "4.1.3", f"4.2 ... 4.1.3 ... {AN_APPLICATION}"),
    ],
    ids=["data sources", "writeStream", "readStream"],
)
def test_a_spark_that_is_too_old_is_told_from_one_that_is_not(monkeypatch, check, newest, said):
    monkeypatch.setattr(pyspark, "__version__", newest)
    with pytest.raises(SettingError, match=naming(said)):
        check()
    major, minor, _ = newest.split(".")
    for enough in ("4.10.0.dev1", f"{major}.{int(minor) + 1}.0" if major == "4" else "4.0.0"):
        monkeypatch.setattr(pyspark, "__version__", enough)
        check()


@before(4, 0)
def test_without_data_sources_in_python_registering_is_refused(spark):
    with pytest.raises(SettingError, match=AN_APPLICATION):
        register(spark)


@since(4, 0)
@before(4, 2)
def test_a_stream_without_limits_is_refused_before_it_reads_anything(spark, kafka, topics, tmp_path):
    register(spark)
    reader = spark.readStream.format("orderedkafka").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer = reader.option("subscribe", topics.create()).load().writeStream.format("noop")
    said = ended(writer.option("checkpointLocation", str(tmp_path)))
    assert says(said, f"readStream ... 'orderedkafka' ... 4.2 ... {AN_APPLICATION}")


@since(4, 0)
@before(4, 1)
def test_a_stream_that_would_be_written_row_by_row_is_refused(spark, kafka, topics, tmp_path):
    register(spark)
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    writer = rows.writeStream.format("orderedkafka").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    said = ended(writer.option("topic", topics.create()).option("checkpointLocation", str(tmp_path)))
    assert says(said, "writeStream ... 'orderedkafka' ... 4.1")


def ended(writer):
    """What a query that fails says, wherever that shows."""
    try:
        query = writer.start()
        query.awaitTermination(60)
    except PySparkException as error:
        return str(error)
    query.stop()
    return ""
