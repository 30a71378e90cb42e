"""Services that run Spark, on loopback: they take the requests of Airflow's operators, and run what these ask for.

Each runs the command line that it got with a real spark-submit, in an environment without Airflow.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pyspark
from airflow.sdk import BaseOperator

from support import quick_java

SPARK_HOME = Path(pyspark.__file__).parent


class Runs:
    """The applications that were asked for, by their ids."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._python, self._folder = python, folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._cancelled: set[str] = set()
        self.requests: list[Any] = []

    def start(self, submit: Sequence[str], environment: Mapping[str, str]) -> str:
        """Run spark-submit with these arguments; the run's id."""
        run = str(len(self._processes) + 1)
        own = {name: text for name, text in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON", "ORDERED"))}
        own |= {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": str(self._python), **quick_java.environment()}
        with self._log(run).open("wb") as log:
            self._processes[run] = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", *submit],
                env={**own, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return run

    def state(self, run: str) -> str:
        code = self._processes[run].poll()
        if run in self._cancelled:
            return "cancelled"
        return "running" if code is None else "failed" if code else "success"

    def running(self) -> int:
        return [self.state(each) for each in self._processes].count("running")

    def why(self, run: str) -> str:
        """The last line that the application printed."""
        return self.printed(run).strip().rpartition("\n")[2]

    def printed(self, run: str) -> str:
        return self._log(run).read_text("utf-8", "replace")

    def cancel(self, run: str) -> None:
        if self.state(run) == "running":
            self._cancelled.add(run)
        self._kill(self._processes[run])

    def end(self) -> None:
        for process in self._processes.values():
            self._kill(process)

    @staticmethod
    def _kill(process: "subprocess.Popen[bytes]") -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _log(self, run: str) -> Path:
        return self._folder / f"run-{run}.log"


Route = Callable[..., Any]
"""What answers, given the request's body and the parts of its path."""


class RefusedError(Exception):
    """A request is refused, with an error of this name, as services of Amazon say it."""


@contextmanager
def serving(routes: Mapping[str, Route], created: int = 200) -> Iterator[str]:
    """A server that answers by "METHOD /path", a pattern; its URL. `created` is the status of what was posted."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            asked = f"{self.command} {self.headers.get('X-Amz-Target') or path}"
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            body = body or dict(parse_qsl(query))
            for pattern, route in routes.items():
                if found := re.fullmatch(pattern, asked):
                    try:
                        return self._say(created if self.command == "POST" else 200, route(body, *found.groups()))
                    except RefusedError as refused:
                        return self._say(400, {"__type": refused.args[0], "message": refused.args[0]})
            return self._say(404, {"message": f"{asked} is not known here"})

        do_POST = do_PUT = do_DELETE = do_PATCH = do_GET  # noqa: N815 - the base's names

        def _say(self, status: int, answer: Any) -> None:
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, bytes) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def emr_serverless(runs: Runs) -> dict[str, Route]:
    """Amazon EMR Serverless, with one application that has started."""
    states = {"running": "RUNNING", "failed": "FAILED", "success": "SUCCESS", "cancelled": "CANCELLED"}

    def start(body: Any, application: str) -> Any:
        runs.requests.append(body)
        asked = body["jobDriver"]["sparkSubmit"]
        submit = [*shlex.split(asked["sparkSubmitParameters"]), asked["entryPoint"], *asked["entryPointArguments"]]
        return {"applicationId": application, "jobRunId": runs.start(submit, {}), "arn": "arn:aws:emr-serverless:run"}

    def look(_: Any, application: str, run: str) -> Any:
        state = {"state": states[runs.state(run)], "stateDetails": runs.why(run)}
        return {"jobRun": {"applicationId": application, "jobRunId": run, **state}}

    def cancel(_: Any, application: str, run: str) -> Any:
        runs.cancel(run)
        return {"applicationId": application, "jobRunId": run}

    return {
        "GET /applications/([^/]+)": lambda _, each: {"application": {"applicationId": each, "state": "STARTED"}},
        "POST /applications/([^/]+)/jobruns": start,
        "GET /applications/([^/]+)/jobruns/([^/]+)": look,
        "DELETE /applications/([^/]+)/jobruns/([^/]+)": cancel,
    }


def emr_steps(runs: Runs) -> dict[str, Route]:
    """An EMR cluster that takes steps."""
    states = {"running": "RUNNING", "failed": "FAILED", "success": "COMPLETED", "cancelled": "CANCELLED"}

    def start(body: Any) -> Any:
        runs.requests.append(body)
        (step,) = body["Steps"]
        program, mode, cluster, *submit = step["HadoopJarStep"]["Args"]
        assert (program, mode, cluster) == ("spark-submit", "--deploy-mode", "cluster")  # there is none here
        return {"StepIds": [runs.start(submit, {})]}

    def look(body: Any) -> Any:
        return {"Steps": [{"Id": run, "Status": status(run)} for run in body["StepIds"]]}

    def status(run: str) -> Any:
        return {"State": states[runs.state(run)], "FailureDetails": {"Message": runs.why(run)}}

    return {
        r"POST ElasticMapReduce\.DescribeCluster": lambda body: {"Cluster": {"Id": body["ClusterId"]}},
        r"POST ElasticMapReduce\.AddJobFlowSteps": start,
        r"POST ElasticMapReduce\.ListSteps": look,
    }


OF_GLUE = ("--job-bookmark-option", "job-bookmark-disable", "--JOB_ID", "j_1", "true", "--TempDir", "s3://loads/tmp")
"""What Glue puts among an application's arguments, besides the run and the job."""


def glue(runs: Runs, location: str, folder: Path) -> dict[str, Route]:
    """AWS Glue; what is at this location is read from the folder."""
    states = {"running": "RUNNING", "failed": "FAILED", "success": "SUCCEEDED", "cancelled": "STOPPED"}
    jobs: dict[str, Any] = {}

    def known(body: Any) -> Any:
        if body["JobName"] not in jobs:
            raise RefusedError("EntityNotFoundException")
        return {"Job": jobs[body["JobName"]]}

    def define(body: Any) -> Any:
        assert body["GlueVersion"] == "5.0"
        jobs[body["Name"]] = body
        return {"Name": body["Name"]}

    def start(body: Any) -> Any:
        runs.requests.append(body)
        job = jobs[body["JobName"]]
        if runs.running() >= job["ExecutionProperty"]["MaxConcurrentRuns"]:
            raise RefusedError("ConcurrentRunsExceededException")
        given = {**job["DefaultArguments"], **body["Arguments"]}
        files, conf = given.pop("--extra-py-files"), given.pop("--conf", "")
        assert "confluent-kafka" in given.pop("--additional-python-modules").split(",")
        words = [*OF_GLUE, "--JOB_RUN_ID", "jr_1", "--JOB_NAME", body["JobName"]]
        words += [part for name, text in given.items() for part in (name, text)]
        submit = ["--py-files", files, *(["--conf", *conf.split()] if conf else []), job["Command"]["ScriptLocation"]]
        return {"JobRunId": runs.start([each.replace(location, str(folder)) for each in submit] + words, {})}

    def look(body: Any) -> Any:
        run = {"Id": body["RunId"], "JobName": body["JobName"], "LogGroupName": "/aws-glue/jobs"}
        return {"JobRun": {**run, "JobRunState": states[runs.state(run["Id"])], "ErrorMessage": runs.why(run["Id"])}}

    def stop(body: Any) -> Any:
        for run in body["JobRunIds"]:
            runs.cancel(run)
        return {"SuccessfulSubmissions": [{"JobName": body["JobName"], "JobRunId": run} for run in body["JobRunIds"]]}

    return {
        r"POST AWSGlue\.GetJob": known,
        r"POST AWSGlue\.CreateJob": define,
        r"POST AWSGlue\.UpdateJob": lambda body: define({"Name": body["JobName"], **body["JobUpdate"]}),
        r"POST AWSGlue\.StartJobRun": start,
        r"POST AWSGlue\.GetJobRun": look,
        r"POST AWSGlue\.BatchStopJobRun": stop,
    }


def databricks(runs: Runs, secrets: Mapping[str, str], bundle: Path) -> dict[str, Route]:
    """Databricks' jobs; each machine of a cluster has this package installed, and knows its secrets."""
    states = {"running": None, "failed": "FAILED", "success": "SUCCESS", "cancelled": "CANCELED"}

    def start(body: Any) -> Any:
        runs.requests.append(body)
        task, variables = body["spark_python_task"], body["new_cluster"]["spark_env_vars"]
        env = {name: re.sub(r"{{secrets/(.+?)}}", lambda f: secrets[f[1]], text) for name, text in variables.items()}
        submit = ["--py-files", str(bundle), task["python_file"], *task["parameters"]]
        return {"run_id": int(runs.start(submit, env))}

    def described(run: str) -> Any:
        result = states[runs.state(run)]
        state = {"life_cycle_state": "TERMINATED" if result else "RUNNING", "state_message": ""}
        state |= {"result_state": result} if result else {}
        page = f"http://127.0.0.1/run/{run}"
        task = {"run_id": int(run), "task_key": "load", "state": state}
        return {"run_id": int(run), "job_id": 1, "run_page_url": page, "tasks": [task], "state": state}

    def cancel(body: Any) -> Any:
        runs.cancel(str(body["run_id"]))
        return {}

    return {
        "POST /api/2.2/jobs/runs/submit": start,
        "GET /api/2.2/jobs/runs/get": lambda body: described(str(body["run_id"])),
        "GET /api/2.2/jobs/runs/get-output": lambda body: {"error": runs.why(str(body["run_id"]))},
        "POST /api/2.2/jobs/runs/cancel": cancel,
    }


def livy(runs: Runs) -> dict[str, Route]:
    """Livy, which runs batches."""
    states = {"running": "running", "failed": "dead", "success": "success", "cancelled": "killed"}

    def start(body: Any) -> Any:
        runs.requests.append(body)
        assert body["conf"].pop("spark.submit.deployMode") == "cluster"  # there is none here
        conf = [part for name, value in body["conf"].items() for part in ("--conf", f"{name}={value}")]
        submit = ["--py-files", ",".join(body["pyFiles"]), *conf, body["file"], *body["args"]]
        return {"id": int(runs.start(submit, {})), "appId": "application_1"}

    def look(_: Any, run: str) -> Any:
        return {"id": int(run), "appId": "application_1", "state": states[runs.state(run)]}

    def log(_: Any, run: str) -> Any:
        return {"id": int(run), "from": 0, "total": 1, "log": runs.printed(run).splitlines()}

    def delete(_: Any, run: str) -> Any:
        runs.cancel(run)
        return {"msg": "deleted"}

    return {
        "POST /batches": start,
        "GET /batches/([0-9]+)": look,
        "GET /batches/([0-9]+)/state": look,
        "GET /batches/([0-9]+)/log": log,
        "DELETE /batches/([0-9]+)": delete,
    }


def kubernetes(runs: Runs, secrets: Mapping[str, Mapping[str, str]]) -> dict[str, Route]:
    """Kubernetes with Kubeflow's Spark operator; the folders of the image are those of this machine."""
    ids: dict[str, str] = {}

    def start(body: Any, _: str) -> Any:
        runs.requests.append(body)
        spec, env = body["spec"], {}
        for each in spec["driver"]["env"]:
            of = each.get("valueFrom", {}).get("secretKeyRef")
            env[each["name"]] = secrets[of["name"]][of["key"]] if of else each["value"]
        files = ",".join(spec["deps"]["pyFiles"]).replace("local://", "")
        submit = ["--py-files", files, spec["mainApplicationFile"].removeprefix("local://"), *spec["arguments"]]
        ids[body["metadata"]["name"]] = runs.start(submit, env)
        return body

    def delete(_: Any, __: str, name: str) -> Any:
        runs.cancel(ids[name])
        return {"kind": "Status", "status": "Success"}

    def pod(_: Any, namespace: str, name: str) -> Any:
        state = runs.state(ids[name.removesuffix("-driver")])
        ended = {"terminated": {"exitCode": 0 if state == "success" else 1}}
        phase = {"running": "Running", "success": "Succeeded"}.get(state, "Failed")
        container = {"name": "spark-kubernetes-driver", "image": "", "imageID": "", "ready": True, "restartCount": 0}
        container["state"] = {"running": {}} if state == "running" else ended
        return {
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": {}},
            "spec": {"containers": [{"name": container["name"]}]},
            "status": {"phase": phase, "containerStatuses": [container]},
        }

    def log(_: Any, __: str, name: str) -> bytes:
        lines = runs.printed(ids[name.removesuffix("-driver")]).splitlines()
        return "".join(f"2026-01-01T00:00:00.000000000Z {line}\n" for line in lines).encode()

    ours = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/([^/]+)/sparkapplications"
    pods = "/api/v1/namespaces/([^/]+)/pods"
    return {
        f"POST {ours}": start,
        f"GET {ours}/([^/]+)/status": lambda *_: {"status": {"applicationState": {"state": "RUNNING"}}},
        f"DELETE {ours}/([^/]+)": delete,
        f"GET {pods}": lambda *_: {"kind": "PodList", "items": []},
        f"GET {pods}/([^/]+)": pod,
        f"PATCH {pods}/([^/]+)": pod,
        f"GET {pods}/([^/]+)/log": log,
        "GET /api/v1/namespaces/([^/]+)/events": lambda *_: {"kind": "EventList", "items": []},
    }


SERVERS = "kafka.bootstrap.servers={{ conn.kafka_default.extra_dejson['bootstrap.servers'] }}"


def by_shell(launch: Any) -> BaseOperator:
    """An operator that runs the launch's command line in a shell, and asks for its report."""
    from airflow.providers.standard.operators.bash import BashOperator

    command = " ".join([sys.executable, launch.application, *launch.arguments, "--option", f'"{SERVERS}"'])
    return BashOperator(
        bash_command=f'{command} && test -f "$REPORT"', env={"REPORT": launch.report}, append_env=True, **launch.task
    )
