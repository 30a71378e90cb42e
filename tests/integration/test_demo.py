"""The demo, small, as a person runs it: what it says, what it leaves, and that it leaves nothing running."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

DEMO = [sys.executable, "-m", "demo", "--events", "48000", "--directory"]


def processes_of(directory: Path) -> list[psutil.Process]:
    found = [process for process in psutil.process_iter(["cmdline"]) if process.pid != os.getpid()]
    return [process for process in found if str(directory) in " ".join(process.info["cmdline"] or [])]


@pytest.mark.fault
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_small_demo_keeps_every_promise_and_shows_it(tmp_path):
    place = tmp_path / "demo"
    done = subprocess.run([*DEMO, place], cwd=tmp_path, capture_output=True, text=True, timeout=580, check=False)

    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    assert re.search(r"rows +48,000 +48,000\n", done.stdout)
    assert re.search(r"order violations: time runs backwards +[1-9][\d,]* +0\n", done.stdout)
    assert "`make ui`" in done.stdout
    assert (place / "before-and-after.png").read_bytes().startswith(b"\x89PNG")
    assert all(len(line.replace(str(place), "")) <= 100 for line in done.stdout.splitlines())
    assert "\x1b" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    assert processes_of(place) == []


def test_a_demo_that_is_interrupted_leaves_nothing_running(tmp_path):
    place = tmp_path / "demo"
    with subprocess.Popen([*DEMO, place], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        for line in demo.stdout:
            if line.startswith("  shop"):
                break
        assert processes_of(place / "kafka")
        demo.send_signal(signal.SIGINT)
        said, complained = demo.communicate(timeout=60)

    assert demo.returncode == 130
    assert str(place / "demo.log") in said
    assert complained == ""
    assert processes_of(place) == []


def test_a_demo_spares_the_broker_that_was_started_to_look_at_an_earlier_one(tmp_path, kafka):
    place = tmp_path / "demo"
    place.mkdir()
    (place / "demo.log").touch()
    (place / "kafka").symlink_to(kafka.directory)
    done = subprocess.run([*DEMO, place], capture_output=True, text=True, timeout=120, check=False)
    assert kafka.running

    assert done.returncode == 65
    assert str(place / "kafka") in done.stderr


def test_a_demo_that_fails_says_why_without_a_traceback_and_leaves_nothing_running(tmp_path):
    place = tmp_path / "demo"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "no-java")}
    done = subprocess.run([*DEMO, place], env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 65
    assert "JAVA_HOME" in done.stderr
    assert str(place / "demo.log") in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert processes_of(place) == []
