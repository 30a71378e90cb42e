"""Follow an application on YARN through the REST API of the resource manager."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.errors import SettingError, UnreachableError
from airflow_provider_orderedkafka.hooks.submission import Submission

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.hooks.spark_process import SparkProcess

POLL_SECONDS = 10
"""The shortest interval between two polls."""

PATIENCE = 10
ANSWER_SECONDS = (5, 30)
ACTIVE = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApplicationState:
    state: str
    final: str
    diagnostics: str = ""

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def succeeded(self) -> bool:
        return self.final == "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class ResourceManager:
    """YARN's resource manager at its web address; `auth` is one of requests'."""

    url: str
    auth: Any = None

    def state(self, application: str) -> ApplicationState:
        """The state of the application; `UnreachableError` if it cannot be determined."""
        import requests

        try:
            answer = requests.get(self._url(application), auth=self.auth, timeout=ANSWER_SECONDS)
            answer.raise_for_status()
            told = answer.json()["app"]
            return ApplicationState(told["state"], told["finalStatus"], told.get("diagnostics") or "")
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise UnreachableError(
                f"YARN's resource manager at {self.url!r} does not say where {application} stands "
                f"({type(error).__name__}: {error})"
            ) from error

    def kill(self, application: str) -> None:
        """Kill the application; log a warning if that fails."""
        import requests

        url = f"{self._url(application)}/state"
        try:
            requests.put(url, json={"state": "KILLED"}, auth=self.auth, timeout=ANSWER_SECONDS).raise_for_status()
        except requests.RequestException as error:
            log.warning("%s could not be ended: %s", application, error)

    def follow(self, application: str, poll_interval: float) -> ApplicationState:
        """Poll until the application has ended; `UnreachableError` after ten polls in a row without an answer."""
        silent, last = 0, ""
        while True:
            try:
                state = self.state(application)
            except UnreachableError as error:
                silent += 1
                if silent > PATIENCE:
                    raise
                log.warning("%s", error)
            else:
                silent = 0
                if state.state != last:
                    log.info("%s is %s", application, state.state)
                if not state.active:
                    return state
                last = state.state
            time.sleep(max(poll_interval, POLL_SECONDS))

    def _url(self, application: str) -> str:
        return f"{self.url}/ws/v1/cluster/apps/{application}"


class FollowedProcess:
    """A spark-submit that only submits; the resource manager reports how the application ends.

    :param process: The spark-submit.
    :param manager: The resource manager.
    :param poll_interval: Seconds between two polls.
    :param before: The application of an earlier try. While it is active it is followed, and nothing is submitted.
    :param remember: Called with the ID of the application that was submitted.
    """

    def __init__(
        self,
        process: "SparkProcess",
        manager: ResourceManager,
        poll_interval: float,
        before: str | None,
        remember: Callable[[str], None],
    ) -> None:
        self._process = process
        self._manager = manager
        self._poll_interval = poll_interval
        self._before = before
        self._remember = remember
        self._ended = ""

    @property
    def output(self) -> str:
        """The diagnostics of its end."""
        return self._ended or self._process.output

    def run(self) -> int:
        """Submit and follow; return 0 if the application succeeded."""
        if not self._goes_on():
            code = self._process.run()
            if code or self._process.application is None:
                return code or 1
            self._remember(self._process.application)
        application = self._process.application or ""
        state = self._manager.follow(application, self._poll_interval)
        self._ended = f"{application} ended on YARN as {state.final}: {state.diagnostics}"
        return int(not state.succeeded)

    def end(self) -> None:
        """Kill the submission and the application."""
        self._process.end()
        if self._process.application is not None:
            self._manager.kill(self._process.application)

    def tidy(self) -> None:
        """Run the commands in `afterwards`, once."""
        self._process.tidy()

    def _goes_on(self) -> bool:
        """Whether the application of an earlier try is active. If that is unknown, the next attempt fences it."""
        try:
            active = self._before is not None and self._manager.state(self._before).active
        except UnreachableError as error:
            log.warning("%s; the next attempt is submitted", error)
            return False
        if active:
            self._process.application = self._before
            log.info("%s is still active, and is followed", self._before)
        return active


def manager_of(submission: Submission, auth: Any) -> ResourceManager | None:
    """The resource manager that follows this submission, if any; with Kerberos if that is configured."""
    if not submission.yarn_track_via_rm_api or submission.resource_manager is None:
        return None
    if auth is None and submission.principal and (submission.keytab or submission.keytab_content):
        auth = _kerberos()
    return ResourceManager(submission.resource_manager, auth)


def _kerberos() -> Any:
    try:
        from requests_kerberos import HTTPKerberosAuth  # type: ignore[import-not-found] # optional
    except ImportError as error:
        raise SettingError(
            "yarn_track_via_rm_api=True with keytab and principal asks YARN by Kerberos: `pip install "
            "requests-kerberos`, or say how with yarn_rm_auth="
        ) from error
    return HTTPKerberosAuth()
