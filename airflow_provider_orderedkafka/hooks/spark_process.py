"""How the application is started: Airflow's own spark-submit hook, with an environment, a leash and open ears.

Secrets go to the child's environment, where no command line and no log shows them. On Linux the child dies with its
parent; what survives all the same is fenced by its lease. Its progress lines are told to the operator.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_orderedkafka.core.progress import Progress
from airflow_provider_orderedkafka.errors import DocumentError, SettingError
from airflow_provider_orderedkafka.launching import interpreter, own_spark

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 5.0


class SparkProcessHook(SparkSubmitHook):  # type: ignore[misc]
    """A spark-submit that this task owns, with all that it starts."""

    _env: dict[str, Any] | None
    environment: Mapping[str, str]
    on_progress: Callable[[Progress], None]

    @classmethod
    def of(cls, hook: SparkSubmitHook, environment: Mapping[str, str], on_progress: Callable[[Progress], None]) -> Self:
        """The same submission, with this environment; each progress line goes to `on_progress`."""
        new = cls.__new__(cls)
        new.__dict__.update(hook.__dict__)
        new.environment = environment
        new.on_progress = on_progress
        return new

    @property
    def exit_code(self) -> int | None:
        """What spark-submit ended with; None while it runs, or where it was never started."""
        return None if self._submit_sp is None else self._submit_sp.poll()

    @property
    def master(self) -> str:
        """The master that the connection names."""
        return str(self._connection["master"])

    @property
    def deploy_mode(self) -> str:
        """Where the driver runs."""
        return str(self._connection["deploy_mode"] or "client")

    @property
    def findable(self) -> bool:
        """Whether another worker can find the application again while it runs."""
        return not self._is_yarn_cluster_mode or self._should_track_yarn_application_via_rm_api()

    def check(self) -> None:
        """`SettingError` where Airflow's own hook would refuse the submission once it has begun."""
        try:
            if self._track_driver_via_k8s_api:
                self._validate_track_driver_via_k8s_api_config()
            self._validate_yarn_track_via_rm_api_config()
        except ValueError as error:
            raise SettingError(str(error)) from error

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Start spark-submit and wait for it."""
        kwargs = {"start_new_session": True, "preexec_fn": _die_with_parent(), **kwargs}
        try:
            driver: str | None = super().submit(application, **kwargs)
        finally:
            if self._submit_sp is not None and self._submit_sp.stdout is not None:
                self._submit_sp.stdout.close()
        return driver

    def on_kill(self) -> None:
        """End the child and all that it started."""
        if self._submit_sp is not None and self._submit_sp.poll() is None:
            _end_group(self._submit_sp)
        super().on_kill()

    def _build_spark_common_args(self) -> list[str]:
        args: list[str] = super()._build_spark_common_args()
        self._env = {**(self._env or {}), **self.environment}
        return args

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._heard(itr))

    def _heard(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            progress = _progress(line)
            if progress is None:
                yield line
            else:
                self.on_progress(progress)


def _progress(line: str) -> Progress | None:
    try:
        return Progress.of_line(line)
    except DocumentError:  # a line that only looks like one: another release's, or cut in two
        return None


def interpreter_environment() -> dict[str, str]:
    """The interpreter that has the packages, for driver and executors, and a path on which spark-submit is found."""
    found = interpreter()
    own, submit = Path(sys.executable).parent, shutil.which("spark-submit")
    if submit is None:
        found["PATH"] = os.pathsep.join([str(own), os.environ.get("PATH", os.defpath)])
    return found | (_own_spark() if submit is None or Path(submit).parent == own else {})


def _own_spark() -> dict[str, str]:
    """Where pyspark's own Spark is: spark-submit's way of finding that fails in a folder whose name has a space."""
    home = own_spark()
    return {} if home is None else {"SPARK_HOME": str(home)}


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes spark-submit, so that the system ends it when this process is gone."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl  # looked up here: between fork and exec as little as possible may happen
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL) and None


def _end_group(process: Any) -> None:
    import subprocess

    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(GRACE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
