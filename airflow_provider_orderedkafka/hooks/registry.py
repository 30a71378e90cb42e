"""The schema registry of an Airflow connection."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_orderedkafka.decoding.formats import Decode
from airflow_provider_orderedkafka.decoding.registry import Registry
from airflow_provider_orderedkafka.errors import SettingError

USER_INFO = "basic.auth.user.info"


def registry_of(conn_id: str) -> Registry:
    """The registry: address, login and password, and the extra, which has the client's own properties.

    Its secrets are masked in Airflow's logs. Raises a `SettingError` if there is no such connection, or no address.
    """
    from airflow.sdk.log import mask_secret

    from airflow_provider_orderedkafka.kafka.clients.config import is_secret

    config = registry_config(conn_id, _connection(conn_id))
    for name, value in config.items():
        if is_secret(name):
            mask_secret(value)
            mask_secret(value.rpartition(":")[2])
    return Registry(config)


def registry_config(conn_id: str, connection: Any) -> dict[str, str]:
    """The client's properties, from an Airflow connection."""
    extra = {
        name: each if isinstance(each, str) else json.dumps(each) for name, each in connection.extra_dejson.items()
    }
    host, login, password = connection.host or "", connection.login, connection.password
    if not host and "url" not in extra:
        raise SettingError(
            f"connection {conn_id!r} has no host: create it with `airflow connections add {conn_id} --conn-type http "
            "--conn-host https://registry:8081 --conn-login ... --conn-password ...`"
        )
    where = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    if connection.port and urlsplit(where).port is None:
        scheme, _, rest = where.partition("://")
        name, slash, path = rest.partition("/")
        where = f"{scheme}://{name}:{connection.port}{slash}{path}"
    by_login = {USER_INFO: f"{login}:{password or ''}"} if login else {}
    return {"url": where, **by_login, **extra}


def _connection(conn_id: str) -> Any:
    from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise SettingError(
            f"there is no connection {conn_id!r} to a schema registry: create it with `airflow connections add "
            f"{conn_id} --conn-type http --conn-host https://registry:8081`, or name another one with registry="
        ) from error


def check_schemas(decode: Decode, topics: Sequence[str], registry: Registry) -> bool:
    """Ask the registry for the schemas, so that an error of it is said at once; whether it could be asked from here."""
    from airflow_provider_orderedkafka.decoding.records import RecordDecoder, has

    if not decode.registries or not all(map(has, decode.needed)):  # then Spark's driver asks first
        return False
    RecordDecoder.of(decode, topics, registry)
    return True
