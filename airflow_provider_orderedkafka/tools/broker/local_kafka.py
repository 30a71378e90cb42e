"""One broker of a real Apache Kafka (KRaft), on the loopback address, without Docker.

    with LocalKafka(directory) as kafka:
        print(kafka.bootstrap_servers)

Needs Java 17 or newer, and the network once, to download the broker.
"""

import contextlib
import fcntl
import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from ...errors import OrderedKafkaError, SettingError
from .java import Announce, Java, announce_on_stderr, find_java, kafka_jars

HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
START_SECONDS, STOP_SECONDS = 120.0, 20.0
_FORMAT_SECONDS = 120
_ANSWER_SECONDS = 2.0
_PORT = re.compile(rf"^advertised\.listeners=PLAINTEXT://{HOST}:(\d+)$", re.MULTILINE)
_REASON = re.compile(r"\b(ERROR|FATAL)\b|^(Caused by: )?[\w.$]+(Exception|Error)\b|^Error: ")
_REASONS = _LAST_LINES = 6
# Below the range that systems take outgoing connections' ports from, so that a stopped broker finds its port again.
_FREE_PORTS, _TRIES = range(20_000, 32_768), 200
_RANDOM = random.SystemRandom()  # two programs that seed their chance alike do not ask for the same ports
_TAKEN = "the broker cannot listen on port {port}: another program does. Choose another port"
_JVM_OPTIONS = (
    *("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"),
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)

# Quick to start and small; takes large records and any timestamp; deletes and compacts only when a topic asks for it:
# records of long ago would be gone soon otherwise.
_PROPERTIES: Mapping[str, object] = {
    "auto.create.topics.enable": False,
    "group.coordinator.threads": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 16 * 2**20,
    "log.message.timestamp.after.max.ms": 2**63 - 1,
    "log.retention.ms": -1,
    "message.max.bytes": 32 * 2**20,
    "metadata.max.idle.interval.ms": 5_000,  # an idle broker rests
    "num.io.threads": 4,
    "num.network.threads": 2,
    "offsets.topic.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "offsets.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.replication.factor": 1,
}


class BrokerFailedError(OrderedKafkaError):
    """The broker ended, or was not ready in time: the message has its last log lines."""

    retryable = True


class PortTakenError(BrokerFailedError):
    """Another program uses the port: choose another one, or stop that program."""


