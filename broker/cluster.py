"""A cluster of one or three brokers in one directory."""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_provider_orderedkafka.tools.doctor.installed import find_java

from . import settings
from .classes import java_program
from .fetching import DEFAULT_VERSION, Announce, announce_on_stderr, kafka_jars
from .ports import BrokerFailedError, PortTakenError, free_port
from .server import ENDING_SECONDS, STOP_SECONDS, Broker, comes_true, runs_in
from .settings import CONTROLLER, PLAIN, Ports

Property = str | int | float | bool

_MOVES = 5
"""How often to try other free ports: another program may take one in the meantime."""


class LocalKafka:
    """A Kafka with all its data in `directory`, which ends with this process, whatever ends it.

    A directory that is used again gives the same cluster: id, ports and data. `port` is that of the first broker;
    without one, a free one is taken. `properties` are Kafka's own, and win over the defaults here. `listeners` stand
    beside the plain one: names and security protocols.
    """

    def __init__(
        self,
        directory: Path | str,
        brokers: int = 1,
        port: int | None = None,
        properties: Mapping[str, Property] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        version: str | None = None,
        announce: Announce = announce_on_stderr,
    ) -> None:
        self.directory = Path(directory).expanduser().absolute()
        self.brokers: tuple[Broker, ...] = ()
        self.cluster_id = ""
        self._number, self._port = brokers, port
        self._properties, self._listeners = properties or {}, listeners or {}
        self._version, self._announce = version or DEFAULT_VERSION, announce
        self._file = self.directory / "cluster.json"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def running(self) -> bool:
        """Whether a broker runs in the directory, whichever process started it."""
        return any(runs_in(each) for each in self.directory.glob("broker-*"))

    def start(self) -> Self:
        """Start all brokers and return when they serve; if one fails, stop all and raise.

        Raises `PortTakenError`, or `BrokerFailedError` with the last lines of a log.
        """
        if not comes_true(lambda: not self.running, ENDING_SECONDS):
            raise BrokerFailedError(f"a broker runs in {self.directory} already: use it, or stop it")
        java = find_java()
        program = java_program(java, kafka_jars(java, self._version, self._announce), self._announce)
        moves = 0 if self.brokers or self._port or self._file.exists() else _MOVES
        for left in range(moves, -1, -1):
            if not self.brokers:
                self._choose()
            try:
                self._start(program)
                break
            except BaseException as error:
                self.stop(seconds=1)
                if not left or not isinstance(error, PortTakenError):
                    raise
                self._file.unlink()
                self.brokers = ()
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

    def advertised(self, number: int, cluster: Sequence[Ports]) -> Ports:
        """Where clients are told that a broker is; asked once, before it starts."""
        return cluster[number - 1]

    def _choose(self) -> None:
        """Settle who the cluster is and where its brokers listen: as the directory has it, if it was used before."""
        kept = json.loads(self._file.read_text("ascii")) if self._file.exists() else {}
        self.cluster_id = self.cluster_id or kept.get("cluster_id") or settings.new_cluster_id()
        cluster: list[dict[str, int]] = kept.get("ports") or [{} for _ in range(self._number)]
        if self._port:
            cluster[0][PLAIN] = self._port
        for ports in cluster:
            for name in {PLAIN, CONTROLLER, *self._listeners} - {*ports}:
                ports[name] = free_port(*(port for other in cluster for port in other.values()))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({"cluster_id": self.cluster_id, "ports": cluster}), "ascii")
        self.brokers = tuple(self._broker(number, cluster) for number in range(1, len(cluster) + 1))

    def _broker(self, number: int, cluster: Sequence[Ports]) -> Broker:
        place, advertised = self.directory / f"broker-{number}", self.advertised(number, cluster)
        found = settings.properties(number, cluster, advertised, self._listeners, place)
        return Broker(number, place, cluster[number - 1], {**found, **self._properties})

    def _start(self, program: Sequence[str]) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(partial(Broker.prepare, program=program, cluster_id=self.cluster_id), self.brokers))
        for step in (Broker.launch, Broker.wait_until_serving):
            for broker in self.brokers:
                step(broker)
