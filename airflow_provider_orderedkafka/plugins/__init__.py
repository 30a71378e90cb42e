"""The plugin that Airflow loads at every start, for the operators' link."""

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_orderedkafka.links import RangeLink


class OrderedKafkaPlugin(AirflowPlugin):
    """Makes the link known to the API server, which shows it without importing the operators."""

    name = "orderedkafka"
    operator_extra_links = [RangeLink()]  # noqa: RUF012 - Airflow reads it so
