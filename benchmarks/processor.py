"""The processor's time of this process, of all that it started, and of others beside them."""

import os
import time

import psutil


def processor(*beside: int) -> float:
    """Seconds so far; what a process used that has ended is its parent's, once that has waited for it."""
    ended = os.times()
    living = [each.pid for each in psutil.Process().children(recursive=True)]
    own = time.process_time() + ended.children_user + ended.children_system
    return own + sum(map(_seconds, {*living, *beside}))


def _seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
