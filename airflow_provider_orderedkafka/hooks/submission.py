"""The command line of spark-submit, as a value, from an operator's arguments and Airflow's Spark connection."""

import os
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ..compat.airflow import connection_of, keep_from_logs, kerberos_principal
from ..core.notation.secrets import MASK, is_secret, masked
from ..core.notation.spelling import arguments
from ..errors import SettingError, no_connect

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

BINARY = "spark-submit"
BINARIES = (BINARY, "spark2-submit", "spark3-submit")
"""The programs that a connection may name: editing connections must not allow running any program on a worker."""

DEPLOY_MODES = ("client", "cluster")
WAITS = {"yarn": "spark.yarn.submit.waitAppCompletion", "k8s": "spark.kubernetes.submission.waitAppCompletion"}
"""What makes spark-submit wait for an application in the cluster, by the beginning of the master."""

_FLAGGED = (
    *("properties_file", "files", "py_files", "archives", "driver_class_path", "jars", "packages", "exclude_packages"),
    *("repositories", "num_executors", "total_executor_cores", "executor_cores", "executor_memory", "driver_memory"),
    *("keytab", "principal", "proxy_user", "name", "yarn_queue", "deploy_mode"),
)
FLAGS = {**{name: f"--{name.replace('_', '-')}" for name in _FLAGGED}, "yarn_queue": "--queue"}
"""The options of spark-submit that are fields here."""


