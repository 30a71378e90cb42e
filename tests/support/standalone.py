"""A standalone Spark cluster on loopback: a master and some workers, each a process of its own, from pyspark's jars."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark

from airflow_provider_orderedkafka.tools.doctor.installed import find_java

HOME = Path(pyspark.__file__).parent
EXECUTOR = "CoarseGrainedExecutorBackend"
READY_SECONDS = 60
LOOK_SECONDS = 0.1
ENVIRONMENT = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
"""What Spark's own scripts would set for a worker that starts executors."""


class Standalone:
    """A master with workers of one core each; `.master` is its address."""

    def __init__(self, folder: Path, workers: int, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = {**os.environ, **ENVIRONMENT, **environment}
        self._processes: list[psutil.Popen] = []
        self.master = self._start("master.Master", "--port", "0", ready=r"Starting Spark master at (spark://\S+)")
        for _ in range(workers):
            self._start(
                *("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), self.master),
                ready=r"(Successfully registered) with master",
            )

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs that live."""
        children = [child for each in self._processes for child in each.children(recursive=True)]
        return [child for child in children if EXECUTOR in " ".join(_command(child))]

    def stop(self) -> None:
        """Kill everything."""
        family = [each for one in self._processes for each in (one, *one.children(recursive=True))]
        for each in family:
            each.kill()
        psutil.wait_procs(family, 30)

    def _start(self, name: str, *arguments: str, ready: str) -> str:
        log = self._folder / f"{len(self._processes)}.log"
        command = [str(find_java().executable), "-cp", f"{HOME / 'jars' / '*'}", "-Xmx256m", "-XX:+UseSerialGC"]
        command += [f"-Djava.io.tmpdir={self._folder}", f"org.apache.spark.deploy.{name}"]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with log.open("wb") as out:
            process = psutil.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=self._environment, cwd=self._folder
            )
        self._processes.append(process)
        deadline = time.monotonic() + READY_SECONDS
        while not (found := re.search(ready, log.read_text("utf-8", "replace"))):
            assert process.is_running(), log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(LOOK_SECONDS)
        return found[1]


@contextmanager
def standalone(folder: Path, workers: int, environment: dict[str, str]) -> Iterator[Standalone]:
    """A cluster that is gone at the end."""
    folder.mkdir()
    cluster = Standalone(folder, workers, environment)
    try:
        yield cluster
    finally:
        cluster.stop()


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
