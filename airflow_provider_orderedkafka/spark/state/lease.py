"""The lease: one attempt at a time works on a checkpoint.

Each attempt writes a document of its own, under a term that is higher than all it finds. Only then it looks who is
there: of two that start together at least one sees the other. It ends where it sees a higher name, and waits until the
lower ones have let go, are dead processes of this machine, or were seen not to beat their heart for `LEASE`; what their
clocks say proves nothing. A holder looks at each heartbeat, and before each batch, whether a higher name has appeared,
or whether it was itself unable to write for that long; then it has lost the lease, and must stop.
"""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from ...core.batches import Holding
from ...core.checkpoint_files import DOCUMENT, LEASES
from ...errors import FencedError, StateError
from ...storage import State

LEASE = 20.0
"""Seconds without a heartbeat after which a holder counts as gone."""

HEARTBEAT = 4.0
"""Seconds between two heartbeats."""


PROC = Path("/proc")
NOT_KNOWN = 0


class SystemClock:
    def now(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Process(NamedTuple):
    """A process of a machine; its start tells it from a later one with the same ID."""

    machine: str
    number: int
    started: int


class SystemProcesses:
    """Processes by `/proc`. Where there is none, nothing counts as dead, and the lease's time decides.

    A machine is a boot of one kernel and one space of process numbers in it: containers of one host see each other's
    numbers as free, and must not take that for death.
    """

    def this(self) -> Process:
        number = os.getpid()
        return Process(_machine(), number, _started(number) or NOT_KNOWN)

    def is_dead(self, process: Process) -> bool:
        """Whether it has certainly ended; False for processes of other machines."""
        if process.started == NOT_KNOWN or process.machine != _machine():
            return False
        return _started(process.number) != process.started


def _machine() -> str:
    boot, numbers = "", ""
    with suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        numbers = str((PROC / "self/ns/pid").readlink())
    return f"{socket.gethostname()} {boot} {numbers}".strip()


def _started(number: int) -> int | None:
    """Start time in ticks since the boot; None for a process that has ended or is a zombie."""
    try:
        text = (PROC / str(number) / "stat").read_text()
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])


@dataclass(frozen=True, slots=True)
class Outside:
    state: State
    clock: SystemClock
    processes: SystemProcesses
    token: str