class LocalKafka:
    """The broker in a directory, whichever process started it; it runs until it is stopped, and its data is kept."""

    number = 1

    def __init__(self, directory: Path | str, announce: Announce = announce_on_stderr) -> None:
        self.directory = Path(directory).expanduser().absolute()
        if "," in str(self.directory):
            raise SettingError(
                f"directory {str(self.directory)!r} has a comma, which separates paths for Kafka: rename it"
            )
        self.log = self.directory / "server.log"
        self._announce = announce
        self._settings = self.directory / "server.properties"
        self._pid = self.directory / "pid"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int | None:
        """Where it listens for clients, or did; None if it was never started."""
        with contextlib.suppress(FileNotFoundError):
            if found := _PORT.search(self._settings.read_text("ascii")):
                return int(found[1])
        return None

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether its process exists: that holds a lock for as long as it lives."""
        with contextlib.suppress(FileNotFoundError), (self.directory / "lock").open() as lock:
            return not _locked(lock, fcntl.LOCK_SH)
        return False

    @property
    def pid(self) -> int | None:
        with contextlib.suppress(FileNotFoundError, ValueError):  # it is being started
            return int(self._pid.read_text("ascii")) if self.running else None
        return None

    @property
    def state(self) -> Literal["serves", "runs, but does not serve", "stopped"]:
        if not self.running:
            return "stopped"
        return "serves" if self.readiness()() else "runs, but does not serve"

    def start(self, port: int | None = None) -> Self:
        """Start the broker, and return when it serves: at its port of before where none is named; 0 is a free one.

        Raises `PortTakenError`, or `BrokerFailedError` with the last lines of its log.
        """
        java = find_java()
        program = java_program(java, kafka_jars(java, self._announce))
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("a") as lock:
            if not comes_true(lambda: _locked(lock, fcntl.LOCK_EX), 1.0):
                stop = f"orderedkafka broker stop --directory {self.directory}"
                raise BrokerFailedError(f"a broker runs in {self.directory} already: use it, or stop it with `{stop}`")
            self._pid.unlink(missing_ok=True)  # that of an earlier start may be another program's by now
            client = port or (port is None and self.port) or free_port()
            check_free(client)
            self.prepare(program, self.properties(client, free_port(client)), new_cluster_id())
            self.spawn(self.server(program), lock.fileno())
        try:
            self.wait_until_serving()
        except BaseException:
            self.stop(seconds=1)
            raise
        return self

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Shut the broker down in order; kill it when it has not ended by then."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if pid := self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                comes_true(lambda: not self.running, seconds)
        if self._child:
            self._child.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def properties(self, client: int, controller: int) -> dict[str, object]:
        listener = f"PLAINTEXT://{HOST}:{client}"
        return {
            **_PROPERTIES,
            "process.roles": "broker,controller",
            "node.id": self.number,
            "listeners": f"{listener},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"{self.number}@{HOST}:{controller}",
            "log.dirs": self.directory / "data",
        }

    def prepare(self, program: Sequence[str], properties: Mapping[str, object], cluster_id: str) -> None:
        """Write the settings and, the first time, format the data directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._settings.touch(mode=0o600)  # it may hold keys and passwords
        self._settings.write_text(properties_text(properties), encoding="ascii")
        if (self.directory / "data" / "meta.properties").exists():
            return
        command = [*program, "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id]
        command += ["--config", str(self._settings)]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=True)  # noqa: S603
        except subprocess.SubprocessError as error:
            output = f"{getattr(error, 'stdout', '')}{getattr(error, 'stderr', '')}"
            raise BrokerFailedError(f"{self.directory} cannot be formatted: {error}\n{output}") from error

    def server(self, program: Sequence[str]) -> list[str]:
        return [*program, "kafka.Kafka", str(self._settings)]

    def spawn(self, command: Sequence[str], lock: int) -> None:
        """Start the process, which holds the lock and runs on by itself."""
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(  # noqa: S603 - the user's own Java
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C is for the process in front alone
                pass_fds=[lock],
            )
        self._pid.write_text(f"{self._child.pid}\n", encoding="ascii")

    def wait_until_serving(self) -> None:
        """Return when clients can use the broker; raise when it ends before, or takes too long."""
        serves = self.readiness()
        if not comes_true(lambda: serves() or not self.running, START_SECONDS):
            raise self._failure(f"did not serve within {START_SECONDS:g} seconds")
        if not self.running:
            raise self._failure("ended while starting")

    def readiness(self) -> Callable[[], bool]:
        """A check whether the broker serves, with one client: it leads its partitions, and reaches its controller."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        quick, quiet = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}, {"error_cb": lambda _: None}
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **quick, **quiet, "log_level": 0})

        def serves() -> bool:
            try:
                known = admin.list_topics(timeout=_ANSWER_SECONDS)
                (answer,) = admin.create_topics(
                    [NewTopic("orderedkafka.readiness", 1, 1)], validate_only=True, request_timeout=_ANSWER_SECONDS
                ).values()
                answer.result(_ANSWER_SECONDS + 1)
            except (KafkaException, TimeoutError):
                return False
            partitions = [each for topic in known.topics.values() for each in topic.partitions.values()]
            leaderless = any(each.leader < 0 and self.number in each.isrs for each in partitions)
            return self.number in known.brokers and not leaderless

        return serves

    def _failure(self, what: str) -> BrokerFailedError:
        lines = self.log.read_text("utf-8", errors="replace").splitlines() if self.log.exists() else []
        if any("Address already in use" in line for line in lines):  # taken between the look and the start
            return PortTakenError(_TAKEN.format(port=self.port))
        errors = [at for at, line in enumerate(lines) if _REASON.search(line)][:_REASONS]
        shown = sorted({*errors, *range(max(0, len(lines) - _LAST_LINES), len(lines))})
        excerpt = "\n".join(lines[at] for at in shown) or "(it wrote nothing)"
        return BrokerFailedError(f"the broker at {self.bootstrap_servers} {what}. What {self.log} has:\n{excerpt}")


def java_program(java: Java, jars: Path, *options: str) -> list[str]:
    """The beginning of a command that runs one of Kafka's classes."""
    return [str(java.executable), *_JVM_OPTIONS, *options, "-cp", f"{jars}/*"]


def new_cluster_id() -> str:
    """Return 16 random bytes as Kafka writes them, but never with a dash in front: its tools would see an option."""
    return "A" + secrets.token_urlsafe(16)[1:]


def properties_text(properties: Mapping[str, object]) -> str:
    """A Java properties file, which has the escapes of JSON."""
    shown = {name: str(each).lower() if isinstance(each, bool) else str(each) for name, each in properties.items()}
    return "".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in sorted(shown.items()))


def free_port(*taken: int) -> int:
    """Return a port that nothing listens on and that is not among those taken."""
    for port in _RANDOM.sample(_FREE_PORTS, _TRIES):
        with contextlib.suppress(PortTakenError):
            check_free(port)
            if port not in taken:
                return port
    raise PortTakenError(f"none of {_TRIES} ports between {_FREE_PORTS[0]} and {_FREE_PORTS[-1]} is free")


def check_free(port: int) -> None:
    """`PortTakenError` if a program listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(_TAKEN.format(port=port)) from error


def comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds; False if it takes longer than that."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _locked(file: Any, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
