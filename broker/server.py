"""One broker: a Java process with a directory of its own, which ends with the process that started it."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from . import leash, settings
from .ports import HOST, BrokerFailedError, PortTakenError, check_free
from .settings import PLAIN, Ports

START_SECONDS, STOP_SECONDS = 120.0, 20.0
ENDING_SECONDS = 1.0
"""How long a broker whose process was killed may take to be gone."""

_LOCK = "lock"
_FORMAT_SECONDS = 120
_FREEZE_SECONDS = 10.0
_ANSWER_SECONDS = 2.0
_LAST_LINES = 40


class Broker:
    """Broker `number` (from 1) of a cluster: it can be killed, paused and started again, and its data is kept."""

    def __init__(self, number: int, directory: Path, ports: Ports, properties: Mapping[str, object]) -> None:
        self.number, self.directory, self.ports = number, directory, ports
        self.log = directory / "server.log"
        self.pid: int | None = None
        self._properties = properties
        self._settings = directory / "server.properties"
        self._program: Sequence[str] = ()
        self._leash: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.ports[PLAIN]}"

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused one does."""
        return runs_in(self.directory)

    def prepare(self, program: Sequence[str], cluster_id: str) -> None:
        """Write the settings and, the first time, format the data; `program` is Java with Kafka's classes."""
        self._program = [*program, "kafka.Kafka", str(self._settings)]
        self.directory.mkdir(parents=True, exist_ok=True)
        self._settings.touch(mode=0o600)  # it may hold keys and passwords
        self._settings.write_text(settings.as_text(self._properties), encoding="ascii")
        if (self.directory / "data" / "meta.properties").exists():
            return
        command = [*program, "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id]
        command += ["--config", str(self._settings)]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=True)  # noqa: S603
        except subprocess.SubprocessError as error:
            output = f"{getattr(error, 'stdout', '')}{getattr(error, 'stderr', '')}"
            raise BrokerFailedError(f"{self.directory} cannot be formatted: {error}\n{output}") from error

    def start(self) -> None:
        """Start the broker on its ports and data; return when it serves."""
        self.launch()
        self.wait_until_serving()

    def launch(self) -> None:
        """Start the process and return at once; `PortTakenError` if another program has one of its ports."""
        self._reap()
        with (self.directory / _LOCK).open("a") as lock:
            if not comes_true(lambda: _locked(lock, fcntl.LOCK_EX), ENDING_SECONDS):
                raise BrokerFailedError(f"a broker runs in {self.directory} already: use it, or stop it")
            for port in self.ports.values():
                check_free(port)
            self._spawn(lock)

    def _spawn(self, lock: IO[str]) -> None:
        """Start the program with the lock as its input: it holds that for as long as it lives."""
        self.log.unlink(missing_ok=True)
        command = [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), str(self.log), *self._program]
        self._leash = subprocess.Popen(  # noqa: S603 - our own Python, the user's own Java
            command,
            stdin=lock,
            stdout=subprocess.PIPE,
            cwd=self.directory,
            start_new_session=True,  # Ctrl-C is for this process alone: it stops the broker in its own order
        )
        if self._leash.stdout:
            with self._leash.stdout as output:
                self.pid = int(output.read())

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Shut the broker down in order; kill it when it has not ended by then."""
        self.ask_to_stop()
        if not self._ended_within(seconds):
            self.kill()

    def ask_to_stop(self) -> None:
        """Begin an orderly shutdown and return at once."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a paused process would never hear of it

    def kill(self) -> None:
        """End the process at once, as a crash would (SIGKILL)."""
        self._signal(signal.SIGKILL)
        self._ended_within(STOP_SECONDS)

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): it keeps its connections and answers nothing from now on."""
        import psutil

        self._signal(signal.SIGSTOP)
        process = psutil.Process(self.pid)
        comes_true(lambda: process.status() == psutil.STATUS_STOPPED, _FREEZE_SECONDS)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._leash and self._leash.poll() is None and self.pid:  # its number is no other program's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _ended_within(self, seconds: float) -> bool:
        ended = not self._leash or comes_true(lambda: not self.running, seconds)
        if ended:
            self._reap()
        return ended

    def _reap(self) -> None:
        if self._leash:
            self._leash.wait()
            self._leash = self.pid = None

    def wait_until_serving(self) -> None:
        """Return when clients can use the broker; raise when it ends before, or takes too long."""
        from confluent_kafka.admin import AdminClient

        quick, quiet = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}, {"error_cb": lambda _: None}
        client = AdminClient({"bootstrap.servers": self.address, **quick, **quiet, "log_level": 0})
        if not comes_true(lambda: self._serves(client) or not self.running, START_SECONDS):
            raise self._failure(f"did not serve within {START_SECONDS:g} seconds")
        if not self.running:
            raise self._failure("ended while starting")

    def _serves(self, client: Any) -> bool:
        """Whether it leads its partitions, and reaches its controller."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        try:
            known = client.list_topics(timeout=_ANSWER_SECONDS)
            (answer,) = client.create_topics(
                [NewTopic("orderedkafka.readiness", 1, 1)], validate_only=True, request_timeout=_ANSWER_SECONDS
            ).values()
            answer.result(_ANSWER_SECONDS + 1)
        except (KafkaException, TimeoutError):
            return False
        partitions = [each for topic in known.topics.values() for each in topic.partitions.values()]
        leaderless = any(each.leader < 0 and self.number in each.isrs for each in partitions)
        return self.number in known.brokers and not leaderless

    def _failure(self, what: str) -> BrokerFailedError:
        lines = self.log.read_text("utf-8", errors="replace").splitlines()
        if any("Address already in use" in line for line in lines):  # taken between the look and the start
            return PortTakenError(self.ports[PLAIN])
        last = "\n".join(lines[-_LAST_LINES:])
        return BrokerFailedError(f"the broker at {self.address} {what}. The last lines of {self.log}:\n{last}")


def runs_in(directory: Path) -> bool:
    """Whether a broker runs in its directory, whichever process started it."""
    with contextlib.suppress(FileNotFoundError), (directory / _LOCK).open() as lock:
        return not _locked(lock, fcntl.LOCK_SH)
    return False


def comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds; False if it takes longer than that."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _locked(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
