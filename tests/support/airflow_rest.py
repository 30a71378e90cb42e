"""What a person does at Airflow's page, over the API that the page itself uses."""

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from threading import Lock
from typing import Any

import httpx

ENDED = frozenset({"success", "failed"})
DONE = ENDED | {"skipped", "upstream_failed"}
PATIENCE = 600.0
LOOK_SECONDS = 0.6


class AirflowRest:
    """A client of one Airflow. Answers other than success are errors that show what was said.

    While something is waited for, `check` is called: it fails where Airflow does not run any more.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, check: Callable[[], None] = lambda: None
    ) -> None:
        self._check = check
        self._one_by_one = Lock()
        self._client = httpx.Client(base_url=f"{url}/api/v2", timeout=120, headers=headers)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def get(self, path: str, **params: Any) -> Any:
        """What lies there."""
        return self._ask("GET", path, params=params)

    def unpause(self, dag: str) -> None:
        """Switch a DAG on, and have it parsed: its watchers start with that."""
        switched = self._ask("PATCH", f"/dags/{dag}", json={"is_paused": False})
        answer = self._send("PUT", f"/parseDagFile/{switched['file_token']}")
        # A conflict says that the file waits to be parsed already, since another of its DAGs was switched on.
        assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, f"{dag}: {answer.text[:2000]}"

    def pause(self, dag: str) -> None:
        """Switch a DAG off."""
        self._ask("PATCH", f"/dags/{dag}", json={"is_paused": True})

    def trigger(self, dag: str, conf: dict[str, Any] | None = None, at: str | None = None) -> str:
        """Start a run, at a moment or now; its id."""
        body = {"logical_date": at, "conf": conf or {}}
        return str(self._ask("POST", f"/dags/{dag}/dagRuns", json=body)["dag_run_id"])

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """All runs of a DAG, the oldest first."""
        found: list[dict[str, Any]] = self.get(f"/dags/{dag}/dagRuns", order_by="run_after", limit=100)["dag_runs"]
        return found

    def run_state(self, dag: str, run: str) -> str:
        """The state of a run."""
        return str(self.get(f"/dags/{dag}/dagRuns/{run}")["state"])

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        """A run's tasks by their names within their group."""
        found = self.get(f"/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"].rpartition(".")[2]: task for task in found}

    def clear(self, dag: str, run: str, *tasks: str, downstream: bool = False) -> None:
        """Clear these tasks of a run, whatever their states, as the page's button does."""
        body = {
            "dry_run": False,
            "dag_run_id": run,
            "task_ids": list(tasks),
            "only_failed": False,
            "include_downstream": downstream,
        }
        self._settle(dag, run)
        before = self._ids(dag, run, tasks)
        self._ask("POST", f"/dags/{dag}/clearTaskInstances", json=body)
        # Airflow may answer before it has written that down.
        self.until(lambda: before.isdisjoint(self._ids(dag, run, tasks)), lambda: f"{tasks} were not cleared")

    def mark(self, dag: str, run: str, task: str, state: str) -> None:
        """Mark a task by hand."""
        self._ask("PATCH", f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}", json={"new_state": state})

    def backfill(self, dag: str, begin: str, end: str, most: int) -> None:
        """Start a backfill."""
        body = {"dag_id": dag, "from_date": begin, "to_date": end, "max_active_runs": most}
        self._ask("POST", "/backfills", json=body)

    def make_pool(self, name: str, slots: int) -> None:
        """Make a pool."""
        self._ask("POST", "/pools", json={"name": name, "slots": slots})

    def size_pool(self, name: str, slots: int) -> None:
        """Let so many tasks of a pool run."""
        self._ask("PATCH", f"/pools/{name}", json={"pool": name, "slots": slots, "include_deferred": False})

    def xcom(self, dag: str, run: str, task: str, key: str = "return_value") -> Any:
        """What a task told under a key; None where it told nothing."""
        path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/{key}"
        answer = self._client.get(path)
        return None if answer.status_code == httpx.codes.NOT_FOUND else answer.json()["value"]

    def log(self, dag: str, run: str, task: str, attempt: int = 1) -> list[str]:
        """What a task wrote in an attempt, line by line."""
        path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}"
        content = self._ask("GET", path, params={"full_content": True}, headers={"Accept": "application/json"})
        return [_line(line) for line in content["content"]]

    def asset_state(self, uri: str, key: str) -> Any:
        """A value of an asset's state store; None where there is none."""
        assets = self.get("/assets", uri_pattern=uri, limit=100)["assets"]
        numbers = [asset["id"] for asset in assets if asset["uri"] == uri]
        if not numbers:
            return None
        answer = self._client.get(f"/assets/{numbers[0]}/state-store/{key}")
        return None if answer.status_code == httpx.codes.NOT_FOUND else answer.json()["value"]

    def wait_for_run(self, dag: str, run: str, seconds: float = PATIENCE) -> str:
        """The state that a run ends in."""
        self.until(lambda: self.run_state(dag, run) in ENDED, lambda: self.story(dag, run), seconds)
        return self.run_state(dag, run)

    def wait_for_task(self, dag: str, run: str, task: str, *states: str | None, seconds: float = PATIENCE) -> None:
        """Return when a task is in one of these states."""
        self.until(
            lambda: self.tasks(dag, run)[task]["state"] in states,
            lambda: f"{task} never was {states}\n{self.story(dag, run)}",
            seconds,
        )

    def until(self, true: Callable[[], object], otherwise: Callable[[], str], seconds: float = PATIENCE) -> None:
        """Return when something holds."""
        deadline = time.monotonic() + seconds
        while not true():
            self._check()
            assert time.monotonic() < deadline, f"not within {seconds} s: {otherwise()}"
            time.sleep(LOOK_SECONDS)

    def story(self, dag: str, run: str) -> str:
        """What became of a run, for the message of a failed test."""
        tasks = self.tasks(dag, run)
        lines = [f"run {run} of {dag} is {self.run_state(dag, run)}"]
        for name, task in tasks.items():
            lines.append(f"- {name} is {task['state']}, attempt {task['try_number']}")
            if task["try_number"] and task["state"] not in {"success", None}:
                lines += [f"    {line}" for line in self.log(dag, run, task["task_id"], task["try_number"])[-25:]]
        return "\n".join([*lines, *self._noted(dag, run)])

    def _noted(self, dag: str, run: str) -> list[str]:
        """What Airflow itself has noted of a run, such as that it took a task for ended that was not."""
        found = self.get("/eventLogs", dag_id=dag, run_id=run, limit=100)["event_logs"]
        return [f"- {each['when']} {each['task_id'] or ''} {each['event']}: {each['extra']}" for each in found]

    def _settle(self, dag: str, run: str) -> None:
        """Where all tasks have ended, let the run end too: Airflow forgets what is cleared while it decides that."""
        if all(task["state"] in DONE for task in self.tasks(dag, run).values()):
            self.wait_for_run(dag, run)

    def _ids(self, dag: str, run: str, tasks: Collection[str]) -> set[str]:
        """What changes each time that a task is cleared."""
        return {task["id"] for task in self.tasks(dag, run).values() if task["task_id"] in tasks}

    def _ask(self, how: str, path: str, **more: Any) -> Any:
        answer = self._send(how, path, **more)
        assert answer.is_success, f"{how} {path}: {answer.status_code} {answer.text[:2000]}"
        return answer.json() if answer.content else None

    def _send(self, how: str, path: str, **more: Any) -> httpx.Response:
        """The answer, be it an error, of an Airflow that had the time to do what it was asked.

        Of two changes at a time one may hold SQLite's lock and wait for the other, which waits for the lock: for 30 s
        nobody writes, and the scheduler, which has no more patience either, ends.
        """
        deadline = time.monotonic() + PATIENCE
        with nullcontext() if how == "GET" else self._one_by_one:
            answer = self._client.request(how, path, **more)
            while _crowded(answer) and time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS)
                answer = self._client.request(how, path, **more)
        return answer


def _crowded(answer: httpx.Response) -> bool:
    """Whether Airflow did nothing because somebody else wrote to SQLite at the same moment."""
    reason = answer.text if answer.is_server_error else ""
    return re.search("Database (error|is locked)", reason) is not None


def _line(line: str | dict[str, Any]) -> str:
    """A line of a log, with the errors that the page shows beneath it."""
    if isinstance(line, str):
        return line
    errors = [f"{error['exc_type']}: {error['exc_value']}" for error in line.get("error_detail") or ()]
    return " / ".join([str(line["event"]), *errors])
