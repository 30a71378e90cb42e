"""What a cluster is started with: its ports, its version, and the properties of its own."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools.broker.java import DEFAULT_VERSION
from airflow_provider_orderedkafka.tools.broker.local_kafka import HOST, free_port

Property = str | int | float | bool

_OLDEST: Final = "3.9.0"

_LARGEST_PORT = 65_535

_OURS = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one broker listens: for clients, and for the controllers of its cluster."""

    client: int
    controller: int

    @property
    def address(self) -> str:
        return f"{HOST}:{self.client}"

    def __iter__(self) -> Iterator[int]:
        return iter((self.client, self.controller))


def choose_ports(brokers: int, wanted: Sequence[int] | None) -> tuple[Ports, ...]:
    """Return the ports of a cluster: for clients the wanted ones, and a free one where that is 0 or none is named."""
    asked = [0] * brokers if wanted is None else list(wanted)
    named = [port for port in asked if port]
    if len(asked) != brokers or len(set(named)) != len(named):
        raise SettingError(f"ports={asked!r} for {brokers} broker(s): give each its own, or 0 for a free one")
    for port in asked:
        if not 0 <= port <= _LARGEST_PORT:
            raise SettingError(f"port {port!r} is not between 0 and {_LARGEST_PORT}")
    taken = list(named)
    for _ in range(2 * brokers - len(named)):
        taken.append(free_port(*taken))
    free = iter(taken[len(named) :])
    return tuple(Ports(client=port or next(free), controller=next(free)) for port in asked)


def checked(properties: Mapping[str, Property]) -> dict[str, Property]:
    """Return the user's broker properties; raise where they name what the cluster sets itself."""
    if refused := sorted(_OURS.intersection(properties)):
        raise SettingError(
            f"properties sets {', '.join(refused)}, which the embedded cluster sets itself: leave it out"
        )
    return dict(properties)


def checked_version(version: str) -> str:
    """Return the version; raise where it is none, or none that can be run here."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _numbers(version) < _numbers(_OLDEST):
        raise SettingError(
            f"version={version!r} must be a release of Apache Kafka from {_OLDEST} on, such as {DEFAULT_VERSION!r}"
        )
    return version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
