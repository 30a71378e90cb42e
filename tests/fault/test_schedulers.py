"""The page "Any scheduler": its command, started again and again, and the proof of what it loaded."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import Record
from support.snippets import ROOT, snippets

pytestmark = [pytest.mark.fault, pytest.mark.timeout(400)]

PAGE = ROOT / "docs" / "schedulers.md"
START = 1_700_000_000_000


@pytest.fixture
def run(kafka, topics, tmp_path):
    """Runs a command of the page on topics of this test's own."""
    named = {name: topics.create(partitions=2) for name in ("orders", "refunds", "orders-ordered")}
    orders, refunds, output = named.values()
    edits = {
        "orders,refunds": f"{orders},{refunds}",
        "orders-ordered": output,
        "orders-lag": f"{output}-lag",
        "/data/checkpoints/orders": f"{tmp_path}/checkpoint",
        "broker:9092": kafka.bootstrap_servers,
        "spark_apps/": f"{ROOT}/spark_apps/",
    }

    def ran(command):
        for old, new in edits.items():
            command = command.replace(old, new)
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-euc", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    ran.topics = named
    return ran


def test_each_start_loads_what_is_new_and_all_of_it_is_proved(run, records):
    (_, command), *_ = snippets(PAGE, "sh")
    (audit,) = re.findall(r"`(orderedkafka audit [^`]+)`", PAGE.read_text("utf-8"))
    run("orderedkafka bundle bundle.zip")
    for start in range(2):
        for name in ("orders", "refunds"):
            rows = [Record(b"%d" % n, START + 100 * start + n, n % 2, b"k") for n in range(10)]
            records.produce(run.topics[name], rows)
        run(command)
        assert len(records.read(run.topics["orders-ordered"])) == 20 * (start + 1)
    assert re.findall(r"clean: (\d+) rows", run(audit)) == ["20", "20"]
