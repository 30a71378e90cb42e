"""A Kafka behind a network that fails: another listener, which is reached through a proxy alone.

with ProxiedKafka(directory) as kafka:
    kafka.proxied_servers           where clients come in by the proxy, and are told to come again
    kafka.proxy.does("stall")       from now on, until it "passes" again
"""

import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from broker import HOST, LocalKafka, free_port
from broker.settings import Ports

Way = Literal["pass", "cut", "stall", "mute", "slow", "refuse"]
WAYS: Final[tuple[Way, ...]] = ("cut", "stall", "mute", "slow", "refuse")
"""All connections end; nothing goes through; answers do not; all is slow; connections end, and so do new ones."""

_CHUNK: Final = 65_536
_LOOK_SECONDS: Final = 0.02
_SLOW_SECONDS: Final = 0.1


class Proxy:
    """Passes connections on to a port, as long as it does not do something else.

    `answered` is how many bytes have come back through it so far, `asked` how often a client has sent something.
    """

    def __init__(self, port: int, to: int) -> None:
        self.port = port
        self.done: list[Way] = []
        self.answered = self.asked = 0
        self._to = to
        self._way: Way = "pass"
        self._open: set[socket.socket] = set()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def does(self, way: Way) -> None:
        self.done.append(way)
        self._way = "pass" if way == "cut" else way
        if way in ("cut", "refuse"):
            for each in list(self._open):
                self._end(each)

    def close(self) -> None:
        self._over.set()
        self._listener.close()
        self.does("cut")

    @contextmanager
    def at_random(self, chance: random.Random, seconds: float) -> Iterator[None]:
        """Something else every moment, for so long or until the block ends; then it passes everything."""
        over, until = threading.Event(), time.monotonic() + seconds

        def go_on() -> None:
            while time.monotonic() < until and not over.wait(chance.uniform(0.2, 1.5)):
                self.does(chance.choice(WAYS))
                over.wait(chance.uniform(0.2, 2.0))
                self.does("pass")
            self.does("pass")

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._way == "refuse":
                client.close()
                continue
            try:
                broker = socket.create_connection((HOST, self._to))
            except OSError:
                client.close()
                continue
            self._open |= {client, broker}
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink, answers in ((client, broker, False), (broker, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, answers), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                while self._way == "stall" or (self._way == "mute" and answers):
                    time.sleep(_LOOK_SECONDS)
                if self._way == "slow":
                    time.sleep(_SLOW_SECONDS)
                with self._lock:
                    self.answered += len(data) if answers else 0
                    self.asked += not answers
                sink.sendall(data)
        for each in (source, sink):
            self._end(each)

    def _end(self, each: socket.socket) -> None:
        self._open.discard(each)
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


class ProxiedKafka(LocalKafka):
    """Brokers, each with a plain listener and one behind a proxy; `proxy` is that of the first."""

    def __init__(self, directory: Path, brokers: int = 1) -> None:
        super().__init__(directory, brokers, listeners={"PROXIED": "PLAINTEXT"})
        self.proxies: dict[int, Proxy] = {}

    @property
    def proxy(self) -> Proxy:
        return self.proxies[1]

    @property
    def proxied_servers(self) -> str:
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self.proxies.values())

    @property
    def answered(self) -> int:
        """How many bytes have come back through all proxies so far."""
        return sum(proxy.answered for proxy in self.proxies.values())

    def stop(self, *args: Any, **more: Any) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        super().stop(*args, **more)

    def advertised(self, number: int, cluster: Sequence[Ports]) -> Ports:
        """Behind a proxy, which is made here."""
        ports = cluster[number - 1]
        taken = [port for each in cluster for port in each.values()]
        self.proxies[number] = Proxy(free_port(*taken), ports["PROXIED"])
        return {**ports, "PROXIED": self.proxies[number].port}
