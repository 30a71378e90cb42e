"""The Python workers of a Spark in this process: forked from a daemon of ours, which has imported what they need."""

import os
import re
import shutil
import site
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_orderedkafka.spark import worker_daemon

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

LOCAL = re.compile(r"local(\[[^,]+(,\s*(?P<tries>\d+))?\])?")
"""The masters in this process: how often they try a task is theirs alone to say."""

DAEMON = "spark.python.daemon.module"


def daemon_settings(conf: "SparkConf") -> dict[str, str]:
    """What lets Spark start our daemon: where this very interpreter runs the workers, and nobody named another one."""
    master = conf.get("spark.master") or ""
    if sys.platform != "linux" or not LOCAL.fullmatch(master) or conf.contains(DAEMON) or not _runs_workers():
        return {}
    return {DAEMON: worker_daemon.__name__}


def let_daemon_find_us(context: "SparkContext") -> None:
    """The daemon starts before Spark gives a worker what came by --py-files: this package may be among it."""
    root = str(Path(worker_daemon.__file__).parents[2])
    if _is_ours(context) and root not in site.getsitepackages():
        folders = [root, *filter(None, [context.environment.get("PYTHONPATH")])]
        context.environment["PYTHONPATH"] = os.pathsep.join(folders)


def start_daemon(context: "SparkContext") -> None:
    """Let our daemon import, beside the planning of the first batch."""
    if _is_ours(context):
        context.setJobDescription("start of the Python workers")
        context.parallelize(range(1), 1).map(abs).collect()


def _is_ours(context: "SparkContext") -> bool:
    return bool(context.getConf().get(DAEMON) == worker_daemon.__name__)


def _runs_workers() -> bool:
    """Whether PYSPARK_PYTHON is this interpreter, of this environment."""
    found = shutil.which(os.environ["PYSPARK_PYTHON"])
    if found is None:
        return False
    theirs, ours = Path(found).absolute(), Path(sys.executable)
    return theirs.parent == ours.parent and theirs.samefile(ours)
