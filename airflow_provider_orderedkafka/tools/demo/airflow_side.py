"""The demo's Airflow: a separate process that runs one DAG with `dag.test()`, as often as it is told to.

    python -m airflow_provider_orderedkafka.tools.demo.airflow_side DAG_FILE

Each line on stdin starts a run. Events go to stdout as JSON lines, the logs of Airflow and Spark to stderr. When stdin
is closed, the process ends with all that it started: even a demo killed by SIGKILL leaves nothing behind.
"""

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from airflow_provider_orderedkafka.compat.airflow import dags_of


class Voice:
    def __init__(self) -> None:
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # from here on, only messages go to the demo

    def tell(self, **what: Any) -> None:
        self._stream.write(json.dumps(what) + "\n")
        self._stream.flush()

    def task(self, task_instance: Any, state: str, error: object = None) -> None:
        self.tell(task=task_instance.task_id, state=state, error=None if error is None else str(error))


def main(dag_file: Path) -> None:
    """Prepare Airflow, then run the DAG for each line of the input."""
    voice, orders = Voice(), _orders()
    dag = _prepare(dag_file)
    _listen(voice)
    voice.tell(ready=dag.dag_id)
    while orders.get():
        voice.tell(run=str(dag.test().state))


def _orders() -> "queue.Queue[str]":
    """The lines of the input, read by a thread that ends this process when there are no more."""
    orders: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            orders.put(line.strip())
        _end_all()

    threading.Thread(target=read, daemon=True).start()
    return orders


def _end_all() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        child.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def _prepare(dag_file: Path) -> Any:
    import httpx
    from airflow.sdk.execution_time.supervisor import in_process_api_server
    from airflow.utils.db import initdb

    initdb()
    with httpx.Client(transport=in_process_api_server().transport, base_url="http://in-process.invalid") as client:
        client.get("health/ping")  # the first request builds the API: now, while the story is written
    (dag,) = dags_of(dag_file, dag_file.parent).values()
    return dag


def _listen(voice: Voice) -> None:
    from airflow.listeners import hookimpl
    from airflow.providers.common.compat.sdk import get_listener_manager

    class Listener:
        @hookimpl
        def on_task_instance_running(self, task_instance: Any) -> None:
            voice.task(task_instance, "running")

        @hookimpl
        def on_task_instance_success(self, task_instance: Any) -> None:
            voice.task(task_instance, "success")

        @hookimpl
        def on_task_instance_skipped(self, task_instance: Any) -> None:
            voice.task(task_instance, "skipped")

        @hookimpl
        def on_task_instance_failed(self, task_instance: Any, error: Any) -> None:
            voice.task(task_instance, "failed", error)

    get_listener_manager().add_listener(Listener())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
