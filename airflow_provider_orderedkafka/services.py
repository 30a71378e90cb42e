"""Services that run Spark elsewhere than on Airflow's worker, as values for `spark=`.

Each makes the operator of its own Airflow provider, from what the application is to be told. Nothing that is secret is
in a request: Kafka's public settings go as one word, and the secret ones lie in a store of the service's own, or a
function fetches them where Spark runs. What is missing is said when the DAG is parsed, or by the resolve task, before
an attempt is counted.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_orderedkafka.core.codec import packed
from airflow_provider_orderedkafka.core.notation.secrets import is_secret
from airflow_provider_orderedkafka.core.notation.spelling import arguments, parameters
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.launching import kafka_options
from airflow_provider_orderedkafka.job import LONGEST, Job, bundle_name
from airflow_provider_orderedkafka.load import OrderedLoad
from airflow_provider_orderedkafka.locations import is_missing
from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

LABEL: Final = 63
"""Characters of a label of Kubernetes."""

SHARED: Final = ("USER_ISOLATION", "DATA_SECURITY_MODE_STANDARD", "DATA_SECURITY_MODE_AUTO")
"""Databricks' access modes that keep an application from the JVM, or may."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a function given as `spark=` gets, to make the operator that runs the application.

    :param load: Name of the load.
    :param application: Path of the application, as this DAG file sees it.
    :param arguments: Its command line, but for Kafka's settings: `["--work", ...]`, a word that nothing on its way
        changes. (a template)
    :param report: The location of its report. (a template)
    :param task: Arguments that the operator must get, as `**launch.task`.
    """

    load: str
    application: str
    arguments: tuple[str, ...]
    report: str
    task: Mapping[str, Any]


Launcher = Callable[[Launch], "BaseOperator"]

IN_THE_CONNECTION: Final = "it is in Airflow's Kafka connection, which the load names: kafka_conn_id="
ELSEWHERE: Final = {
    "application": "say it with rows=Rows(application=Application('my_app.py')): it begins at code=",
    "checkpoint": "it is an argument of ordered_load(): checkpoint='s3://bucket/orderedkafka'",
    "servers": IN_THE_CONNECTION,
    "options": IN_THE_CONNECTION,
    **dict.fromkeys(("retries", "pool", "queue"), "it is an argument of a task: tasks={'load': {...}}"),
}


@dataclass(frozen=True, slots=True)
class Service(ABC):
    """What all of them have."""

    code: str
    deferrable: bool = field(default=True, kw_only=True)
    operator: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("operator", "conf"):
            given = getattr(self, name, {})
            if not isinstance(given, Mapping):
                raise SettingError(f"{_name(self)}: {name} must be values by name, found {given!r}")
        _check_public(_name(self), getattr(self, "conf", {}))
        if not isinstance(self.code, str) or not self.code:
            raise SettingError(
                f"{_name(self)}: code must be the folder with what `orderedkafka bundle` writes, such as "
                f"'s3://bucket/code', found {self.code!r}"
            )

    @abstractmethod
    def __call__(self, launch: Launch) -> "BaseOperator":
        """The operator; `SettingError` where its provider is missing."""

    @property
    def bundle(self) -> str:
        """Where this package's code is."""
        return f"{self.code.rstrip('/')}/{bundle_name()}"

    def application(self, own: str, packaged: str) -> str:
        """Where the application is: a relative path of one's own begins at `code`, as the packaged ones do."""
        name = own or PurePosixPath(packaged).name
        return name if "://" in name or name.startswith("/") else f"{self.code.rstrip('/')}/{name}"

    def check_shipped(self, load: str, shipped: Path | None) -> None:
        """`SettingError` for a transform beside the DAG file that nothing brings to where Spark runs."""
        if shipped is not None and not getattr(self, "py_files", True):
            there = f"{self.code.rstrip('/')}/{shipped.name}{'' if shipped.is_file() else '.zip'}"
            raise SettingError(
                f"load {load!r}: its transform is in {str(shipped)!r}, which {_name(self)} does not see: copy it to "
                f"{there!r}, and name it there with py_files=({there!r},)"
            )

    def options(self, load: OrderedLoad, job: Job) -> str:
        """Kafka's settings as one word; `SettingError` where that would show a secret, or the code is not there."""
        if is_missing(self.bundle):
            raise SettingError(
                f"load {load.name!r}: {_name(self)} looks for this release's code at {self.bundle!r}, and it is not "
                f"there: write it into a folder with `orderedkafka bundle code/`, and copy that to {self.code!r}"
            )
        found = kafka_options(load, job)
        secret = sorted(name for name, value in found.items() if is_secret(name, value))
        if secret and not getattr(self, "secret", None):
            also = "name a secret of the service's own with secret=; or " if hasattr(self, "secret") else ""
            raise SettingError(
                f"load {load.name!r}: Kafka's setting {secret[0]!r} is a secret, which {_name(self)} could only pass "
                f"as an argument for all to see: {also}leave secrets out of the connection, and name a function that "
                "makes them where Spark runs ('orderedkafka.resolver': 'package.module:function')"
            )
        word = packed(json.dumps({name: value for name, value in found.items() if name not in secret}))
        if len(word) > LONGEST:
            largest = max(found, key=lambda name: len(found[name]))
            raise SettingError(
                f"load {load.name!r}: Kafka's settings are {len(word):,} characters as a word, and services take "
                f"{LONGEST:,}: the longest is {largest!r}; name a file of Spark's machines instead, or let a resolver "
                "set it there ('orderedkafka.resolver': 'package.module:function')"
            )
        return word


