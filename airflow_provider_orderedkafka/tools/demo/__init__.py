"""`orderedkafka demo`: load a shop's events in time order with the example DAG, and check each of them."""

from airflow_provider_orderedkafka.errors import OrderedKafkaError


class DemoError(OrderedKafkaError):
    """The demo failed: the message says why, and where the log is."""
