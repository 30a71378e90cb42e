"""A broker's process and its log.

The process ends with its parent or is detached, and any process finds it through its PID file. Of the log the lines are
shown that say why the broker ended.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from airflow_provider_orderedkafka.tools.embedded import leash

_LOOK_SECONDS = 0.02
_FREEZE_SECONDS = 10.0
_REASONS = 6
_LAST_LINES = 6
_REASON = re.compile(r"\b(ERROR|FATAL)\b|^(Caused by: )?[\w.$]+(Exception|Error)\b|^Error: ")


def comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds; False if it takes longer than that."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


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

    def start(self, program: Sequence[str], *, detached: bool) -> None:
        """Start the program; it ends with this process unless it is detached."""
        self._reap()
        parent = 0 if detached else os.getpid()
        command = [sys.executable, "-I", "-S", leash.__file__, str(parent), str(self._pid_file), str(self._log)]
        self._leash = subprocess.Popen(  # noqa: S603 - our own leash
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


class ServerLog:
    """The file that one broker appends to, over all its starts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = 0

    def begin(self) -> None:
        """Remember that a start begins here; earlier lines are ignored."""
        self._began = self.path.stat().st_size if self.path.exists() else 0

    def mentions(self, text: str) -> bool:
        return any(text in line for line in self._lines())

    def excerpt(self) -> str:
        """Return the first errors of this start and its last lines."""
        lines = self._lines()
        errors = [at for at, line in enumerate(lines) if _REASON.search(line)][:_REASONS]
        wanted = sorted({*errors, *range(max(0, len(lines) - _LAST_LINES), len(lines))})
        return "\n".join(lines[at] for at in wanted) or "(it wrote nothing)"

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(self._began)
            return log.read().decode("utf-8", errors="replace").splitlines()
