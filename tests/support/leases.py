"""What leases are held with in tests: a clock, processes and stores of the test's own, and attempts as actors."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from airflow_provider_orderedkafka.errors import FencedError
from airflow_provider_orderedkafka.spark.state.lease import HEARTBEAT, Lease, Outside, Process
from airflow_provider_orderedkafka.storage import State
from support.interleaving import Actor, touch

LATENCY = 0.3

HERE = Process("here", 10, 1)
ELSEWHERE = Process("elsewhere", 10, 1)


@dataclass
class Clock:
    """Time that passes when somebody sleeps; what should happen at a moment happens then."""

    seconds: float = 1_000_000.0
    at: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def now(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        due = [each for each in self.at if each[0] <= self.seconds]
        self.at = [each for each in self.at if each[0] > self.seconds]
        for _, happen in due:
            happen()


@dataclass
class Ahead:
    """The same time as another clock has, but for the hands."""

    clock: Clock
    seconds: float

    def now(self) -> int:
        return self.clock.now() + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)


@dataclass
class Slow:
    """A store that takes a while, and does what it is asked for somewhere in the middle of that."""

    state: State
    clock: Clock
    latency: Callable[[], float] = lambda: LATENCY / 2
    location: str = "slow"

    def __getattr__(self, name: str) -> Callable[..., object]:
        def asked(*arguments: str) -> object:
            self.clock.sleep(self.latency())
            answer = getattr(self.state, name)(*arguments)
            self.clock.sleep(self.latency())
            return answer

        return asked


@dataclass
class Touched:
    """A store each of whose answers another actor may come before."""

    state: State
    location: str = "touched"

    def __getattr__(self, name: str) -> Callable[..., object]:
        def asked(*arguments: str) -> object:
            touch(f"{name} {arguments}")
            return getattr(self.state, name)(*arguments)

        return asked


@dataclass
class Shared(Clock):
    """A clock of several actors: who sleeps says until when, and the others may move."""

    def sleep(self, seconds: float) -> None:
        until = self.seconds + seconds
        touch(f"sleep until {until}")
        self.seconds = max(self.seconds, until)


@dataclass
class Processes:
    me: Process
    dead: set[Process] = field(default_factory=set)

    def this(self) -> Process:
        return self.me

    def is_dead(self, process: Process) -> bool:
        return process in self.dead


@dataclass
class World:
    state: State
    clock: Clock = field(default_factory=Clock)
    dead: set[Process] = field(default_factory=set)

    def lease(
        self, token: str, process: Process = HERE, attempt: int | None = None, state: State | None = None
    ) -> Lease:
        return Lease(Outside(state or self.state, self.clock, Processes(process, self.dead), token), attempt)


class Working:
    """An attempt that works for a while once it holds the lease, as an actor."""

    def __init__(self, token: str, state: State, clock: Clock, after: float = 0.0) -> None:
        self.lease = Lease(Outside(state, clock, Processes(Process(token, 1, 1)), token))
        self.inside = self.through = False
        self._clock = clock
        self._after = after
        self.actor = Actor(self._work)

    @property
    def until(self) -> float:
        return float((self.actor.before or "").removeprefix("sleep until ").replace("its beginning", "0"))

    def _work(self) -> None:
        self._clock.sleep(self._after)
        try:
            self.lease.acquire()
            self.inside = True
            for _ in range(5):
                self._clock.sleep(HEARTBEAT)
                self.lease.beat()
            self.through = True
        except FencedError:
            pass
        self.inside = False
        with suppress(RuntimeError):
            self.lease.let_go()


def holds(lease: Lease) -> bool:
    """Whether it may write: it was not silent for the time of the lease, whatever it has not seen yet."""
    try:
        lease.check()
    except FencedError as error:
        return error.by is not None
    return True
