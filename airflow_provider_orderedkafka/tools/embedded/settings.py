"""What a broker is started with: its version, its place in the cluster, and the properties that Kafka reads."""

import random
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools.embedded.errors import PortTakenError

HOST = "127.0.0.1"
Property = str | int | float | bool

DEFAULT_VERSION: Final = "4.1.1"
_OLDEST: Final = "3.9.0"

# Below the range that systems take outgoing connections' ports from, so that a stopped broker finds its port again.
_FREE_PORTS = range(20_000, 32_768)
_TRIES = 200
_RANDOM = random.SystemRandom()  # two programs that seed their chance alike do not ask for the same ports
_LARGEST_PORT = 65_535

# Quick to start and small; takes large records and any timestamp; deletes and compacts only when a topic asks for it
# (records of long ago would be gone within a second otherwise), but then soon.
_PROPERTIES: dict[str, Property] = {
    "auto.create.topics.enable": False,
    # A killed broker may come back only when its session is over, and until then leads what it led.
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3_000,
    "group.coordinator.threads": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 1_000,
    "log.cleaner.dedupe.buffer.size": 16 * 2**20,
    "log.initial.task.delay.ms": 1_000,
    "log.message.timestamp.after.max.ms": 2**63 - 1,
    "log.retention.check.interval.ms": 1_000,
    "log.retention.ms": -1,
    "log.segment.delete.delay.ms": 1_000,
    "message.max.bytes": 32 * 2**20,
    "metadata.max.idle.interval.ms": 5_000,  # an idle broker rests
    "num.io.threads": 4,
    "num.network.threads": 2,
    "offsets.topic.num.partitions": 4,
    "replica.fetch.max.bytes": 32 * 2**20,
    "share.coordinator.state.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}

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


def free_port(taken: Sequence[int] = ()) -> int:
    """Return a port that nothing listens on and that is not among those taken."""
    for port in _RANDOM.sample(_FREE_PORTS, _TRIES):
        if port not in taken and is_free(port):
            return port
    raise PortTakenError(f"None of {_TRIES} ports between {_FREE_PORTS[0]} and {_FREE_PORTS[-1]} is free.")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


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
        taken.append(free_port(taken))
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


def server_properties(number: int, cluster: Sequence[Ports], data: Path, own: Mapping[str, Property]) -> str:
    """Return the properties file of broker `number` (from 1) of a cluster; its `own` properties win."""
    ports = cluster[number - 1]
    client = f"PLAINTEXT://{ports.address}"
    voters = [f"{node}@{HOST}:{other.controller}" for node, other in enumerate(cluster, start=1)]
    replicas = min(3, len(cluster))
    ours: dict[str, Property] = {
        "process.roles": "broker,controller",
        "node.id": number,
        "listeners": f"{client},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": client,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": str(data),
    }
    replication: dict[str, Property] = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": max(1, replicas - 1),
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(1, replicas - 1),
    }
    merged = _PROPERTIES | replication | ours | dict(own)
    return "".join(f"{name}={_text(value)}\n" for name, value in sorted(merged.items()))


def _text(value: Property) -> str:
    """A value for a Java properties file: ASCII, with escapes."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(c if " " <= c <= "~" and c != "\\" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
