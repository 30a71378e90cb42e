"""The clock and the processes of this machine, for the lease."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from airflow_provider_orderedkafka.spark.state.lease import Process

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


class SystemProcesses:
    """Processes by `/proc`. Where there is none, nothing counts as dead, and the lease's time decides.

    A machine is a boot of one kernel and one space of process numbers in it: containers of one host see each other's
    numbers as free, and must not take that for death.
    """

    def this(self) -> Process:
        number = os.getpid()
        return Process(_machine(), number, _started(number) or NOT_KNOWN)

    def is_dead(self, process: Process) -> bool:
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
