"""An environment with another Spark than this one: built the first time, kept in `.cache`."""

import shutil
import subprocess
import sys
from pathlib import Path
from zlib import crc32

from airflow_provider_orderedkafka.spark.bundle import requirements

ROOT = Path(__file__).parents[2]


def spark(version: str) -> tuple[str, ...]:
    """What an environment with this Spark needs, as users are told it; nothing of ours."""
    packages = requirements(version).splitlines()
    return (f"pyspark=={version}", *(line for line in packages if not line.startswith("#")))


OLDEST = spark("3.5.8")
"""The oldest Spark that loads run on."""

NEWEST = spark("4.3.0")
"""The newest one, which Airflow's own environment cannot have yet."""


def environment(needed: tuple[str, ...] = OLDEST) -> Path:
    """The environment's folder, one for each list of requirements."""
    home = ROOT / ".cache" / f"{needed[0].replace('==', '-')}-{crc32(' '.join(needed).encode()):08x}"
    if not (home / "complete").exists():
        uv = str(ROOT / "scripts" / "uv")
        shutil.rmtree(home, ignore_errors=True)
        python = str(home / "bin" / "python")
        subprocess.run([uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, home], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", python]
        alone = [each for each in needed if each.startswith("pyspark")]  # once built, not again: see versions.py
        subprocess.run([*install, "--no-deps", *alone], check=True)
        subprocess.run([*install, *needed], check=True)
        (home / "complete").touch()
    return home
