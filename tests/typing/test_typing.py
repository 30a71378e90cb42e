"""A user's programs, checked as their own `mypy --strict` checks them against the installed package."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ["user_dag.py", "user_application.py", "mistakes.py"]


def test_programs_that_are_right_pass_and_each_mistake_is_found():
    """An unneeded `type: ignore` is an error, so every line of mistakes.py has to be one that mypy objects to."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "user"), *PROGRAMS]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parent,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout.startswith("Success: no issues found in 3 source files"), done.stdout + done.stderr