def _name(service: object) -> str:
    return type(service).__name__


def _check_public(service: str, settings: Mapping[str, Any]) -> None:
    """`SettingError` for a secret among Spark's settings, which each service shows."""
    for name, value in settings.items():
        if is_secret(name, str(value)) and "{{secrets/" not in str(value):
            raise SettingError(
                f"{service}: Spark's setting {name!r} is a secret, and services show their settings: leave it out, and "
                "let the service's own identity or its store of secrets grant what it is for"
            )


@contextmanager
def _provider(service: Service, extra: str) -> Iterator[None]:
    """`SettingError` where the operator's provider is not installed."""
    try:
        yield
    except ImportError as error:
        raise SettingError(
            f"spark={_name(service)}(...) makes an operator of a provider that is not installed here ({error}): pip "
            f"install 'airflow-provider-orderedkafka[{extra}]' where DAGs are parsed and tasks run"
        ) from error


def _over(given: Any, more: Any) -> Any:
    """What is given, with more put over it, where both are mappings by name."""
    if not isinstance(given, Mapping) or not isinstance(more, Mapping):
        return more
    return {**given, **{name: _over(given.get(name, {}), value) for name, value in more.items()}}


def _named(load: str, longest: int) -> str:
    """The load's name, as a label or a part of a name takes it."""
    return re.sub(r"[^a-z0-9]+", "-", load.lower())[:longest].strip("-")


