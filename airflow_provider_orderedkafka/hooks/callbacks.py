"""Callbacks that Airflow's own Kafka provider puts into a configuration, for the clients of this process.

A configuration is text, so that it can be compared and sent; a callback is not. It stays here, under the brokers that
it is for, and comes back where a client is made: `orderedkafka.resolver` names `restore`.
"""

from collections.abc import Callable, Mapping
from typing import Any

RESOLVER = f"{__name__}:restore"

_callbacks: dict[str, dict[str, Callable[..., Any]]] = {}


def keep(servers: str, callbacks: Mapping[str, Callable[..., Any]]) -> None:
    """Keep the callbacks for clients of these brokers."""
    _callbacks[servers] = dict(callbacks)


def restore(settings: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """The callbacks for a client with these settings."""
    return _callbacks.get(settings.get("bootstrap.servers", ""), {})
