"""The command line of spark-submit, as a value, from an operator's arguments and Airflow's Spark connection."""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from airflow_provider_orderedkafka.errors import SettingError

BINARY = "spark-submit"
BINARIES = (BINARY, "spark2-submit", "spark3-submit")
"""The programs that a connection may name: editing connections must not allow running any program on a worker."""

DEPLOY_MODES = ("client", "cluster")
RESOURCE_MANAGER = "yarn_resourcemanager_webapp_address"
WAIT_ON_YARN = "spark.yarn.submit.waitAppCompletion"
FLAGS = {
    "properties_file": "--properties-file",
    "files": "--files",
    "py_files": "--py-files",
    "archives": "--archives",
    "driver_class_path": "--driver-class-path",
    "jars": "--jars",
    "packages": "--packages",
    "exclude_packages": "--exclude-packages",
    "repositories": "--repositories",
    "num_executors": "--num-executors",
    "total_executor_cores": "--total-executor-cores",
    "executor_cores": "--executor-cores",
    "executor_memory": "--executor-memory",
    "driver_memory": "--driver-memory",
    "keytab": "--keytab",
    "principal": "--principal",
    "proxy_user": "--proxy-user",
    "name": "--name",
    "yarn_queue": "--queue",
    "deploy_mode": "--deploy-mode",
}
SECRET = re.compile(r"secret|password|token|credential", re.IGNORECASE)
SECRET_VALUE = re.compile(
    rf"((?:{SECRET.pattern})[^\s=:]{{0,100}}(?:=|(?<=[\"']):\s?))(\"[^\"]*\"|'[^']*'|\S+)", re.IGNORECASE
)


class Connection(Protocol):
    """The part of Airflow's connection that is used."""

    conn_id: str
    conn_type: str | None
    host: str | None
    port: int | None

    @property
    def extra_dejson(self) -> dict[str, Any]:
        """The extra, parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Arguments of spark-submit, under the names of Airflow's `SparkSubmitOperator`."""

    master: str
    conf: Mapping[str, Any] = field(default_factory=dict)
    files: str | None = None
    py_files: str | None = None
    archives: str | None = None
    driver_class_path: str | None = None
    jars: str | None = None
    packages: str | None = None
    exclude_packages: str | None = None
    repositories: str | None = None
    total_executor_cores: int | None = None
    executor_cores: int | None = None
    executor_memory: str | None = None
    driver_memory: str | None = None
    keytab: str | None = None
    keytab_content: bytes | None = field(default=None, repr=False)
    principal: str | None = None
    proxy_user: str | None = None
    name: str | None = None
    num_executors: int | None = None
    env_vars: Mapping[str, Any] = field(default_factory=dict, repr=False)
    verbose: bool = False
    spark_binary: str = BINARY
    properties_file: str | None = None
    yarn_queue: str | None = None
    deploy_mode: str | None = None
    use_krb5ccache: bool = False
    yarn_track_via_rm_api: bool = False
    namespace: str | None = None
    resource_manager: str | None = None

    @property
    def clustered(self) -> bool:
        """Whether the driver runs in the cluster."""
        return self.deploy_mode == "cluster"

    @property
    def local(self) -> bool:
        """Whether there is no cluster at all."""
        return self.master.startswith("local")

    @property
    def on_yarn(self) -> bool:
        return self.master.startswith("yarn")

    @property
    def on_kubernetes(self) -> bool:
        return self.master.startswith("k8s")


@dataclass(frozen=True, slots=True)
class Command:
    """A program's arguments, and additions to its environment, which are never printed."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The arguments as one line, without what looks like a secret."""
        before = ("", *self.argv)
        return " ".join(_shown(option, each) for option, each in zip(before, self.argv, strict=False))


def master_of(connection: Connection) -> str:
    """The master of a connection: its whole host, or the scheme, host and port of its URI."""
    host, port = connection.host or "", connection.port
    if connection.conn_type == "spark" and not host:
        return "yarn"
    whole = connection.conn_type == "spark" and ("://" in host or not port)
    master = host if whole else f"{connection.conn_type}://{host}"
    return f"{master}:{port}" if port else master


def submission_of(connection: Connection, given: Mapping[str, Any]) -> Submission:
    """The operator's arguments, completed from the connection; `SettingError` if they cannot be submitted."""
    extra = connection.extra_dejson
    said = {name: given[name] for name in _NAMES & given.keys() if given[name] is not None}
    submission = Submission(
        **{
            "master": master_of(connection),
            "yarn_queue": extra.get("queue"),
            "deploy_mode": extra.get("deploy-mode") or None,
            "principal": extra.get("principal"),
            "spark_binary": extra.get("spark-binary") or BINARY,
            "namespace": extra.get("namespace"),
            "keytab_content": None if said.get("keytab") else _decoded(extra.get("keytab"), connection.conn_id),
            "resource_manager": _address(extra.get(RESOURCE_MANAGER)),
            **said,
        }
    )
    for wrong, message in _wrongs(submission, extra, named="spark_binary" in said):
        if wrong:
            raise SettingError(f"Spark connection {connection.conn_id!r}: {message}")
    return submission


