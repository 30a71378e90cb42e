"""One broker of the embedded cluster: a Java process with its own directory."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_orderedkafka.tools.broker.java import DEFAULT_VERSION, Java
from airflow_provider_orderedkafka.tools.broker.local_kafka import (
    HOST,
    STOP_SECONDS,
    BrokerFailedError,
    LocalKafka,
    check_free,
    java_program,
)
from support.embedded.process import ServerProcess
from support.embedded.settings import Ports, Property

_SOON: Mapping[str, object] = {
    # A killed broker may come back only when its session is over, and until then leads what it led.
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3_000,
    "log.cleaner.backoff.ms": 1_000,
    "log.initial.task.delay.ms": 1_000,
    "log.retention.check.interval.ms": 1_000,
    "log.segment.delete.delay.ms": 1_000,
    "replica.fetch.max.bytes": 32 * 2**20,
}


@dataclass(frozen=True, slots=True)
class Installation:
    """What runs every broker: a Java, the broker's jars and their version, and more options for Java."""

    java: Java
    jars: Path
    version: str = DEFAULT_VERSION
    options: tuple[str, ...] = ()

    @property
    def program(self) -> list[str]:
        return java_program(self.java, self.jars, *self.options)


class Broker(LocalKafka):
    """Broker `number` (from 1) of a cluster, in its directory, whichever process started it."""

    def __init__(self, number: int, cluster: Sequence[Ports], directory: Path, own: Mapping[str, Property]) -> None:
        super().__init__(directory)
        self.number = number
        self.ports = cluster[number - 1]
        self._cluster = tuple(cluster)
        self._own = own
        self._process = ServerProcess(directory / "pid", self.log, str(self._settings))
        self._program: Sequence[str] = ()

    @property
    def port(self) -> int:
        return self.ports.client

    @property
    def address(self) -> str:
        return self.bootstrap_servers

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process exists (a paused one does)."""
        return self.pid is not None

    def prepare_for(self, installation: Installation, cluster_id: str) -> None:
        self._program = installation.program
        self.prepare(self._program, self.properties(*self.ports), cluster_id)

    def properties(self, client: int, controller: int) -> dict[str, object]:
        replicas = len(self._cluster)
        fewest = max(1, replicas - 1)
        return {
            **super().properties(client, controller),
            **_SOON,
            "controller.quorum.voters": ",".join(
                f"{node}@{HOST}:{other.controller}" for node, other in enumerate(self._cluster, start=1)
            ),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": fewest,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": fewest,
            **self._own,
        }

    def start(self, *, wait: bool = True) -> None:
        """Start the broker on its ports and data; with `wait`, return when it serves."""
        self.launch()
        if wait:
            self.wait_until_serving()

    def launch(self) -> None:
        """Start the process and return at once."""
        if self.running:
            return
        if not self._program:
            raise BrokerFailedError(f"broker {self.number} was never started: start its cluster first")
        for port in self.ports:
            check_free(port)
        self._process.start(self.server(self._program))

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Shut the broker down in order; kill it when it has not ended by then."""
        self.ask_to_stop()
        if not self._process.ended_within(seconds):
            self.kill()

    def ask_to_stop(self) -> None:
        """Begin an orderly shutdown and return at once."""
        self._process.signal(signal.SIGTERM)
        self._process.signal(signal.SIGCONT)  # a paused process would never hear of it

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """End the process at once, as a crash would (SIGKILL)."""
        self._process.signal(signal.SIGKILL)
        self._process.ended_within(STOP_SECONDS)

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): it keeps its connections and answers nothing from now on."""
        self._process.freeze()

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)
