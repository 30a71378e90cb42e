"""The embedded cluster: one or three brokers in one directory."""

import contextlib
import fcntl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError
from airflow_provider_orderedkafka.tools.broker.java import Announce, announce_on_stderr, find_java, kafka_jars
from airflow_provider_orderedkafka.tools.broker.local_kafka import STOP_SECONDS, PortTakenError
from support.embedded.broker import Broker, Installation
from support.embedded.classes import quick
from support.embedded.layout import Layout
from support.embedded.settings import Property, checked, choose_ports

_MOVES = 5
"""How often to try other free ports: another program may take one in the meantime."""


class AlreadyRunningError(OrderedKafkaError):
    """A broker is already running in this directory: use it or stop it."""


class EmbeddedKafka:
    """A cluster of one or three brokers on the loopback address, with all its data in `directory`.

    Started by this process it ends with this process, whatever ends it. A directory that is used again gives the same
    cluster: id, ports, data, version of Kafka. `properties` are Kafka's own broker settings and win over the defaults
    here.
    """

    def __init__(
        self,
        directory: Path | str,
        brokers: int = 1,
        ports: Sequence[int] | None = None,
        properties: Mapping[str, Property] | None = None,
        *,
        version: str | None = None,
        announce: Announce = announce_on_stderr,
    ) -> None:
        self.directory = Path(directory).expanduser().absolute()
        if "," in str(self.directory):
            raise SettingError(
                f"directory {str(self.directory)!r} has a comma, which separates paths for Kafka: rename it"
            )
        self._announce = announce
        self._wanted = ports
        layout = Layout.of(self.directory, brokers, ports, version)
        self._properties = checked(properties or {})
        self._take(layout)

    @classmethod
    def open(cls, directory: Path | str) -> Self | None:
        """The cluster in a directory, running or not; None if there is none."""
        layout = Layout.load(Path(directory).expanduser().absolute())
        return cls(directory, brokers=len(layout.ports)) if layout else None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def cluster_id(self) -> str:
        return self._layout.cluster_id

    @property
    def version(self) -> str:
        return self._layout.kafka

    @property
    def running(self) -> bool:
        return any(broker.running for broker in self.brokers)

    def start(self) -> Self:
        """Start all brokers and return when they are ready; if one fails, stop all and raise."""
        installation = self._installation()
        with self._alone():
            if self.running:
                raise self._already()
            moves = _MOVES if self._may_move() else 0
            while not self._started(installation, may_move=moves > 0):
                self._take(replace(self._layout, ports=choose_ports(len(self.brokers), self._wanted)))
                moves -= 1
        return self

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Shut all brokers down; kill those that have not ended by then."""
        for broker in self.brokers:
            broker.ask_to_stop()
        deadline = time.monotonic() + seconds
        for broker in self.brokers:
            broker.stop(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _already(self) -> AlreadyRunningError:
        layout = Layout.load(self.directory) or self._layout
        where = ",".join(ports.address for ports in layout.ports)
        return AlreadyRunningError(f"A cluster runs in {self.directory} already, at {where}: use it or stop it.")

    def _installation(self) -> Installation:
        java = find_java()
        jars = kafka_jars(java, self._announce, self.version)
        return quick(Installation(java, jars, self.version), self._announce)

    def _take(self, layout: Layout) -> None:
        self._layout = layout
        self.brokers = tuple(
            Broker(number, layout.ports, self.directory / f"broker-{number}", self._properties)
            for number in range(1, len(layout.ports) + 1)
        )

    def _may_move(self) -> bool:
        """Whether other ports may be used: none were asked for, and the directory never had any."""
        named = self._wanted is not None and all(self._wanted)
        return not named and Layout.load(self.directory) is None

    def _started(self, installation: Installation, *, may_move: bool) -> bool:
        """Start the cluster; False if a port is taken and another one may be used."""
        try:
            self._start(installation)
        except BaseException as error:
            self.stop(seconds=1)
            if may_move and isinstance(error, PortTakenError):
                return False
            raise
        return True

    def _start(self, installation: Installation) -> None:
        self._layout.save(self.directory)
        prepare = partial(Broker.prepare_for, installation=installation, cluster_id=self.cluster_id)
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(prepare, self.brokers))
        for step in (Broker.launch, Broker.wait_until_serving):
            for broker in self.brokers:
                step(broker)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the directory while starting, so that two processes never start one cluster."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