@arguments(**ELSEWHERE)
@dataclass(frozen=True, slots=True, kw_only=True)
class SparkKubernetes(Service):
    """Run the application with Kubeflow's Spark operator, by Airflow's `SparkKubernetesOperator`.

    :param code: The folder with what `orderedkafka bundle` writes: in the image, such as `"local:///opt/orderedkafka"`,
        or where Spark reads it.
    :param image: An image with Spark, and what the application needs of Python.
    :param secret: A secret of Kubernetes with Kafka's settings, as `"name:key"`: a JSON object. What it says goes
        before the connection.
    :param namespace: Where the application runs.
    :param conn_id: The connection to Kubernetes.
    :param service_account: Who the driver is.
    :param executors: How many executors.
    :param conf: Spark's settings.
    :param spec: What else the `spec` of the `SparkApplication` has, such as `{"driver": {"memory": "4g"}}`; it is put
        over what is there.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    image: str
    secret: str | None = None
    namespace: str = "default"
    conn_id: str = "kubernetes_default"
    service_account: str = "spark"
    executors: int = 2
    conf: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        if self.secret is not None and not re.fullmatch(r"[a-z0-9.-]+:[A-Za-z0-9._-]+", self.secret):
            raise SettingError(f"SparkKubernetes: secret must be 'name:key' of a secret, found {self.secret!r}")

    def __call__(self, launch: Launch) -> "BaseOperator":
        with _provider(self, "kubernetes"):
            from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
        asked = {
            "name": f"orderedkafka-{_named(launch.load, 40)}",
            "namespace": self.namespace,
            "kubernetes_conn_id": self.conn_id,
            "deferrable": self.deferrable,
            "template_spec": {"spark": self._application(launch)},
        }
        made: BaseOperator = SparkKubernetesOperator(**{**asked, **self.operator}, **launch.task)
        return made

    def _application(self, launch: Launch) -> dict[str, Any]:
        labels = {"orderedkafka-load": _named(launch.load, LABEL)}
        pod = {"cores": 1, "memory": "2g", "labels": labels}
        spec = {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": "4.0.1",
            "image": self.image,
            "mainApplicationFile": launch.application,
            "deps": {"pyFiles": [self.bundle]},
            "arguments": [*launch.arguments],
            "sparkConf": {name: str(value) for name, value in self.conf.items()},
            "restartPolicy": {"type": "Never"},  # Airflow tries again
            "driver": {**pod, "serviceAccount": self.service_account, "env": self._environment()},
            "executor": {**pod, "instances": self.executors},
        }
        found = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}
        return {**found, "metadata": {"labels": labels}, "spec": _over(spec, self.spec)}

    def _environment(self) -> list[dict[str, Any]]:
        """The driver's alone: it hands the settings on to the executors' tasks in memory."""
        if self.secret is None:
            return []
        name, _, key = self.secret.partition(":")
        return [{"name": OPTIONS_VARIABLE, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}]


@arguments(**ELSEWHERE)
@dataclass(frozen=True, slots=True, kw_only=True)
class EmrServerless(Service):
    """Run the application on Amazon EMR Serverless, by Airflow's `EmrServerlessStartJobOperator`.

    :param code: The folder with what `orderedkafka bundle` writes, such as `"s3://bucket/code"`.
    :param application_id: The application of EMR that runs it.
    :param role: The ARN of the role that it runs as: who reads the code, reads and writes the checkpoint, and, on MSK
        with IAM, asks Kafka.
    :param environment: An archive with the Python that the application needs, such as `venv-pack` makes.
    :param conn_id: The connection to AWS.
    :param region: The region. Default: the connection's.
    :param conf: Spark's settings.
    :param packages: Packages of Maven, separated by commas.
    :param py_files: Where further modules and zips for Python's path are.
    :param hours: How long Airflow waits: as long as EMR itself does by default.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    application_id: str
    role: str
    environment: str | None = None
    conn_id: str = "aws_default"
    region: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: str = ""
    py_files: tuple[str, ...] = ()
    hours: int = 12

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        _check_words("EmrServerless", {**self.conf, "packages": self.packages, "py_files": ",".join(self.py_files)})

    def __call__(self, launch: Launch) -> "BaseOperator":
        with _provider(self, "amazon"):
            from airflow.providers.amazon.aws.operators.emr import EmrServerlessStartJobOperator
        delay = 30
        asked = {
            "application_id": self.application_id,
            "execution_role_arn": self.role,
            "job_driver": {"sparkSubmit": self._job(launch)},
            "name": f"orderedkafka-{_named(launch.load, 100)}",
            "aws_conn_id": self.conn_id,
            "region_name": self.region,
            "waiter_delay": delay,
            "waiter_max_attempts": self.hours * 3_600 // delay,
            "deferrable": self.deferrable,
        }
        made: BaseOperator = EmrServerlessStartJobOperator(**{**asked, **self.operator}, **launch.task)
        return made

    def _job(self, launch: Launch) -> dict[str, Any]:
        files = ",".join([self.bundle, *self.py_files])
        more = f" --packages {self.packages}" if self.packages else ""
        conf = "".join(f" --conf {name}={value}" for name, value in {**self._python(), **self.conf}.items())
        return {
            "entryPoint": launch.application,
            "entryPointArguments": [*launch.arguments],
            "sparkSubmitParameters": f"--py-files {files}{more}{conf}",
        }

    def _python(self) -> dict[str, str]:
        if self.environment is None:
            return {}
        python = "./environment/bin/python"
        return {
            "spark.archives": f"{self.environment}#environment",
            "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
            "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
            "spark.executorEnv.PYSPARK_PYTHON": python,
        }


