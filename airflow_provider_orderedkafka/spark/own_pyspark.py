"""pyspark from where it is installed, with its compiled modules, instead of from Spark's archive of the same.

spark-submit puts `python/lib/pyspark.zip` before everything else. Python cannot keep what it compiles from an archive:
each process that imports pyspark compiles it anew, a third of a second for the driver and for every worker.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def prefer_installed() -> None:
    """Leave Spark's archives out of `sys.path`, where they are those of the pyspark that is installed anyway."""
    home = os.environ.get("SPARK_HOME")
    if home is None or "pyspark" in sys.modules or not _is_installed(Path(home)):
        return
    archives = str(Path(home, "python", "lib")) + os.sep
    before = list(sys.path)
    sys.path[:] = [entry for entry in sys.path if not (entry.startswith(archives) and entry.endswith(".zip"))]
    if find_spec("py4j") is None:
        sys.path[:] = before


def _is_installed(home: Path) -> bool:
    """Whether this Spark is the one inside of the package that Python would find without the archives."""
    return home.name == "pyspark" and str(home.parent) in sys.path and (home / "__init__.py").exists()
