"""Start a program that ends with its parent, however that ends.

    python leash.py PARENT LOG PROGRAM [ARGUMENT ...]

Prints the program's process id, closes its own output (the sign that the program was started), and stays for as long
as the program runs; what comes in is the program's alone. When process PARENT is gone, even by kill -9, the program is
killed; when the leash itself is, Linux kills the program.

A process of its own, because the system ties a child to the life of the *thread* that started it, and because
running code between fork and exec is not safe in a process with threads. Only the standard library is imported: it
is run by its path, isolated, to start in a few milliseconds.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_LOOK_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1


def main(parent: int, log: Path, program: list[str]) -> int:
    """Start the program, and watch over it."""
    leash = os.getpid()
    child = os.fork()
    if child == 0:
        _die_with(leash)
        _become(program, log)
    print(child, flush=True)
    os.close(sys.stdin.fileno())
    os.close(sys.stdout.fileno())
    return _watch(child, parent)


def _die_with(leash: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != leash:  # it was gone before the line above took hold
        os._exit(1)


def _become(program: list[str], log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        os.execv(program[0], program)  # noqa: S606 - the user's own Java
    except OSError as error:
        os.write(2, f"{program[0]} cannot be started: {error}\n".encode())
        os._exit(127)


def _watch(child: int, parent: int) -> int:
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) & 0xFF
        if os.getppid() != parent:
            os.kill(child, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