def _check_words(service: str, settings: Mapping[str, Any]) -> None:
    """`SettingError` for a value with a space: the service takes all of them as one text, and parts it at spaces."""
    for name, value in settings.items():
        if re.search(r"\s", f"{name}{value}"):
            raise SettingError(
                f"{service}: {name} is {value!r}, and a space in it would end it: {service} takes these settings as "
                "one line; set it in operator={'configuration_overrides': ...}, or leave the space out"
            )


@arguments(
    **ELSEWHERE,
    **dict.fromkeys(
        ("conf", "packages", "py_files", "libraries"),
        "it belongs to the cluster: Databricks({'spark_conf': ..., 'init_scripts': ...}, ...)",
    ),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Databricks(Service):
    """Run the application on a cluster of Databricks with dedicated access, by Airflow's `DatabricksSubmitRunOperator`.

    :param code: The folder with the packaged applications, of what `orderedkafka bundle` writes. The cluster itself
        installs this package, without its dependencies, and what it needs.
    :param cluster: The cluster that is made for it, as Databricks' `new_cluster`; or the ID of one that is there.
    :param secret: A secret of Databricks with Kafka's settings, as `"scope/key"`: a JSON object. What it says goes
        before the connection.
    :param conn_id: The connection to Databricks.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    cluster: Mapping[str, Any] | str
    secret: str | None = None
    conn_id: str = "databricks_default"

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        if not isinstance(self.cluster, Mapping | str) or not self.cluster:
            raise SettingError(f"Databricks: cluster must be a new cluster's settings or an ID, found {self.cluster!r}")
        if self.secret is not None and not re.fullmatch(r"[\w.@-]+/[\w.@-]+", self.secret):
            raise SettingError(f"Databricks: secret must be 'scope/key' of a secret, found {self.secret!r}")
        if isinstance(self.cluster, str):
            if self.secret is not None:
                raise SettingError(
                    f"Databricks: the cluster {self.cluster!r} is there already, and a run cannot give it secret=: set "
                    f"{OPTIONS_VARIABLE} in its own environment, or let a new one be made"
                )
            return
        mode = self.cluster.get("data_security_mode")
        if mode in SHARED:
            raise SettingError(
                f"Databricks: the cluster has data_security_mode={mode!r}, which keeps an application from the JVM, "
                "and a load needs it: use 'SINGLE_USER', which is dedicated access"
            )
        _check_public("Databricks", {**self.cluster.get("spark_conf", {}), **self.cluster.get("spark_env_vars", {})})

    @property
    def bundle(self) -> str:
        return ""

    def __call__(self, launch: Launch) -> "BaseOperator":
        with _provider(self, "databricks"):
            from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
        asked = {
            **self._where(),
            "spark_python_task": {"python_file": launch.application, "parameters": [*launch.arguments]},
            "run_name": f"orderedkafka-{launch.load}",
            "databricks_conn_id": self.conn_id,
            "deferrable": self.deferrable,
        }
        if "durable" in parameters(DatabricksSubmitRunOperator):  # it would take a job that succeeded for the next one
            asked["durable"] = False
        made: BaseOperator = DatabricksSubmitRunOperator(**{**asked, **self.operator}, **launch.task)
        return made

    def _where(self) -> dict[str, Any]:
        if isinstance(self.cluster, str):
            return {"existing_cluster_id": self.cluster}
        found = _over({"data_security_mode": "SINGLE_USER"}, self.cluster)
        if self.secret is not None:  # Databricks' own template of a secret, kept from Airflow's
            ours = {OPTIONS_VARIABLE: f"{{{{ '{{{{secrets/{self.secret}}}}}' }}}}"}
            found = _over(found, {"spark_env_vars": ours})
        return {"new_cluster": found}


@arguments(**ELSEWHERE, job_flow_id="it is cluster=")
@dataclass(frozen=True, slots=True, kw_only=True)
class EmrSteps(Service):
    """Run the application as a step of an Amazon EMR cluster that runs, by Airflow's `EmrAddStepsOperator`.

    :param code: The folder with what `orderedkafka bundle` writes, such as `"s3://bucket/code"`.
    :param cluster: The ID of the cluster, whose machines have what the application needs of Python. (may be a template)
    :param conn_id: The connection to AWS.
    :param region: The region. Default: the connection's.
    :param conf: Spark's settings.
    :param packages: Packages of Maven, separated by commas.
    :param py_files: Where further modules and zips for Python's path are.
    :param hours: How long Airflow waits. A step that it gives up ends when the next attempt begins.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    cluster: str
    conn_id: str = "aws_default"
    region: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: str = ""
    py_files: tuple[str, ...] = ()
    hours: int = 12

    def __call__(self, launch: Launch) -> "BaseOperator":
        with _provider(self, "amazon"):
            from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator
        delay = 30
        words = ["spark-submit", "--deploy-mode", "cluster", "--py-files", ",".join([self.bundle, *self.py_files])]
        words += ["--packages", self.packages] if self.packages else []
        words += [part for name, value in self.conf.items() for part in ("--conf", f"{name}={value}")]
        step = {"Jar": "command-runner.jar", "Args": [*words, launch.application, *launch.arguments]}
        name = f"orderedkafka-{_named(launch.load, 100)}"
        asked = {
            "job_flow_id": self.cluster,
            "steps": [{"Name": name, "ActionOnFailure": "CONTINUE", "HadoopJarStep": step}],
            "aws_conn_id": self.conn_id,
            "region_name": self.region,
            "wait_for_completion": True,
            "waiter_delay": delay,
            "waiter_max_attempts": self.hours * 3_600 // delay,
            "deferrable": self.deferrable,
        }
        made: BaseOperator = EmrAddStepsOperator(**{**asked, **self.operator}, **launch.task)
        return made


@arguments(**ELSEWHERE)
@dataclass(frozen=True, slots=True, kw_only=True)
class Livy(Service):
    """Run the application by Apache Livy, for Spark on YARN, by Airflow's `LivyOperator`.

    :param code: The folder with what `orderedkafka bundle` writes, such as `"hdfs:///orderedkafka"`.
    :param environment: An archive with the Python that the application needs, such as `venv-pack` makes.
    :param conn_id: The connection to Livy.
    :param conf: Spark's settings.
    :param py_files: Where further modules and zips for Python's path are.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    environment: str | None = None
    conn_id: str = "livy_default"
    conf: Mapping[str, Any] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()

    def __call__(self, launch: Launch) -> "BaseOperator":
        with _provider(self, "livy"):
            from airflow.providers.apache.livy.operators.livy import LivyOperator
        python = {} if self.environment is None else {"spark.pyspark.python": "./environment/bin/python"}
        asked = {  # no name: Livy refuses a second batch of the same one, and so the next attempt
            "file": launch.application,
            "args": [*launch.arguments],
            "py_files": [self.bundle, *self.py_files],
            "archives": None if self.environment is None else [f"{self.environment}#environment"],
            "conf": {"spark.submit.deployMode": "cluster", **python, **self.conf},
            "livy_conn_id": self.conn_id,
            "polling_interval": 10,
            "deferrable": self.deferrable,
        }
        if "durable" in parameters(LivyOperator):  # it would take a batch that succeeded for the next one
            asked["durable"] = False
        made: BaseOperator = LivyOperator(**{**asked, **self.operator}, **launch.task)
        return made
