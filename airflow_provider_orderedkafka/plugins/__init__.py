"""What Airflow loads at every start: the links of the operators, nothing else."""

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_orderedkafka.links import RangeLink, SparkLink


class OrderedKafkaPlugin(AirflowPlugin):
    """Makes the links known to the API server, which shows them without importing the operators."""

    name = "orderedkafka"
    operator_extra_links = [RangeLink(), SparkLink()]  # noqa: RUF012 - Airflow reads it so
