"""Applications in processes of their own, to be killed: spark-submit with everything that it starts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
APPS = ROOT / "spark_apps"
LOOK_SECONDS = 0.005


class Submitted:
    """One spark-submit of a packaged application, from start to its end, good or bad."""

    def __init__(
        self, argv: Sequence[str], log: Path, *, app: str = "ordered_replay.py", conf: Sequence[str] = ()
    ) -> None:
        submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
        quiet = ["spark.ui.enabled=false", "spark.log.level=ERROR", "spark.driver.bindAddress=127.0.0.1", *conf]
        options = [part for each in quiet for part in ("--conf", each)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        self._log = log
        with log.open("ab") as out:
            self._process = psutil.Popen(
                [*submit, *options, str(APPS / app), *argv],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait(self, seconds: float = 120) -> int:
        """Its exit code, when it has ended by itself."""
        return self._process.wait(seconds)

    def until(self, reached: Callable[[], object], seconds: float = 120) -> bool:
        """Wait until something holds; false where the application ended before."""
        deadline = time.monotonic() + seconds
        while not reached():
            if not self.running:
                return False
            assert time.monotonic() < deadline, f"not reached in {seconds} s: {self.log()[-2000:]}"
            time.sleep(LOOK_SECONDS)
        return True

    def kill(self) -> None:
        """Kill driver, JVM and Python workers at once, as a machine that stops does."""
        self._kill(self._family())
        self._process.wait(30)

    def kill_driver(self) -> None:
        """Kill the JVM and the Python driver; its workers find out by themselves, and may write a moment longer."""
        family = self._family()
        self._kill([each for each in family if not _is_worker(each)])
        self._process.wait(30)
        psutil.wait_procs(family, 30)

    def kill_workers(self) -> int:
        """Kill the Python workers that run tasks; how many there were."""
        workers = [each for each in self._family() if _is_worker(each)]
        self._kill([each for each in workers if any(_is_worker(parent) for parent in each.parents())])
        return len(workers)

    def log(self) -> str:
        """All that it printed."""
        return self._log.read_text("utf-8", "replace")

    def _family(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _kill(self, processes: Sequence[psutil.Process]) -> None:
        for process in processes:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any("pyspark.daemon" in part or "pyspark/daemon" in part for part in process.cmdline())
    except psutil.Error:
        return False
