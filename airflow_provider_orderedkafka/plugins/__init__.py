"""The plugin that Airflow loads at every start: the operators' link, and the page with its places in Airflow's own."""

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_orderedkafka.links import RangeLink
from airflow_provider_orderedkafka.plugins.page import PREFIX, Page


class OrderedKafkaPlugin(AirflowPlugin):
    """Makes the link known to the API server, which shows it without importing the operators, and adds the page.

    The page's addresses are relative, for an Airflow behind a prefix.
    """

    name = "orderedkafka"
    operator_extra_links = [RangeLink()]  # noqa: RUF012 - Airflow reads it so
    fastapi_apps = [{"name": "orderedkafka", "app": Page(), "url_prefix": f"/{PREFIX}"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {"name": "Kafka loads", "destination": "nav", "category": "browse", "url_route": PREFIX, "href": f"{PREFIX}/"},
        {
            "name": "Kafka loads",
            "destination": "dag",
            "url_route": f"{PREFIX}-dag",
            "href": f"{PREFIX}/?dag={{DAG_ID}}",
        },
        {
            "name": "Kafka loads",
            "destination": "dag_run",
            "url_route": f"{PREFIX}-run",
            "href": f"{PREFIX}/?dag={{DAG_ID}}&run={{RUN_ID}}",
        },
    ]