@arguments(
    master="it is the host of the Spark connection, whose ID is conn_id",
    java_class="the application is a Python program, which has no main class",
    track_driver_via_k8s_api="spark-submit itself waits for the driver's pod, and ending the task ends the pod",
    **dict.fromkeys(
        ("yarn_track_via_rm_api", "yarn_rm_auth", "status_poll_interval"),
        "spark-submit itself waits for the application on YARN, and its exit code says how the application ended",
    ),
    **dict.fromkeys(
        ("durable", "reconnect_on_retry"), "a retry starts the next attempt, which goes on where the last one stopped"
    ),
    post_submit_commands="put a task with these commands after the load",
    application="it is one of rows=Rows(application=Application('my_app.py'))",
    application_args="they are among rows=Rows(application=Application(arguments=[...]))",
    **dict.fromkeys(("retries", "pool", "queue"), "it is an argument of a task: tasks={'load': {...}}"),
)
@dataclass(frozen=True, slots=True)
class SparkSubmit:
    """Run the application with spark-submit on Airflow's worker, by Airflow's Spark connection.

    The names are those of Airflow's `SparkSubmitOperator`. All texts may be templates.

    :param conn_id: The Spark connection.
    :param conf: Spark's settings.
    :param packages: Packages of Maven, separated by commas.
    :param jars: Jars for the driver and the executors, separated by commas.
    :param py_files: Modules and zips for Python's path, separated by commas; a folder is made a zip.
    :param files: Files for the working directory of each executor, separated by commas.
    :param archives: Archives that are unpacked there, separated by commas.
    :param exclude_packages: What `packages` would bring and is left out, separated by commas.
    :param repositories: Where else packages are looked for, separated by commas.
    :param driver_class_path: Further entries of the driver's class path.
    :param driver_memory: The driver's memory, such as `"2g"`.
    :param executor_memory: The memory of each executor, such as `"4g"`.
    :param executor_cores: The cores of each executor.
    :param total_executor_cores: The cores of all executors, on a standalone cluster.
    :param num_executors: How many executors.
    :param deploy_mode: `"client"` or `"cluster"`. Default: as the connection says.
    :param env_vars: The driver's environment: spark-submit's own in client mode, by settings on YARN and Kubernetes,
        where they are on the command line.
    :param properties_file: A file of Spark's settings, instead of `spark-defaults.conf`.
    :param name: The application's name. Default: `orderedkafka-<load>`.
    :param keytab: The keytab's path; otherwise the connection's extra has its content as base64.
    :param principal: The principal of the keytab.
    :param proxy_user: The user that the application runs as.
    :param yarn_queue: The queue on YARN. Default: as the connection says.
    :param spark_binary: The program instead of spark-submit.
    :param verbose: Whether spark-submit says more.
    :param use_krb5ccache: Whether to use the ticket cache that KRB5CCNAME names.
    :param openlineage_inject_parent_job_info: Whether to pass the parent job of Airflow's OpenLineage provider.
        Default: Airflow's own setting.
    :param openlineage_inject_transport_info: Whether to pass its transport. Default: Airflow's own setting.
    """

    conn_id: str = "spark_default"
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: str | None = None
    jars: str | None = None
    py_files: str | None = None
    files: str | None = None
    archives: str | None = None
    exclude_packages: str | None = None
    repositories: str | None = None
    driver_class_path: str | None = None
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    total_executor_cores: int | None = None
    num_executors: int | None = None
    deploy_mode: str | None = None
    env_vars: Mapping[str, Any] = field(default_factory=dict, repr=False)
    properties_file: str | None = None
    name: str | None = None
    keytab: str | None = None
    principal: str | None = None
    proxy_user: str | None = None
    yarn_queue: str | None = None
    spark_binary: str | None = None
    verbose: bool = False
    use_krb5ccache: bool = False
    openlineage_inject_parent_job_info: bool | None = None
    openlineage_inject_transport_info: bool | None = None

    def __post_init__(self) -> None:
        for name in ("conf", "env_vars"):
            if not isinstance(getattr(self, name) or {}, Mapping):
                raise SettingError(f"SparkSubmit: {name} must be settings by name, found {getattr(self, name)!r}")
            object.__setattr__(self, name, getattr(self, name) or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(SparkSubmit):
    """What is submitted: the arguments, completed from the connection."""

    master: str
    keytab_content: bytes | None = field(default=None, repr=False)
    namespace: str | None = None

    def __post_init__(self) -> None:
        SparkSubmit.__post_init__(self)
        object.__setattr__(self, "spark_binary", self.spark_binary or BINARY)

    @property
    def clustered(self) -> bool:
        """Whether the driver runs in the cluster."""
        return self.deploy_mode == "cluster"

    @property
    def local(self) -> bool:
        """Whether there is no cluster at all."""
        return self.master.startswith("local")

    @property
    def wait(self) -> str:
        """The setting that makes spark-submit wait for an application in the cluster; empty where none can run."""
        return next((name for master, name in WAITS.items() if self.master.startswith(master)), "")

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


def master_of(connection: "Connection") -> str:
    """The master of a connection: its whole host, or the scheme, host and port of its URI."""
    host, port = connection.host or "", connection.port
    if connection.conn_type == "spark" and not host:
        return "yarn"
    whole = connection.conn_type == "spark" and ("://" in host or not port)
    master = host if whole else f"{connection.conn_type}://{host}"
    return f"{master}:{port}" if port else master


def submission_of(connection: "Connection", asked: SparkSubmit) -> Submission:
    """The arguments, completed from the connection; `SettingError` if they cannot be submitted."""
    extra = connection.extra_dejson
    given = ((each.name, getattr(asked, each.name)) for each in fields(asked))
    said = {name: value for name, value in given if value is not None}
    submission = Submission(
        **{
            "master": master_of(connection),
            "yarn_queue": extra.get("queue"),
            "deploy_mode": extra.get("deploy-mode") or None,
            "principal": extra.get("principal"),
            "spark_binary": extra.get("spark-binary") or BINARY,
            "namespace": extra.get("namespace"),
            "keytab_content": None if said.get("keytab") else _decoded(extra.get("keytab"), connection.conn_id),
            **said,
        }
    )
    for wrong, message in _mistakes(submission, extra, named="spark_binary" in said):
        if wrong:
            raise SettingError(f"Spark connection {connection.conn_id!r}: {message}")
    return submission


def _decoded(keytab: str | None, conn_id: str) -> bytes | None:
    try:
        return None if keytab is None else b64decode(keytab)
    except ValueError as error:
        raise SettingError(f"Spark connection {conn_id!r}: 'keytab' is not base64 ({error})") from error


def _mistakes(submission: Submission, extra: Mapping[str, Any], *, named: bool) -> list[tuple[bool, str]]:
    """Conditions that make a submission impossible, each with its message."""
    mode, wait = submission.deploy_mode, submission.wait
    goes_on = not_awaited(submission.conf, wait)
    return [
        ("spark-home" in extra, f"'spark-home' is not used: put one of {BINARIES} on the worker's PATH"),
        (
            not named and submission.spark_binary not in BINARIES,
            f"'spark-binary' must be one of {BINARIES}, found {submission.spark_binary!r}; spark_binary= of "
            "SparkSubmit may name any other",
        ),
        (mode not in (*DEPLOY_MODES, None), f"the deploy mode must be one of {DEPLOY_MODES}, found {mode!r}"),
        (
            submission.clustered and not wait,
            f"Spark runs no Python application in cluster mode at master {submission.master!r}: use "
            "deploy_mode='client', or YARN or Kubernetes",
        ),
        (submission.clustered and bool(goes_on), goes_on),
    ]


def not_awaited(conf: Mapping[str, Any], wait: str = WAITS["yarn"]) -> str:
    """What is wrong where spark-submit ends before its application in the cluster does; empty if it waits."""
    waits = str(conf.get(wait, "true")).strip()
    said = f"so that the task knows how it ended, found {wait}={waits!r} in conf: leave it out"
    return "" if waits.lower() == "true" else f"spark-submit must wait for the application, {said}"


def check_classic(conf: Mapping[str, Any]) -> None:
    """`SettingError` for settings that make the session one of Spark Connect."""
    if "spark.remote" in conf:
        raise no_connect(f"spark.remote={conf['spark.remote']!r}")
    if conf.get("spark.api.mode") == "connect":
        raise no_connect("spark.api.mode='connect'")


def submit_command(
    submission: Submission, application: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> Command:
    """The spark-submit command, without `secret_settings`. Its environment reaches the driver in client mode only."""
    flags = ((flag, getattr(submission, name)) for name, flag in FLAGS.items())
    argv = [
        *(str(submission.spark_binary), "--master", submission.master),
        *(
            part
            for name, value in _conf(submission)
            if not is_secret(name, str(value))
            for part in ("--conf", f"{name}={value}")
        ),
        *(part for flag, value in flags if value for part in (flag, str(value))),
        *(["--verbose"] if submission.verbose else []),
        *(application, *map(str, arguments)),
    ]
    own = {} if submission.on_kubernetes else {name: str(value) for name, value in submission.env_vars.items()}
    return Command(tuple(argv), {**own, **environment})


def secret_settings(submission: Submission) -> dict[str, str]:
    """Spark's settings that belong into a private file: all processes of a machine can see a command line."""
    return {name: str(value) for name, value in _conf(submission) if is_secret(name, str(value))}


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
    if submission.clustered and submission.wait not in submission.conf:
        yield submission.wait, "true"  # whatever a file of settings says
    if submission.on_yarn:
        yield from ((f"spark.yarn.appMasterEnv.{name}", value) for name, value in submission.env_vars.items())
    if submission.on_kubernetes:
        yield from ((f"spark.kubernetes.driverEnv.{name}", value) for name, value in submission.env_vars.items())
        if submission.namespace and "spark.kubernetes.namespace" not in submission.conf:
            yield "spark.kubernetes.namespace", submission.namespace
    if submission.use_krb5ccache:
        yield "spark.kerberos.renewal.credentials", "ccache"


def _shown(option: str, argument: str) -> str:
    name, equals, value = argument.partition("=")
    if equals and is_secret(name) and is_secret(name, value):
        return f"{name}={MASK}"
    alone = option.startswith("--") and "=" not in option and is_secret(option) and is_secret(option, argument)
    return MASK if alone else masked(argument)


def rendered(asked: SparkSubmit, render: Callable[[Any], Any]) -> SparkSubmit:
    """Its templates rendered; Airflow shows none of the secrets among them."""
    given = {each.name: getattr(asked, each.name) for each in fields(asked)}
    texts = {name: render(value) for name, value in given.items() if isinstance(value, str | Mapping)}
    keep_from_logs({**texts["conf"], **texts["env_vars"]})
    return replace(asked, **texts)


def submission(asked: SparkSubmit, context: "Context") -> Submission:
    """The submission, with Spark's settings for lineage; `SettingError` if it cannot work."""
    if asked.use_krb5ccache:
        asked = replace(asked, principal=_ticket_principal(asked.principal))
    way_out = (
        f"create it with `airflow connections add {asked.conn_id} --conn-type spark --conn-host 'local[*]'`, or "
        "name another one with spark=SparkSubmit('...')"
    )
    found = submission_of(connection_of(asked.conn_id, "Spark connection", way_out), asked)
    return replace(found, conf=lineage(asked, context))


def lineage(asked: SparkSubmit, context: "Context") -> Mapping[str, Any]:
    """Spark's settings, with those of Airflow's OpenLineage provider if enabled."""
    from airflow.providers.common.compat.openlineage.utils import spark
    from airflow.providers.common.compat.sdk import conf as settings

    conf = dict(asked.conf)
    for name in ("parent_job", "transport"):
        wanted = getattr(asked, f"openlineage_inject_{name}_info")
        if wanted is None:
            wanted = settings.getboolean("openlineage", f"spark_inject_{name}_info", fallback=False)
        if wanted:
            conf = getattr(spark, f"inject_{name}_information_into_spark_properties")(conf, context)
    return conf


def _ticket_principal(principal: str | None) -> str:
    if not os.environ.get("KRB5CCNAME"):
        raise SettingError("use_krb5ccache=True needs KRB5CCNAME, the ticket cache, in the worker's environment")
    return kerberos_principal(principal)
