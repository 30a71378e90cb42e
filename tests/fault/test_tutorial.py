"""The page of the first load, followed from its first command to its last."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.messages import says

from broker import LocalKafka

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1800)]

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
SAMPLE = re.compile(r'make sample(?: ARGS="([^"]*)")?')
"""What it runs, in an environment that is there already."""

SERVERS = {"make broker\n", "airflow standalone\n"}
"""What runs until Ctrl-C."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"Write this to `([^`]+)`")


def steps(servers):
    """The page as one script: its commands, and its file where it is written; the broker runs already."""
    page = PAGE.read_text("utf-8").replace("localhost:9092", servers)
    files = iter(FILE.findall(page))
    for kind, block in BLOCK.findall(page):
        if kind == "python":
            yield f"cat >{next(files)} <<'END'\n{block}END"
        elif block not in SERVERS and not block.startswith("pip install"):
            yield SAMPLE.sub(rf"python -m broker.sample --bootstrap-servers {servers} \1", block)


def test_all_commands_of_the_page_do_what_it_says(tmp_path):
    bin_, kept = str(Path(sys.executable).parent), ("JAVA_HOME", "LANG", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
    mine = {name: os.environ[name] for name in kept if name in os.environ}
    mine |= {"HOME": str(tmp_path), "PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
    with LocalKafka(tmp_path / "kafka") as kafka:
        script = "\n".join(["set -eu", *steps(kafka.bootstrap_servers)])
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=mine, capture_output=True, text=True, check=False
        )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-8000:]
    assert says(printed, "now ... : 12,000 offsets")
    assert says(printed, "clean: 12,000 rows ... topic:first-ordered")
    assert printed.count("clean: 3,000 rows in topic:first-ordered") == 2, "by the task, and by the command"
    airflows = re.findall("`([^`]*AssetModel[^`]*)`", " ".join(PAGE.read_text("utf-8").split()))
    assert [says(printed, line.removesuffix(" ...")) for line in airflows] == [True, True]
    assert says(printed, "clean: 13,498 rows ... delta:")
    assert re.search(r"^first +idle +\S+ +0 ", printed, re.MULTILINE)
    assert "revision 2: committed first-incremental-" in printed
