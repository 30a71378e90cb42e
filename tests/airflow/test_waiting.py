"""Many waiting runs in one triggerer's loop, against a real broker."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TRIGGERS = 60


def test_waiting_runs_share_a_client_and_never_hold_the_loop(kafka, tmp_path):
    servers = ["--servers", kafka.bootstrap_servers]
    size = ["--triggers", str(TRIGGERS), "--seconds", "4", "--poll", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.waiting", *servers, *size],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["early"], found["fired"], found["clients"]) == (0, TRIGGERS, 1)
    assert found["looks"] >= 3 * TRIGGERS
    assert found["loop stood still for at most"] < 0.5
