"""What brokers are started with: Java's options, and Kafka's properties."""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .ports import HOST

Ports = Mapping[str, int]
"""Where a broker listens, by the names of its listeners."""

PLAIN, CONTROLLER = "PLAINTEXT", "CONTROLLER"

JVM_OPTIONS: Final = (
    *("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"),
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)

# Quick to start and small; takes large records and any timestamp; deletes and compacts only when a topic asks for it,
# and soon then: records of long ago would be gone soon otherwise.
_PROPERTIES: Final[Mapping[str, object]] = {
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


def properties(
    number: int, cluster: Sequence[Ports], advertised: Ports, protocols: Mapping[str, str], directory: Path
) -> dict[str, object]:
    """The properties of broker `number` (from 1) of a cluster; `protocols` are those of more listeners, by name."""
    ports, replicas = cluster[number - 1], len(cluster)
    fewest = max(1, replicas - 1)
    clients = {PLAIN: PLAIN, **protocols}
    return {
        **_PROPERTIES,
        "process.roles": "broker,controller",
        "node.id": number,
        "listeners": ",".join(f"{name}://{HOST}:{ports[name]}" for name in (*clients, CONTROLLER)),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{advertised[name]}" for name in clients),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in {**clients, CONTROLLER: PLAIN}.items()
        ),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": PLAIN,
        "controller.quorum.voters": ",".join(
            f"{node}@{HOST}:{other[CONTROLLER]}" for node, other in enumerate(cluster, start=1)
        ),
        "log.dirs": directory / "data",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": fewest,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": fewest,
    }


def new_cluster_id() -> str:
    """Return 16 random bytes as Kafka writes them, but never with a dash in front: its tools would see an option."""
    return "A" + secrets.token_urlsafe(16)[1:]


def as_text(found: Mapping[str, object]) -> str:
    """A Java properties file, which has the escapes of JSON."""
    shown = {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in found.items()}
    return "".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in sorted(shown.items()))
