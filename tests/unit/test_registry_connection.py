"""From an Airflow connection to the configuration of the registry's client."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_orderedkafka.core.notation.secrets import is_secret
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.ordered_kafka import registry_config


@dataclass
class Connection:
    host: str | None = None
    port: int | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = None
    extra_dejson: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"host": "registry", "port": 8081}, "http://registry:8081"),
        ({"host": "registry", "port": 8081, "schema": "https"}, "https://registry:8081"),
        ({"host": "https://registry:8081/apis/ccompat/v7"}, "https://registry:8081/apis/ccompat/v7"),
        ({"host": "https://registry/apis", "port": 8443}, "https://registry:8443/apis"),
        ({"extra_dejson": {"url": "http://a:1,http://b:1"}}, "http://a:1,http://b:1"),
    ],
)
def test_the_address_is_that_of_the_connection(given, url):
    assert registry_config("main", Connection(**given)) == {"url": url}


def test_login_and_the_extra_are_properties_of_the_client_and_the_password_is_a_secret():
    connection = Connection("r", login="ann", password="p:w", extra_dejson={"ssl.ca.location": "/ca.pem", "timeout": 5})
    found = registry_config("main", connection)
    assert found == {"url": "http://r", "basic.auth.user.info": "ann:p:w", "ssl.ca.location": "/ca.pem", "timeout": "5"}
    assert {name for name in found if is_secret(f"registry.{name}")} == {"basic.auth.user.info"}


def test_a_connection_without_a_host_says_how_it_is_created():
    with pytest.raises(SettingError, match="airflow connections add main --conn-type orderedkafka_registry"):
        registry_config("main", Connection())
