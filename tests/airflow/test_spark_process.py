"""spark-submit as a process: what it says, how it ends, and how an application in a cluster is followed and ended."""

import json
import logging
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from airflow_provider_orderedkafka.core.progress import MARK, Progress
from airflow_provider_orderedkafka.errors import SettingError, UnreachableError
from airflow_provider_orderedkafka.hooks import yarn
from airflow_provider_orderedkafka.hooks.spark_process import SparkProcess, check_found
from airflow_provider_orderedkafka.hooks.submission import Submission, submit_command
from airflow_provider_orderedkafka.hooks.yarn import ApplicationState, FollowedProcess, ResourceManager, manager_of

ON_YARN = Submission(master="yarn", deploy_mode="cluster")
ON_KUBERNETES = Submission(master="k8s://https://api:443", deploy_mode="cluster")
APPLICATION = "application_1700000000000_0001"
PROGRESS = Progress("range-1", 1, 1, 5, 10, 5, 5, 0, 100, None, None)
SUBMITTED = "submission ID spark:orders-1f-driver into Kubernetes"


@pytest.fixture
def program(tmp_path):
    """Makes a program that stands in for spark-submit, and notes what it is called with."""

    def make(code, name="spark-submit"):
        path = tmp_path / name
        note = f"import sys\nwith open({str(tmp_path / 'calls')!r}, 'a') as f: f.write(' '.join(sys.argv[1:]) + '\\n')"
        path.write_text(f"#!{sys.executable}\n{note}\n{code}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def calls(tmp_path):
    return lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []


def process(binary, submission=ON_YARN, **more):
    submission = replace(submission, spark_binary=binary)
    return SparkProcess(submit_command(submission, "app.py", [], {}), submission, **more)


def test_its_lines_are_logged_and_its_end_is_told(program, caplog):
    caplog.set_level(logging.INFO)
    failing = process(program("print('ordered_replay.py: Kafka did not answer')\nsys.exit(75)"))
    assert failing.run() == 75
    assert failing.output == "ordered_replay.py: Kafka did not answer"
    assert "Kafka did not answer" in caplog.text


def test_its_progress_is_told_and_not_logged(program):
    told = []
    said = process(program(f"print({PROGRESS.line!r})"), on_progress=told.append)
    assert said.run() == 0
    assert (told, said.output) == ([PROGRESS], "")


def test_a_line_that_only_looks_like_progress_is_a_line(program):
    told = []
    said = process(program(f"print('x {MARK} cut in tw')"), on_progress=told.append)
    assert said.run() == 0
    assert (told, said.output) == ([], f"x {MARK} cut in tw")


def test_what_is_not_utf_8_does_not_end_it(program):
    said = process(program("sys.stdout.buffer.write(b'\\xff!')"))
    assert (said.run(), said.output) == (0, "\ufffd!")


def test_an_application_s_exit_code_on_kubernetes_is_heard_where_spark_submit_ends_well(program):
    failed = process(program("print('container state: terminated, exit code: 65')"), ON_KUBERNETES)
    assert failed.run() == 65


@pytest.mark.parametrize(
    ("driver", "conf"),
    [
        ("spark-kubernetes-driver", {}),
        ("orders", {"spark.kubernetes.driver.podTemplateContainerName": "orders"}),
    ],
)
def test_the_exit_code_on_kubernetes_is_the_driver_s_and_not_that_of_a_sidecar(program, driver, conf):
    lines = [
        part
        for name, code in (("istio-proxy", 0), (driver, 65), ("vault-agent", 143))
        for part in (f"\t container name: {name}", f"\t exit code: {code}")
    ]
    failed = process(program(f"print({chr(10).join(lines)!r})"), replace(ON_KUBERNETES, conf=conf))
    assert failed.run() == 65


@pytest.mark.parametrize(
    ("submission", "line", "name"),
    [
        (ON_YARN, f"Submitted application {APPLICATION}", APPLICATION),
        (ON_KUBERNETES, f"Deployed Spark application x with {SUBMITTED}", "spark:orders-1f-driver"),
        (Submission(master="yarn"), f"Submitted application {APPLICATION}", None),
    ],
)
def test_the_name_of_an_application_in_a_cluster_is_heard(program, submission, line, name):
    submitted = process(program(f"print({line!r})"), submission)
    submitted.run()
    assert submitted.application == name


@pytest.mark.parametrize("submission", [ON_YARN, ON_KUBERNETES])
def test_a_task_that_is_ended_ends_what_runs_in_the_cluster(program, calls, monkeypatch, tmp_path, submission):
    program("", "yarn")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    code = f"""
if "--kill" not in sys.argv:
    print('Submitted application {APPLICATION}', flush=True)
    print('Deployed Spark application x with {SUBMITTED}', flush=True)
    import time
    time.sleep(60)"""
    running = process(program(code), submission, afterwards=[f"{program('', 'tidy')} --quit"])
    thread = threading.Thread(target=running.run)
    thread.start()
    until(lambda: running.application is not None)
    running.end()
    thread.join(30)
    assert not thread.is_alive()
    ended = {"yarn": f"application -kill {APPLICATION}", "k8s://https://api:443": "--kill spark:orders-1f-driver"}
    assert calls()[1].endswith(ended[submission.master])
    assert calls()[2:] == ["--quit"]


def test_what_is_to_be_run_afterwards_is_run_once_and_its_failure_is_a_warning(program, calls, caplog):
    done = process(program(""), afterwards=[f"{program('sys.exit(3)', 'tidy')} 'a b'", "/no/such/program"])
    assert done.run() == 0
    done.tidy()
    done.tidy()
    assert calls()[1:] == ["a b"]
    assert "ended with exit code 3" in caplog.text
    assert "/no/such/program" in caplog.text


def test_whatever_goes_wrong_while_it_is_listened_to_ends_the_process(program):
    def nobody_to_tell(_):
        raise ConnectionError

    code = f"import time\nprint({PROGRESS.line!r}, flush=True)\ntime.sleep(60)"
    began = time.monotonic()
    with pytest.raises(ConnectionError):
        process(program(code), on_progress=nobody_to_tell).run()
    assert time.monotonic() - began < 30


def test_a_program_that_is_not_there_is_named_with_the_way_out(tmp_path):
    with pytest.raises(SettingError, match=r"no program 'spark9-submit' on the PATH.*spark_binary="):
        check_found("spark9-submit", {"PATH": str(tmp_path)})


class Manager(HTTPServer):
    """YARN's resource manager, as far as it is asked: each answer is used once, the last one for ever."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Asked)
        self.answers = [("FINISHED", "SUCCEEDED")]
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Asked(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(f"GET {self.path}")
        answer = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        if answer is None:
            self.send_error(503)
            return
        state, final = answer
        self._answer({"app": {"state": state, "finalStatus": final, "diagnostics": "out of memory"}})

    def do_PUT(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append(f"PUT {self.path} {text}")
        self.server.answers = [("KILLED", "KILLED")]
        self._answer({"state": "KILLED"})

    def _answer(self, told):
        text = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def manager(monkeypatch):
    monkeypatch.setattr(yarn, "POLL_SECONDS", 0.05)
    server = Manager()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def followed(program, manager):
    """Makes a submission that the resource manager follows, and tells what is remembered of it."""
    remembered = []

    def make(before=None, says=f"Submitted application {APPLICATION}"):
        submitting = process(program(f"print({says!r})"))
        return FollowedProcess(submitting, ResourceManager(manager.url), 0, before, remembered.append)

    make.remembered = remembered
    return make


def test_an_application_is_followed_to_its_end_and_short_silence_is_waited_out(followed, manager):
    manager.answers = [("ACCEPTED", "UNDEFINED"), None, ("RUNNING", "UNDEFINED"), ("FINISHED", "SUCCEEDED")]
    assert followed().run() == 0
    assert manager.asked == [f"GET /ws/v1/cluster/apps/{APPLICATION}"] * 4
    assert followed.remembered == [APPLICATION]


@pytest.mark.parametrize("end", [("FINISHED", "FAILED"), ("FAILED", "FAILED"), ("KILLED", "KILLED")])
def test_an_application_that_fails_on_yarn_says_why(followed, manager, end):
    manager.answers = [end]
    failed = followed()
    assert failed.run() == 1
    assert failed.output == f"{APPLICATION} ended on YARN as {end[1]}: out of memory"


def test_a_resource_manager_that_stays_silent_is_an_error(followed, manager):
    manager.answers = [None]
    with pytest.raises(UnreachableError, match=f"does not say where {APPLICATION} stands"):
        followed().run()
    assert len(manager.asked) == yarn.PATIENCE + 1


@pytest.mark.parametrize(
    ("answers", "submissions"),
    [
        ([("RUNNING", "UNDEFINED"), ("FINISHED", "SUCCEEDED")], 0),
        ([("KILLED", "KILLED"), ("FINISHED", "SUCCEEDED")], 1),
        ([None, ("FINISHED", "SUCCEEDED")], 1),
    ],
    ids=["active", "ended", "unknown"],
)
def test_the_application_of_an_earlier_try_is_followed_while_it_is_active(
    followed, manager, calls, answers, submissions
):
    manager.answers = answers
    assert followed(before=APPLICATION).run() == 0
    assert len(calls()) == submissions


def test_a_task_that_is_ended_ends_the_application_that_is_followed(followed, manager):
    manager.answers = [("RUNNING", "UNDEFINED")]
    running = followed()
    codes = []
    thread = threading.Thread(target=lambda: codes.append(running.run()))
    thread.start()
    until(lambda: manager.asked)
    running.end()
    thread.join(30)
    assert codes == [1]
    assert f'PUT /ws/v1/cluster/apps/{APPLICATION}/state {{"state": "KILLED"}}' in manager.asked


def test_kerberos_without_its_package_is_said_before_anything_is_submitted():
    tracked = {"yarn_track_via_rm_api": True, "resource_manager": "http://rm"}
    kerberos = Submission(master="yarn", deploy_mode="cluster", principal="me", keytab="/keytab", **tracked)
    with pytest.raises(SettingError, match="requests-kerberos"):
        manager_of(kerberos, None)
    assert manager_of(kerberos, ("me", "word")) == ResourceManager("http://rm", ("me", "word"))
    assert manager_of(ON_YARN, None) is None


def test_only_an_application_that_ended_has_an_end():
    assert ApplicationState("RUNNING", "UNDEFINED").active
    assert not ApplicationState("FINISHED", "SUCCEEDED").active


def until(true, seconds=30):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
