"""The description of this provider for Airflow, which reads it at every start. Data only."""

from typing import Any

INTEGRATION = "Ordered Kafka"


def get_provider_info() -> dict[str, Any]:
    """The provider's description; `package-name` must be the distribution's name."""
    return {
        "package-name": "airflow-provider-orderedkafka",
        "name": INTEGRATION,
        "description": "Load Kafka with Spark on a schedule, in time order, from ranges that are written down first.",
        "integrations": [
            {
                "integration-name": INTEGRATION,
                "external-doc-url": "https://pypi.org/project/airflow-provider-orderedkafka/",
                "tags": ["apache"],
            }
        ],
        "operators": [_modules("operators.resolve", "operators.submit", "operators.commit", "operators.operations")],
        "sensors": [_modules("sensors.offsets")],
        "triggers": [_modules("triggers.offsets")],
        "hooks": [_modules("hooks.ordered_kafka")],
        "extra-links": ["airflow_provider_orderedkafka.links.RangeLink"],
        "asset-uris": [{"schemes": ["orderedkafka"], "handler": None}],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": INTEGRATION,
        "python-modules": [f"airflow_provider_orderedkafka.{name}" for name in names],
    }
