"""A broker's process: it ends with its parent, and any process finds it through its PID file."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_orderedkafka.tools.broker.local_kafka import comes_true
from support.embedded import leash

_FREEZE_SECONDS = 10.0


class ServerProcess:
    """The program whose process ID is in a file; `mark` on its command line proves that it is still that one."""

    def __init__(self, pid_file: Path, log: Path, mark: str) -> None:
        self._pid_file = pid_file
        self._log = log
        self._mark = mark
        self._leash: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        import psutil

        with contextlib.suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int(self._pid_file.read_text(encoding="ascii")))
            command_line = process.cmdline()  # empty for a moment while the leash becomes the program
            if process.status() != psutil.STATUS_ZOMBIE and (not command_line or self._mark in command_line):
                return int(process.pid)
        return None

    def start(self, program: Sequence[str]) -> None:
        """Start the program; it ends with this process."""
        self._reap()
        self._log.unlink(missing_ok=True)
        command = [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), str(self._pid_file), str(self._log)]
        self._leash = subprocess.Popen(
            [*command, *program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=self._pid_file.parent,
            start_new_session=True,  # Ctrl-C is for this process alone: it stops the broker in its own order
        )
        if self._leash.stdout:
            with self._leash.stdout as output:
                output.read()

    def signal(self, number: signal.Signals) -> None:
        if pid := self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def freeze(self) -> None:
        """Send SIGSTOP, and wait until the process has stopped."""
        self.signal(signal.SIGSTOP)
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            comes_true(
                lambda: not (pid := self.pid) or psutil.Process(pid).status() == psutil.STATUS_STOPPED, _FREEZE_SECONDS
            )

    def ended_within(self, seconds: float) -> bool:
        """Wait for the program to end; whether it did."""
        ended = comes_true(lambda: self.pid is None, seconds)
        if ended:
            self._reap()
        return ended

    def _reap(self) -> None:
        if self._leash:
            self._leash.wait()
            self._leash = None
