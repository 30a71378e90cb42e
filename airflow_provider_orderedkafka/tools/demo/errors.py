"""Errors of the demo."""

from airflow_provider_orderedkafka.errors import OrderedKafkaError


class DemoError(OrderedKafkaError):
    """The demo failed: the message says why, and where the log is."""
