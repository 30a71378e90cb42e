"""A session that runs already is used by a load, and left to whoever started it."""

from concurrent.futures import ThreadPoolExecutor

from airflow_provider_orderedkafka.spark.session.starting import LazySession


def test_a_load_in_another_thread_leaves_the_session_running(spark):
    load = LazySession()
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(load.started).result().sparkContext is spark.sparkContext
        load.stop()
    assert spark.range(3).count() == 3
