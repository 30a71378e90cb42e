"""Callbacks that Airflow's own Kafka provider puts into a configuration, for the clients of this process.

A configuration is text, so that it can be compared and sent; a callback is not. It stays here, under the connection
that it is for, and comes back where a client is made: `orderedkafka.resolver` names this module and the connection.
"""

from collections.abc import Callable, Mapping
from typing import Any

_callbacks: dict[str, dict[str, Callable[..., Any]]] = {}


def keep(conn_id: str, callbacks: Mapping[str, Callable[..., Any]]) -> str:
    """Keep the callbacks of a connection; the resolver that gives them back in this process."""
    _callbacks[conn_id] = dict(callbacks)
    return f"{__name__}:{conn_id}"


def is_kept_here(resolver: str | None) -> bool:
    """Whether a resolver gives back what only this process has."""
    return resolver is not None and resolver.startswith(f"{__name__}:")


def __getattr__(conn_id: str) -> Callable[[Mapping[str, str]], dict[str, Callable[..., Any]]]:
    """The resolver of a connection, as a function of this module."""
    if conn_id not in _callbacks:
        raise AttributeError(f"no callbacks are kept for connection {conn_id!r} in this process")
    return lambda _: _callbacks[conn_id]
