"""Run spark-submit as a child process.

On Linux it dies with its parent; an application that survives is fenced by its lease.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..compat.airflow import kerberos_ticket
from ..compat.spark_submit import CONTAINER, DRIVER, EXIT_CODE, ON_KUBERNETES, ON_YARN
from ..core.batches import STOP_SECONDS
from ..core.notation.secrets import masked
from ..core.progress import Progress
from ..errors import DocumentError, SettingError
from .launching import interpreter, own_spark
from .submission import BINARY, Command, Submission, kill_command

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = STOP_SECONDS + 15
"""How long spark-submit may take to end: its application stops its tasks, gives its lease back and ends Spark."""

COMMAND_SECONDS = 30
LINES = 500
"""How much of the output to keep: an application's own last line may precede a long Spark traceback."""

_log = logging.getLogger(__name__)


class SparkProcess:
    """One run of spark-submit.

    :param command: The command to run.
    :param submission: The submission that it was made from.
    :param on_progress: Called with each progress report of the application; all other lines are logged.
    """

    def __init__(
        self, command: Command, submission: Submission, on_progress: Callable[[Progress], None] = lambda _: None
    ) -> None:
        self.application: str | None = None
        self._command = command
        self._submission = submission
        self._on_progress = on_progress
        self._lines: deque[str] = deque(maxlen=LINES)
        self._container: str | None = None
        self._code_there: int | None = None
        self._process: subprocess.Popen[str] | None = None

    @property
    def output(self) -> str:
        return "\n".join(self._lines)

    def run(self) -> int:
        """Run it, and return its exit code, or the application's if Kubernetes reported one."""
        _log.info("%s", self._command.shown)
        self._process = subprocess.Popen(  # noqa: S603 - what the connection and the DAG name
            self._command.argv,
            env={**os.environ, **self._command.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - it calls into C alone
        )
        try:
            for line in self._process.stdout or ():
                self._hear(line.rstrip())
            return self._process.wait() or self._code_there or 0
        except BaseException:  # the task's timeout, or an error of `on_progress`
            self.end()
            raise
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()

    def end(self) -> None:
        """Kill it, and the application in the cluster."""
        if self._process is not None and self._process.poll() is None:
            _end_group(self._process)
            if self.application is not None:
                environment = {**self._command.environment, **ticket(self._submission)}
                _run(kill_command(self._submission, self.application, environment))

    def _hear(self, line: str) -> None:
        progress = _progress(line)
        if progress is not None:
            self._on_progress(progress)
            return
        self._lines.append(masked(line))
        _log.info("%s", masked(line))
        if self._submission.clustered:
            self._look(line)

    def _look(self, line: str) -> None:
        if self._submission.on_yarn and (found := ON_YARN.search(line)):
            self._name(found[0])
        if self._submission.on_kubernetes:
            if found := ON_KUBERNETES.search(line):
                self._name(found[1])
            self._find_container(line)

    def _find_container(self, line: str) -> None:
        """Look for the exit code of the driver's container: a sidecar has one, too."""
        if found := CONTAINER.search(line):
            self._container = found[1]
        driver = self._submission.conf.get("spark.kubernetes.driver.podTemplateContainerName", DRIVER)
        if (found := EXIT_CODE.search(line)) and (self._code_there is None or self._container == driver):
            self._code_there = int(found[1])

    def _name(self, application: str) -> None:
        if application != self.application:
            self.application = application
            _log.info("the application is %s", application)


def _progress(line: str) -> Progress | None:
    try:
        return Progress.of_line(line)
    except DocumentError:  # from another release, or truncated
        return None


def _run(command: Command) -> None:
    """Run a helper command; log a warning if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - YARN's own, or the program that was submitted with
            command.argv,
            env={**os.environ, **command.environment},
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("%s: %s", command.shown, error)
        return
    log_at = _log.warning if done.returncode else _log.info
    log_at("%s ended with exit code %s: %s", command.shown, done.returncode, masked(done.stdout.strip()[-2000:]))


def ticket(submission: Submission) -> Mapping[str, str]:
    """The environment of YARN's command line; with a new Kerberos ticket if there is a keytab."""
    if not submission.keytab or not submission.principal:
        return {}
    return kerberos_ticket(submission.principal, submission.keytab)


def check_found(binary: str, environment: Mapping[str, str]) -> None:
    path = environment.get("PATH", os.environ.get("PATH"))
    if shutil.which(binary, path=path) is None:
        raise SettingError(
            f"there is no program {binary!r} on the PATH of this worker: pip install "
            "'airflow-provider-orderedkafka[spark]' brings spark-submit; or name another one with spark_binary="
        )


def interpreter_environment(binary: str = BINARY) -> dict[str, str]:
    """The interpreter for driver and executors, and where Spark is: this environment's, or that of the named program.

    Without a name of a path, the worker's environment says which Spark it is.
    """
    own, submit = Path(sys.executable).parent, shutil.which(binary)
    if os.sep in binary and submit is not None and Path(submit).parent != own:
        return _of_another(Path(submit).parents[1])
    path = {} if submit else {"PATH": os.pathsep.join([str(own), os.environ.get("PATH", os.defpath)])}
    return interpreter(sys.executable) | path | (_own_spark() if not submit or Path(submit).parent == own else {})


def _of_another(root: Path) -> dict[str, str]:
    """Another virtual environment has a Python of its own; a Spark that was unpacked has none."""
    python = root / "bin" / "python" if (root / "pyvenv.cfg").exists() else sys.executable
    homes = [root, *root.glob("lib/python*/site-packages/pyspark")]
    home = next((home for home in homes if (home / "jars").is_dir()), None)
    return interpreter(str(python)) | ({} if home is None else {"SPARK_HOME": str(home)})


def _own_spark() -> dict[str, str]:
    """The folder of pyspark's own Spark, which spark-submit does not find if its path has a space."""
    home = own_spark()
    return {} if home is None else {"SPARK_HOME": str(home)}


def _die_with_parent() -> Callable[[], None] | None:
    """What asks the kernel, in the child before exec, to kill the child when this process dies.

    The kernel means the thread that starts the child: it is that of `SparkProcess.run`, which waits for the child.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()  # here, as little may be done between fork and exec

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it was tied
            os.kill(os.getpid(), signal.SIGKILL)

    return tie


def _end_group(process: "subprocess.Popen[str]") -> None:
    """End it with all that it started: what ends last is the lease's holder."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(subprocess.TimeoutExpired):
            try:
                os.killpg(process.pid, sign)
            except ProcessLookupError:
                return
            process.wait(GRACE_SECONDS)
