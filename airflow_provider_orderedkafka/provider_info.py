"""The description of this provider for Airflow, which reads it at every start. Data only."""

from typing import Any

INTEGRATION = "Ordered Kafka"


def get_provider_info() -> dict[str, Any]:
    """The provider's description; `package-name` must be the distribution's name."""
    return {
        "package-name": "airflow-provider-orderedkafka",
        "name": INTEGRATION,
        "description": "Load Kafka with Spark on a schedule, in time order, from ranges that are written down first.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["apache"]}],
        "operators": [
            _modules(
                *(f"operators.{name}" for name in ("resolve", "submit", "commit", "audit", "operations", "maintenance"))
            )
        ],
        "sensors": [_modules("sensors.offsets")],
        "triggers": [_modules("triggers.offsets")],
        "hooks": [_modules("hooks.ordered_kafka")],
        "connection-types": [
            {
                "connection-type": "orderedkafka_registry",
                "hook-class-name": "airflow_provider_orderedkafka.hooks.ordered_kafka.SchemaRegistryHook",
                "hook-name": "Kafka schema registry",
                "ui-field-behaviour": {
                    "hidden-fields": ["port", "schema"],
                    "relabeling": {"host": "Address"},
                    "placeholders": {"host": "https://registry:8081"},
                },
                "conn-fields": {
                    "ssl.ca.location": _text("CA's certificate", "a file on the workers, where tasks run"),
                    "ssl.certificate.location": _text("Client's certificate", "a file, for mutual TLS"),
                    "ssl.key.location": _text("Client's key", "a file, for mutual TLS"),
                    "bearer.auth.token": _text("Token", "in place of login and password", format="password"),
                },
            }
        ],
        "extra-links": ["airflow_provider_orderedkafka.links.RangeLink"],
        "config": {
            "orderedkafka": {
                "description": "Settings of orderedkafka.",
                "options": {
                    "ledger": {
                        "description": (
                            "Where loads without a ledger= keep their ledgers: a folder or an object store that all of "
                            "Airflow reaches. Empty: in Airflow's asset state store, since Airflow 3.3."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "s3://bucket/ledgers",
                        "default": "",
                    }
                },
            }
        },
        "asset-uris": [{"schemes": ["orderedkafka"], "handler": None}],
    }


def _text(label: str, description: str, **more: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **more}}


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": INTEGRATION,
        "python-modules": [f"airflow_provider_orderedkafka.{name}" for name in names],
    }
