"""The processor's time of a benchmark's whole tree: this process, Spark's, its Python workers, the broker."""

from collections.abc import Mapping

import psutil


def processor(root: psutil.Process | None = None) -> float:
    """Seconds so far of a process (this one) and all that it started; what has ended counts once its parent waited."""
    root = root or psutil.Process()
    return _seconds(root) + sum(map(_seconds, root.children(recursive=True)))


def _seconds(process: psutil.Process, *, ended: bool = True) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + (times.children_user + times.children_system if ended else 0.0))


def living() -> Mapping[psutil.Process, float]:
    """The seconds so far of each process of the tree, without those that have ended."""
    own = psutil.Process()
    return {each: _seconds(each, ended=False) for each in (own, *own.children(recursive=True))}


def since(before: Mapping[psutil.Process, float]) -> float:
    """What those that live now have taken since then, in a session that runs: Spark ends workers that are idle for a
    minute, whose seconds nobody may have waited for."""
    return sum(seconds - before.get(process, 0.0) for process, seconds in living().items())
