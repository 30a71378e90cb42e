"""Applications in processes of their own, to be killed: spark-submit with everything that it starts."""

import inspect
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from support import quick_java

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
HOLDING = TESTS / "support" / "holding"
APPS = ROOT / "spark_apps"
LOOK_SECONDS = 0.02
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in a process: a function of the package is called, or returns, for the `number`-th time.

    It counts from when the file `once` is there, in each process by itself. The function is given as itself, so that a
    test whose moment is gone fails where it is collected.
    """

    function: Callable[..., Any]
    event: Literal["call", "return"]
    number: int = 1
    once: str = "/"

    def __str__(self) -> str:
        since = "" if self.once == "/" else f" from {Path(self.once).parent.name}/{Path(self.once).name} on"
        return f"{self.event} {self.number} of {self.function.__qualname__}{since}"

    def held(self, mark: Path) -> dict[str, str]:
        """The environment in which a process is held at this moment, and makes the file `mark`."""
        function = inspect.unwrap(self.function)
        place = {"file": f"{function.__module__.replace('.', '/')}.py", "function": function.__qualname__}
        how = {"event": self.event, "number": self.number, "once": self.once, "mark": str(mark)}
        return {"ORDEREDKAFKA_HOLD": json.dumps(place | how)}


_started: "list[Submitted]" = []


def end_what_was_started() -> None:
    """Kill the applications that a failed test has left running."""
    while _started:
        application = _started.pop()
        if application.running:
            application.kill()


class Submitted:
    """One spark-submit of a packaged application, from start to its end, good or bad.

    With a moment it is held there, to be killed. `home` is the environment whose Spark and Python run it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        *,
        app: str = "ordered_replay.py",
        submit: Sequence[str] = ("--master", "local[2]"),
        environment: Mapping[str, str] | None = None,
        hold: Moment | None = None,
        home: Path = quick_java.OURS,
    ) -> None:
        folder = log.parent
        self._log = log
        self._frozen: list[psutil.Process] = []
        self._mark = log.with_name("held")
        self._mark.unlink(missing_ok=True)
        with log.open("ab") as out:
            self._process = psutil.Popen(
                [*_spark_submit(home, folder), *submit, str(APPS / app), *argv],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_usual(home, self._held(hold)), **(environment or {})},
                cwd=folder,
                start_new_session=True,
            )
        _started.append(self)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait(self, seconds: float = 280) -> int:
        """Its exit code, when it has ended by itself."""
        return self._process.wait(seconds)

    def until(self, reached: Callable[[], object], seconds: float = 280) -> bool:
        """Wait until something holds; false where the application ended before."""
        deadline = time.monotonic() + seconds
        while not reached():
            if not self.running:
                return False
            assert time.monotonic() < deadline, f"not reached in {seconds} s: {self.log()[-2000:]}"
            time.sleep(LOOK_SECONDS)
        return True

    def until_held(self) -> bool:
        """Wait until it stands at its moment; false where it ended before."""
        return self.until(self._mark.exists)

    def let_go(self) -> None:
        """Let it go on from the moment where it is held."""
        self._mark.unlink()

    def freeze(self) -> None:
        """Stop driver, JVM and Python workers where they are, as a virtual machine is stopped."""
        self._frozen = self._family()
        for process in self._frozen:
            process.suspend()

    def thaw(self) -> None:
        """Let what was frozen go on, and from the moment where it is held."""
        self._mark.unlink(missing_ok=True)
        for process in self._frozen:
            process.resume()

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

    def tell_driver_to_end(self) -> None:
        """Send the Python driver what ends a task of Airflow's, or a person's `kill`."""
        pythons = [each for each in self._process.children() if "python" in each.name()]
        [driver] = [each for each in pythons if not _is_worker(each)]
        driver.terminate()

    def kill_workers(self) -> int:
        """Kill the Python workers that run tasks; how many there were."""
        workers = [each for each in self._family() if _is_worker(each)]
        tasks = [each for each in workers if any(_is_worker(parent) for parent in each.parents())]
        self._kill(tasks)
        return len(tasks)

    def log(self) -> str:
        """All that it printed."""
        return self._log.read_text("utf-8", "replace")

    def _held(self, moment: Moment | None) -> dict[str, str]:
        if moment is None:
            return {}
        return moment.held(self._mark)

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


def _spark_submit(home: Path, folder: Path) -> list[str]:
    settings = {**SETTINGS, "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    options = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    java = ("--driver-java-options", f"-Djava.io.tmpdir={folder}")
    return [str(home / "bin" / "spark-submit"), *options, *java]


def _usual(home: Path, held: dict[str, str]) -> dict[str, str]:
    folders = [ROOT, TESTS, *([HOLDING] if held else [])]
    paths = {"PYSPARK_PYTHON": str(home / "bin" / "python"), "PYTHONPATH": ":".join(map(str, folders))}
    return {**quick_java.environment(home), **paths, **held}


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "pyspark.worker" in process.cmdline()  # what any daemon is told to run
    except psutil.Error:
        return False


def executable(path: Path, text: str) -> Path:
    """A script there that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