class Lease:
    """One attempt's hold on the checkpoint. `acquire` first; `check` before anything that must not happen twice."""

    def __init__(self, outside: Outside, attempt: int | None = None) -> None:
        self._outside = outside
        self._asked = attempt
        self._name = ""
        self._mine: Holding | None = None
        self._beaten = 0.0

    @property
    def attempt(self) -> int:
        return self._held().attempt

    @property
    def term(self) -> str:
        """The name of this hold; that of a later one is higher."""
        return self._name.removeprefix(f"{LEASES}/").removesuffix(DOCUMENT)

    def acquire(self, on_wait: Callable[[Holding], None] = lambda _: None) -> None:
        """Take the lease, waiting for older holders; `FencedError` when a newer one is there."""
        older = self._holdings()
        attempt = self._number(max((each.attempt for each in older.values()), default=0))
        term = 1 + max((int(name.split("-", 1)[0]) for name in older), default=0)
        process = self._outside.processes.this()
        self._name = f"{LEASES}/{term:06d}-{self._outside.token}{DOCUMENT}"
        self._mine = Holding(attempt, *process, beat=0, beat_at=0, let_go=False)
        self._beaten = self._outside.clock.monotonic()
        self._beat()
        try:
            self._wait_for_older(on_wait)
        except BaseException:
            with suppress(StateError):  # found out by whoever waits
                self.let_go()
            raise

    def beat(self) -> None:
        """One heartbeat; `FencedError` when the lease is lost."""
        try:
            self._beat()
        except StateError:
            if self._lapsed():
                raise
        self.check()

    def check(self) -> None:
        """Raise `FencedError` if a newer attempt has appeared, or if the last heartbeat is older than the lease."""
        names = self._outside.state.names(LEASES)
        newest = max(names, default="")
        if newest > self._name.removeprefix(f"{LEASES}/"):
            found = self._read(newest)
            who = f"attempt {found.attempt} (process {found.process} on {found.machine})" if found else newest
            raise FencedError(
                f"attempt {self.attempt} has to end: {who} has taken over this checkpoint. Nothing is lost; follow the "
                f"newer attempt",
                by=who,
            )
        if self._lapsed():
            raise FencedError(
                f"attempt {self.attempt} has to end: it could not renew its lease for {LEASE:.0f} s, so another one "
                f"may have started. Run the same range again"
            )

    def let_go(self) -> None:
        """Release the lease, so that the next attempt need not wait for it to expire."""
        if self._mine is None:
            return
        self._mine = replace(self._mine, let_go=True)
        self._outside.state.put(self._name, self._mine.to_text())

    def _beat(self) -> None:
        """Counts from before it is written, as others may see it at once; too late, it renews nothing."""
        mine, begun = self._held(), self._outside.clock.monotonic()
        self._mine = replace(mine, beat=mine.beat + 1, beat_at=self._outside.clock.now())
        self._outside.state.put(self._name, self._mine.to_text())
        if not self._lapsed():
            self._beaten = begun

    def _number(self, newest: int) -> int:
        if self._asked is None:
            return newest + 1
        if self._asked < newest:
            raise FencedError(
                f"attempt {self._asked} has to end: attempt {newest} has already begun on this checkpoint. Follow that "
                f"one, or start a newer attempt",
                by=f"attempt {newest}",
            )
        return self._asked

    def _wait_for_older(self, on_wait: Callable[[Holding], None]) -> None:
        self.check()
        mine = self._name.removeprefix(f"{LEASES}/")
        for name in [name for name in self._outside.state.names(LEASES) if name < mine]:
            self._wait_for(name, on_wait)
            self._outside.state.delete(f"{LEASES}/{name}")
        self.check()

    def _wait_for(self, name: str, on_wait: Callable[[Holding], None]) -> None:
        clock = self._outside.clock
        beat, since = -1, clock.monotonic()
        announced = False
        while (found := self._read(name)) is not None and not self._is_gone(found):
            if found.beat != beat:
                beat, since = found.beat, clock.monotonic()
            elif clock.monotonic() - since >= LEASE:
                return
            if not announced:
                on_wait(found)
                announced = True
            clock.sleep(HEARTBEAT / 8)
            if clock.monotonic() - self._beaten >= HEARTBEAT:
                self.beat()

    def _is_gone(self, found: Holding) -> bool:
        holder = Process(found.machine, found.process, found.process_started)
        return found.let_go or self._outside.processes.is_dead(holder)

    def _lapsed(self) -> bool:
        return self._outside.clock.monotonic() - self._beaten >= LEASE

    def _holdings(self) -> dict[str, Holding]:
        read = {name: self._read(name) for name in self._outside.state.names(LEASES)}
        return {name: holding for name, holding in read.items() if holding is not None}

    def _read(self, name: str) -> Holding | None:
        text = self._outside.state.get(f"{LEASES}/{name}")
        return None if text is None else Holding.from_text(text)

    def _held(self) -> Holding:
        if self._mine is None:
            raise RuntimeError("the lease was not acquired")
        return self._mine


class Heartbeat:
    """Renews a lease in the background; calls `on_lost` once when it is lost."""

    def __init__(self, lease: Lease, on_lost: Callable[[], None], interval: float = HEARTBEAT) -> None:
        self._lease = lease
        self._on_lost = on_lost
        self._interval = interval
        self._stop = Event()
        self._thread = Thread(target=self._run, name="orderedkafka-lease", daemon=True)
        self.lost: FencedError | StateError | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the heartbeat and wait for the last one."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._lease.beat()
            except (FencedError, StateError) as error:
                self.lost = error
                self._on_lost()
                return
