"""What can go wrong with the demo."""

from airflow_provider_orderedkafka.errors import OrderedKafkaError


class DemoError(OrderedKafkaError):
    """The demo could not go on: its message says why, and where the log is."""
