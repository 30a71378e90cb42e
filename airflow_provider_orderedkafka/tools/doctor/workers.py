"""Check the Python that Spark's workers use."""

import json
import os
import shutil
import subprocess
import sys

from airflow_provider_orderedkafka.tools.doctor.finding import Finding

_ANSWER_SECONDS = 60
_NAME = "python of Spark's workers"
_SPARKS_DEFAULT = "python3"
_QUESTION = """
import importlib, json, sys
missing = []
for name in ("confluent_kafka", "pyarrow", "pyspark"):
    try:
        importlib.import_module(name)
    except Exception as error:
        missing.append(f"{name} ({type(error).__name__})")
print(json.dumps({"version": list(sys.version_info[:2]), "missing": missing}))
"""


def workers_python() -> Finding:
    """Let the interpreter named by PYSPARK_PYTHON, or else Spark's default, import what workers need."""
    own = os.environ.get("PYSPARK_PYTHON")
    which, problem = _asked(own or _SPARKS_DEFAULT)
    if problem is None:
        return Finding(_NAME, "ok", f"{which} can import everything they need")
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    if own:
        return Finding(_NAME, "broken", f"PYSPARK_PYTHON is {which}, which {problem}", f"Where Airflow runs: {remedy}")
    found = f"PYSPARK_PYTHON is not set, and Spark's own choice, {which}, {problem}"
    return Finding(_NAME, "warning", found, f"Loads set it themselves; for your own Spark sessions: {remedy}")


def _asked(name: str) -> tuple[str, str | None]:
    """The interpreter's path, and what is wrong with it, if anything."""
    executable = shutil.which(name)
    if executable is None:
        return name, "cannot be run"
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter that Spark would run
            [executable, "-c", _QUESTION], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True
        )
        facts = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return executable, f"does not answer ({type(error).__name__})"
    return executable, _problem(tuple(facts["version"]), facts["missing"])


def _problem(version: tuple[int, ...], missing: list[str]) -> str | None:
    here = sys.version_info[:2]
    if missing:
        return f"cannot import {', '.join(missing)}"
    if version != here:
        return f"is Python {_dotted(version)}, this is {_dotted(here)}, and Spark refuses to mix them"
    return None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
