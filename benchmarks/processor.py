"""The processor's time of a benchmark's whole tree: this process, Spark's, its Python workers, the broker."""

import psutil


def processor(root: psutil.Process | None = None) -> float:
    """Seconds so far of a process (this one) and all that it started; what has ended counts once its parent waited."""
    root = root or psutil.Process()
    return _seconds(root) + sum(map(_seconds, root.children(recursive=True)))


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
