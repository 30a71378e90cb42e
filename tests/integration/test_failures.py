"""What is understood of an error that a task of Spark's raised, once it came out of Spark as text."""

import pytest
from pyspark.errors import PySparkException

from airflow_provider_orderedkafka.errors import DataLossError, OrderedKafkaError, TransformError
from airflow_provider_orderedkafka.spark.session.failures import classify_failure


def loses(batches):
    from airflow_provider_orderedkafka.errors import DataLossError

    raise DataLossError("records are gone", topic="orders", partition=3, offset=17)


def fails_in_its_own_way(batches):
    raise type("StateError", (Exception,), {"__module__": "mylib"})("no such customer")


def out_of(spark, transform) -> OrderedKafkaError:
    with pytest.raises(PySparkException) as raised:
        spark.range(1).mapInArrow(transform, "id long").collect()
    return classify_failure(raised.value)


def test_an_error_of_ours_comes_out_of_a_task_with_its_place(spark):
    found = out_of(spark, loses)
    assert type(found) is DataLossError
    assert (str(found), found.topic, found.partition, found.offset) == ("records are gone", "orders", 3, 17)


def test_a_users_error_with_the_name_of_one_of_ours_stays_the_users(spark):
    found = out_of(spark, fails_in_its_own_way)
    assert type(found) is TransformError
    assert "mylib.StateError: " in str(found)
    assert not found.retryable
