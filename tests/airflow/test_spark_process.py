"""spark-submit as a process: what it says, how it ends, and how an application in a cluster is ended."""

import logging
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.messages import naming

from airflow_provider_orderedkafka.core.batches import STOP_SECONDS
from airflow_provider_orderedkafka.core.progress import MARK, Progress
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import Options
from airflow_provider_orderedkafka.hooks.spark_process import GRACE_SECONDS, SparkProcess, check_found
from airflow_provider_orderedkafka.hooks.submission import Submission, submit_command
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.operators.submit import way_of
from airflow_provider_orderedkafka.outputs import KafkaOutput

ON_YARN = Submission(master="yarn", deploy_mode="cluster")
ON_KUBERNETES = Submission(master="k8s://https://api:443", deploy_mode="cluster")
APPLICATION = "application_1700000000000_0001"
PROGRESS = Progress("range-1", 1, 1, 5, 10, 5, 5, 0, 100, None, None, 2)
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
    message = "ordered_replay.py: Kafka did not answer"
    caplog.set_level(logging.INFO)
    failing = process(program(f"print({message!r})\nsys.exit(75)"))
    assert failing.run() == 75
    assert failing.output == message
    assert message in caplog.text


def test_what_it_says_is_logged_without_secrets_and_progress_is_heard_whatever_the_load_is_called(program, caplog):
    caplog.set_level(logging.INFO)
    progress, of_tokens = [], replace(PROGRESS, range_id="token-of-a-load")
    said = process(
        program(f"print({of_tokens.line!r})\nprint('GET https://u:canary@h failed: password=canary')"),
        on_progress=progress.append,
    )
    assert said.run() == 0
    assert (progress, said.output) == ([of_tokens], "GET https://***@h failed: password=***")
    assert "canary" not in caplog.text


def test_a_line_that_only_looks_like_progress_is_a_line(program):
    progress = []
    said = process(program(f"print('x {MARK} cut in tw')"), on_progress=progress.append)
    assert said.run() == 0
    assert (progress, said.output) == ([], f"x {MARK} cut in tw")


def test_what_is_not_utf_8_does_not_end_it(program):
    said = process(program("sys.stdout.buffer.write(b'\\xff!')"))
    assert (said.run(), said.output) == (0, "\ufffd!")


def test_an_application_s_exit_code_on_kubernetes_is_heard_where_spark_submit_ends_well(program):
    failed = process(program("print('container state: terminated, exit code: 65')"), ON_KUBERNETES)
    assert failed.run() == 65


@pytest.mark.parametrize(
    ("driver", "conf"),
    [("spark-kubernetes-driver", {}), ("orders", {"spark.kubernetes.driver.podTemplateContainerName": "orders"})],
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
    running = process(program(code), submission)
    thread = threading.Thread(target=running.run)
    thread.start()
    until(lambda: running.application is not None)
    running.end()
    thread.join(30)
    assert not thread.is_alive()
    ended = {"yarn": f"application -kill {APPLICATION}", "k8s://https://api:443": "--kill spark:orders-1f-driver"}
    assert calls()[1].endswith(ended[submission.master])


def test_whatever_goes_wrong_while_it_is_listened_to_ends_the_process(program):
    def nobody_to_tell(_):
        raise ConnectionError

    code = f"import time\nprint({PROGRESS.line!r}, flush=True)\ntime.sleep(60)"
    began = time.monotonic()
    with pytest.raises(ConnectionError):
        process(program(code), on_progress=nobody_to_tell).run()
    assert time.monotonic() - began < 30


def test_an_application_gets_the_time_that_it_plans_to_stop_its_tasks_and_to_give_its_lease_back(program, tmp_path):
    let_go = tmp_path / "let go"
    code = f"""
import signal, time
def stop(*_):
    time.sleep(8)
    open({str(let_go)!r}, "w").close()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
time.sleep(60)"""
    running = process(program(code), Submission(master="local[2]"))
    thread = threading.Thread(target=running.run)
    thread.start()
    until(lambda: running.output == "up")
    running.end()
    thread.join(30)
    assert let_go.exists()
    assert GRACE_SECONDS > STOP_SECONDS


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_child_whose_parent_died_before_it_was_tied_ends_before_it_runs_anything(tmp_path):
    code = """
import os, subprocess, sys
from airflow_provider_orderedkafka.hooks.spark_process import _die_with_parent
tie = _die_with_parent()
between = os.fork()
if not between:  # its child has a parent that is not the one to be tied to, as when that one died
    done = subprocess.run([sys.executable, "-c", "print('ran')"], preexec_fn=tie, capture_output=True, text=True)
    print(done.returncode, repr(done.stdout), flush=True)
    os._exit(0)
os.waitpid(between, 0)
mine = subprocess.run([sys.executable, "-c", "print('ran')"], preexec_fn=tie, capture_output=True, text=True)
print(mine.returncode, repr(mine.stdout))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["-9 ''", "0 'ran\\n'"], done.stderr


def test_a_program_that_is_not_there_is_named_with_the_way_out(tmp_path):
    with pytest.raises(SettingError, match=naming("'spark9-submit' ... [spark] ... spark_binary=")):
        check_found("spark9-submit", {"PATH": str(tmp_path)})


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_spark_submit_is_found_beside_airflow_s_python_wherever_the_driver_runs(mode, tmp_path, monkeypatch):
    (tmp_path / "java").symlink_to(shutil.which("java"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    job = Job(KafkaOutput("orders-ordered"))
    found = way_of(Submission(master="yarn", deploy_mode=mode), "app.py", [], job, Options()).environment
    submit = Path(shutil.which("spark-submit", path=found["PATH"]))
    assert (submit.parent, (Path(found["SPARK_HOME"]) / "jars").is_dir()) == (Path(sys.executable).parent, True)
    assert ("PYSPARK_PYTHON" in found) == (mode == "client")  # in the cluster it would be this worker's


def until(true, seconds=30):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