_NAMES = {each.name for each in fields(Submission)}


def _address(text: str | None) -> str | None:
    """The resource manager's address as a URL."""
    text = (text or "").strip().rstrip("/")
    return text if not text or "://" in text else f"http://{text}"


def _decoded(keytab: str | None, conn_id: str) -> bytes | None:
    try:
        return None if keytab is None else b64decode(keytab)
    except ValueError as error:
        raise SettingError(f"Spark connection {conn_id!r}: 'keytab' is not base64 ({error})") from error


def _wrongs(submission: Submission, extra: Mapping[str, Any], *, named: bool) -> list[tuple[bool, str]]:
    """Conditions that make a submission impossible, each with its message."""
    mode, tracked = submission.deploy_mode, submission.yarn_track_via_rm_api
    elsewhere = submission.on_yarn or submission.on_kubernetes
    waits = str(submission.conf.get(WAIT_ON_YARN, "false")).strip().lower()
    return [
        ("spark-home" in extra, f"'spark-home' is no longer heeded: put one of {BINARIES} on the worker's PATH"),
        (
            not named and submission.spark_binary not in BINARIES,
            f"'spark-binary' must be one of {BINARIES}, found {submission.spark_binary!r}; spark_binary= of the "
            "operator may name any other",
        ),
        (
            mode not in (*DEPLOY_MODES, None),
            f"the deploy mode must be one of {DEPLOY_MODES}, found {mode!r}",
        ),
        (
            submission.clustered and not elsewhere,
            f"Spark runs no Python application in cluster mode at master {submission.master!r}: use "
            "deploy_mode='client', or YARN or Kubernetes",
        ),
        (
            tracked and not (submission.on_yarn and submission.clustered),
            f"yarn_track_via_rm_api=True is for YARN in cluster mode, found master {submission.master!r} and deploy "
            f"mode {mode!r}: leave it out",
        ),
        (
            tracked and not submission.resource_manager,
            f"yarn_track_via_rm_api=True needs {RESOURCE_MANAGER!r} in the connection's extra, such as "
            "'http://rm.example.com:8088'",
        ),
        (
            tracked and waits != "false",
            f"yarn_track_via_rm_api=True and {WAIT_ON_YARN}={waits}: leave one of them out",
        ),
    ]


def submit_command(
    submission: Submission, application: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> Command:
    """The spark-submit command. Its environment reaches the driver in client mode only."""
    flags = ((flag, getattr(submission, name)) for name, flag in FLAGS.items())
    argv = [
        *(submission.spark_binary, "--master", submission.master),
        *(part for name, value in _conf(submission) for part in ("--conf", f"{name}={value}")),
        *(part for flag, value in flags if value for part in (flag, str(value))),
        *(["--verbose"] if submission.verbose else []),
        *(application, *map(str, arguments)),
    ]
    own = {} if submission.on_kubernetes else {name: str(value) for name, value in submission.env_vars.items()}
    return Command(tuple(argv), {**own, **environment})


def kill_command(submission: Submission, application: str, environment: Mapping[str, str]) -> Command:
    """The command that kills an application in the cluster: by its ID on YARN, by its pod on Kubernetes."""
    if submission.on_yarn:
        return Command(("yarn", "application", "-kill", application), environment)
    asked = submit_command(submission, "", (), environment)
    return replace(asked, argv=(*asked.argv[:-1], "--kill", application))


def _conf(submission: Submission) -> Iterator[tuple[str, Any]]:
    if not submission.clustered and "spark.log.level" not in submission.conf:
        yield "spark.log.level", "WARN"  # its INFO lines would bury the application's own
    yield from submission.conf.items()
    if submission.yarn_track_via_rm_api and WAIT_ON_YARN not in submission.conf:
        yield WAIT_ON_YARN, "false"
    if submission.on_yarn:
        yield from ((f"spark.yarn.appMasterEnv.{name}", value) for name, value in submission.env_vars.items())
    if submission.on_kubernetes:
        yield from ((f"spark.kubernetes.driverEnv.{name}", value) for name, value in submission.env_vars.items())
        if submission.namespace and "spark.kubernetes.namespace" not in submission.conf:
            yield "spark.kubernetes.namespace", submission.namespace
    if submission.use_krb5ccache:
        yield "spark.kerberos.renewal.credentials", "ccache"


def masked(line: str) -> str:
    """A line of output without what looks like a secret's value."""
    return SECRET_VALUE.sub(r"\1******", line)


def _shown(option: str, value: str) -> str:
    name, equals, _ = value.partition("=")
    if equals and SECRET.search(name):
        return f"{name}=******"
    return "******" if option.startswith("--") and "=" not in option and SECRET.search(option) else masked(value)
