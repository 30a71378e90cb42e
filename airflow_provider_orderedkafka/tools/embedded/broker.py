"""One broker of the embedded cluster: a Java process with its own directory."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from airflow_provider_orderedkafka.errors import OrderedKafkaError
from airflow_provider_orderedkafka.tools.embedded.errors import BrokerFailedError, PortTakenError
from airflow_provider_orderedkafka.tools.embedded.java import Java
from airflow_provider_orderedkafka.tools.embedded.process import ServerLog, ServerProcess, comes_true
from airflow_provider_orderedkafka.tools.embedded.readiness import Readiness
from airflow_provider_orderedkafka.tools.embedded.settings import (
    DEFAULT_VERSION,
    Ports,
    Property,
    is_free,
    server_properties,
)

START_SECONDS = 120.0
STOP_SECONDS = 20.0
_FORMAT_SECONDS = 120
_JVM_OPTIONS = (
    *("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"),
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)


@dataclass(frozen=True, slots=True)
class Installation:
    """What runs every broker: a Java, the broker's jars and their version, and more options for Java."""

    java: Java
    jars: Path
    version: str = DEFAULT_VERSION
    options: tuple[str, ...] = ()

    def command(self, main_class: str, *arguments: str) -> list[str]:
        java = (str(self.java.executable), *_JVM_OPTIONS, *self.options)
        return [*java, "-cp", f"{self.jars}/*", main_class, *arguments]


class Broker:
    """Broker `number` (from 1) of a cluster, in its directory, whichever process started it."""

    def __init__(self, number: int, cluster: Sequence[Ports], directory: Path, own: Mapping[str, Property]) -> None:
        self.number = number
        self.ports = cluster[number - 1]
        self.log = ServerLog(directory / "server.log")
        self._cluster = tuple(cluster)
        self._directory = directory
        self._data = directory / "data"
        self._own = own
        self._properties = directory / "server.properties"
        self._process = ServerProcess(directory / "pid", self.log.path, str(self._properties))
        self._installation: Installation | None = None
        self._detached = False

    @property
    def address(self) -> str:
        return self.ports.address

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process is there (a paused one is)."""
        return self.pid is not None

    @property
    def state(self) -> Literal["serves", "runs, but does not serve", "stopped"]:
        """The state of the broker, as a client sees it."""
        if not self.running:
            return "stopped"
        return "serves" if Readiness(self.number, self.ports.client).serves() else "runs, but does not serve"

    def prepare(self, installation: Installation, cluster_id: str, *, detached: bool) -> None:
        """Write the settings and, the first time, format the data directory."""
        self._installation = installation
        self._detached = detached
        self._directory.mkdir(parents=True, exist_ok=True)
        text = server_properties(self.number, self._cluster, self._data, self._own)
        self._properties.touch(mode=0o600)  # it may hold keys and passwords
        self._properties.write_text(text, encoding="ascii")
        if not (self._data / "meta.properties").exists():
            self._format(installation, cluster_id)

    def start(self, *, wait: bool = True) -> None:
        """Start the broker on its ports and data; with `wait`, return when it serves.

        Raises PortTakenError, or BrokerFailedError with the last lines of its log.
        """
        self.launch()
        if wait:
            self.wait_until_serving()

    def launch(self) -> None:
        """Start the process and return at once."""
        if self.running:
            return
        if self._installation is None:
            raise BrokerFailedError(f"broker {self.number} was never started: start its cluster first")
        self._refuse_taken_ports()
        self.log.begin()
        command = self._installation.command("kafka.Kafka", str(self._properties))
        self._process.start(command, detached=self._detached)

    def wait_until_serving(self) -> None:
        """Return when clients can use the broker; raise when it ends before, or takes too long."""
        readiness = Readiness(self.number, self.ports.client)
        if not comes_true(lambda: readiness.serves() or not self.running, START_SECONDS):
            raise self._failure(f"did not serve within {START_SECONDS:g} seconds")
        if not self.running:
            raise self._failure("ended while starting")

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

    def _format(self, installation: Installation, cluster_id: str) -> None:
        command = installation.command(
            "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", str(self._properties)
        )
        try:
            done = subprocess.run(  # noqa: S603 - the user's own Java
                command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerFailedError(
                f"broker {self.number}: {self._data} was not formatted within {_FORMAT_SECONDS} seconds: "
                "is the machine busy?"
            ) from error
        if done.returncode:
            raise BrokerFailedError(
                f"broker {self.number}: {self._data} could not be formatted. Kafka said:\n"
                f"{(done.stdout + done.stderr).strip()}"
            )

    def _refuse_taken_ports(self) -> None:
        for port in self.ports:
            if not is_free(port):
                raise self._port_taken(port)

    def _failure(self, what: str) -> OrderedKafkaError:
        if self.log.mentions("Address already in use"):  # taken between the look and the start
            return self._port_taken(self.ports.client)
        return BrokerFailedError(
            f"broker {self.number} at {self.address} {what}. What {self.log.path} says:\n{self.log.excerpt()}"
        )

    def _port_taken(self, port: int) -> PortTakenError:
        return PortTakenError(
            f"broker {self.number} cannot listen on port {port}: another program does. Choose another port, or 0 "
            "for a free one."
        )
