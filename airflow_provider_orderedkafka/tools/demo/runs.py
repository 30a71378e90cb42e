"""The demo's Airflow: a process with its own AIRFLOW_HOME, and the messages that it sends."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.tools.demo import DemoError

READY_SECONDS = 180.0
RUN_SECONDS = 300.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.25

Message = Mapping[str, Any]


class AirflowSide:
    """A process with the example DAG; it starts to set up at once, and ends with the `with` block."""

    def __init__(self, home: Path, dag_file: Path, bootstrap_servers: str, log: Path) -> None:
        self._home = home
        self._dag = home / "dags" / dag_file.name
        self._log = log
        self._dag.parent.mkdir(parents=True)
        shutil.copyfile(dag_file, self._dag)
        self._environment = environment(home, bootstrap_servers)
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        module = "airflow_provider_orderedkafka.tools.demo.airflow_side"
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", module, str(self._dag)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                cwd=self._home,
                start_new_session=True,  # Ctrl-C is for the demo alone, which then ends this process
            )
        threading.Thread(target=self._hear, args=(self._process,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()  # tells it to end, with all that it started
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_until_ready(self) -> None:
        self._until("ready", READY_SECONDS, lambda _: None)

    def run(self, tell: Callable[[Message | None], None]) -> Report:
        """Run the DAG once and return its report; `tell` gets each task's message, and None a few times a second."""
        assert self._process is not None
        assert self._process.stdin is not None
        before = set(self._reports())
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        failed: list[Message] = []

        def hear(message: Message | None) -> None:
            tell(message)
            if message and message.get("state") == "failed":
                failed.append(message)

        ended = self._until("run", RUN_SECONDS, hear)
        new = [report for name, report in self._reports().items() if name not in before]
        if ended["run"] != "success" or len(new) != 1:
            raise DemoError(_why(ended, failed, new))
        return new[0]

    def _until(self, name: str, seconds: float, hear: Callable[[Message | None], None]) -> Message:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                message = self._messages.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                hear(None)
                continue
            if message is None:
                raise DemoError(f"Airflow's process ended unexpectedly{_last_words(self._log)}")
            if name in message:
                return message
            hear(message)
        raise DemoError(f"Airflow did not finish within {seconds:g} seconds")

    def _hear(self, process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            self._messages.put(json.loads(line))
        self._messages.put(None)

    def _reports(self) -> dict[Path, Report]:
        paths = self._home.glob("orderedkafka/*/*/report.json")
        return {path: Report.from_text(path.read_text(encoding="utf-8")) for path in paths}


def environment(home: Path, bootstrap_servers: str) -> dict[str, str]:
    """The environment for Airflow and Spark, without settings of another Airflow or Spark in this shell."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SPARK_", "PYSPARK_"))}
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap_servers}}
    return kept | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__ORDEREDKAFKA__LEDGER": str(home / "ledgers"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def example_dag() -> Path:
    """The example DAG: inside this package if installed, beside it in a checkout."""
    package = Path(__file__).parents[2]
    places = [folder / "orders_ordered.py" for folder in (package / "example_dags", package.parent / "dags")]
    return next((place for place in places if place.is_file()), places[-1])


def _why(ended: Message, failed: list[Message], new: list[Report]) -> str:
    if failed:
        return f"task {failed[0]['task']} failed: {failed[0]['error']}"
    if ended["run"] != "success":
        return f"the DAG run ended as {ended['run']!r}"
    return f"the DAG run succeeded, but left {len(new)} reports instead of one"


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
