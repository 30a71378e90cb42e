"""What a small run takes in Airflow, task by task: 3,000 records into a topic, beside a run of four empty tasks.

    python -m benchmarks.airflow_run             medians of five alternating runs
    python -m benchmarks.airflow_run --runs 1

A real Airflow of processes of its own, with its LocalExecutor and SQLite as tests/fault has it (its settings are in
`tests/support/airflow_processes.py`), and Java as it comes. Each run is started over the API, and finds enough to load
at its first look. A task takes what is between its start and its end, by Airflow; what is between the tasks is the
scheduler's.
"""

import statistics
import sys
import tempfile
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import writing
from benchmarks.peers import options
from benchmarks.processor import processor
from broker import LocalKafka

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.airflow_processes import AirflowProcesses
from support.airflow_rest import AirflowRest

RECORDS = 3_000
JAVA = {"SPARK_LAUNCHER_OPTS": "", "SPARK_SUBMIT_OPTS": ""}
"""Java as it comes: not as the tests have it."""

TASKS = ("wait", "resolve", "load", "commit")
DAGS = """
from airflow.sdk import DAG, chain, task
from airflow_provider_orderedkafka import KafkaOutput, OrderedLoad, ordered_load

with DAG("nothing"):

    @task
    def nothing():
        return None

    chain(*(nothing.override(task_id=name)() for name in ("wait", "resolve", "load", "commit")))

for number in range({runs}):
    with DAG(f"load_{{number}}", max_active_runs=1):
        ordered_load(
            OrderedLoad(f"load_{{number}}", topics=["source"], start="earliest"), to=KafkaOutput(f"{name}-{{number}}")
        )
"""


def main() -> None:
    arguments = options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as work, LocalKafka(Path(work) / "kafka") as kafka:
        writing.fill(kafka.bootstrap_servers, "source", RECORDS)
        name = f"output-{uuid.uuid4().hex}"
        for number in range(arguments.runs):
            writing.make(kafka.bootstrap_servers, f"{name}-{number}")
        dags, home = Path(work) / "dags", Path(work) / "airflow"
        dags.mkdir()
        home.mkdir()
        (dags / "loads.py").write_text(DAGS.format(runs=arguments.runs, name=name), encoding="utf-8")
        airflow = AirflowProcesses(home, dags, kafka.bootstrap_servers, JAVA)
        try:
            airflow.start()
            rest = AirflowRest(airflow.url)
            taken: dict[str, list[Mapping[str, float]]] = {"nothing": [], "a load": []}
            for number in range(arguments.runs):
                taken["nothing"].append(timed(rest, "nothing"))
                taken["a load"].append(timed(rest, f"load_{number}"))
        finally:
            airflow.stop()
    print(f"{RECORDS:,} records; seconds, medians of {arguments.runs}")
    for what, runs in taken.items():
        medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        print(f"  {what}: " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in medians.items()))


def timed(rest: AirflowRest, dag: str) -> Mapping[str, float]:
    """The seconds of a run: of each task, between them, all in all, and of the processor."""
    rest.until(lambda: dag in {each["dag_id"] for each in rest.get("/dags")["dags"]}, lambda: f"no DAG {dag!r}", 120)
    before = processor()
    run = rest.trigger(dag)
    assert rest.wait_for_run(dag, run) == "success", rest.story(dag, run)
    worked = processor() - before
    tasks = rest.tasks(dag, run)
    each = {name: _seconds(tasks[name]["start_date"], tasks[name]["end_date"]) for name in TASKS}
    whole = _seconds(_run(rest, dag, run)["queued_at"], tasks["commit"]["end_date"])
    return {**each, "between them": whole - sum(each.values()), "all": whole, "processor": worked}


def _run(rest: AirflowRest, dag: str, run: str) -> Any:
    return rest.get(f"/dags/{dag}/dagRuns/{run}")


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


if __name__ == "__main__":
    main()
