"""A service that runs Spark applications, as far as a request tells: it runs what the request's command line says."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

from support.bench import APPLICATION

ARGUMENTS: dict[str, Callable[[Any], list[str]]] = {
    "spark_application": lambda request: request["spec"]["arguments"],
    "livy_batch": lambda request: request["args"],
    "emr_serverless_job": lambda request: request["sparkSubmit"]["entryPointArguments"],
    "dataproc_batch": lambda request: request["pyspark_batch"]["args"],
    "databricks_run": lambda request: request["spark_python_task"]["parameters"],
}
"""For each function of the page: where the application's arguments are in what it gives."""


def run(arguments: list[str], folder: Path) -> int:
    """Run a quick application in place of Spark's."""
    command = [sys.executable, str(APPLICATION), *arguments, "--diary", str(folder / "diary")]
    return subprocess.run(command, check=False).returncode


class Service(BaseOperator):
    """Keeps the request, and runs the application."""

    template_fields = ("request",)

    def __init__(self, *, request: Any, kind: str, folder: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request, self.kind, self.folder = request, kind, folder

    def execute(self, context: Any) -> None:
        folder = Path(self.folder)
        (folder / "request.json").write_text(json.dumps(self.request))
        assert run(ARGUMENTS[self.kind](self.request), folder) == 0


SERVERS = "kafka.bootstrap.servers={{ conn.kafka_default.extra_dejson['bootstrap.servers'] }}"


def by_shell(launch: Any) -> BaseOperator:
    """An operator that runs the launch's command line in a shell, and asks for its report."""
    from airflow.providers.standard.operators.bash import BashOperator

    command = " ".join([sys.executable, launch.application, *launch.arguments, "--option", f'"{SERVERS}"'])
    return BashOperator(
        bash_command=f'{command}; code=$?; test -f "$REPORT" && exit $code',
        env={"REPORT": launch.report},
        append_env=True,
        **launch.task,
    )
