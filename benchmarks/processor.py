"""The processor's time of a benchmark's whole tree: this process, Spark's, its Python workers, the broker."""

import os
import time

import psutil


def processor() -> float:
    """Seconds so far of this process and all that it started; what has ended counts once its parent waited for it."""
    ended = os.times()
    own = time.process_time() + ended.children_user + ended.children_system
    return own + sum(map(_seconds, psutil.Process().children(recursive=True)))


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
