"""An environment with another Spark than this one: built the first time, kept in `.cache`."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OLDEST = ("pyspark==3.5.8", "confluent-kafka", "pyarrow<19", "numpy<2", "pandas<2.3", "setuptools<81")
"""The oldest Spark that loads run on, with what it goes together with; nothing of ours."""


def spark(version: str) -> tuple[str, ...]:
    """What an environment with this Spark needs."""
    newer = (f"pyspark=={version}", "confluent-kafka", "pyarrow", "numpy", "pandas<3")
    return OLDEST if version.startswith("3.") else newer


NEWEST = spark("4.3.0")
"""The newest one, which Airflow's own environment cannot have yet."""


def environment(requirements: tuple[str, ...] = OLDEST) -> Path:
    """The environment's folder; the first requirement names it."""
    home = ROOT / ".cache" / requirements[0].replace("==", "-")
    if not (home / "complete").exists():
        uv = str(ROOT / "scripts" / "uv")
        shutil.rmtree(home, ignore_errors=True)
        python = str(home / "bin" / "python")
        subprocess.run([uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, home], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", python]
        alone = [each for each in requirements if each.startswith("pyspark")]  # once built, not again: see versions.py
        subprocess.run([*install, "--no-deps", *alone], check=True)
        subprocess.run([*install, *requirements], check=True)
        (home / "complete").touch()
    return home
