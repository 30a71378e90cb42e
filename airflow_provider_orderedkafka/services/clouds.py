"""The services of Amazon, Google and Databricks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..core.notation.spelling import arguments
from ..errors import SettingError
from ..hooks.submission import WAITS, not_awaited
from ..outputs import OPTIONS_VARIABLE
from .service import ELSEWHERE, LABEL, Launch, Service, check_conf, check_public, named, over, provider, runs_anew

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


DELAY: Final = 30
"""Seconds between two questions to a service."""

HOURS: Final = 12
"""How long an application may take unless more is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfAmazon(Service):
    """What all of Amazon's have."""

    extra: ClassVar = "amazon"

    conn_id: str = "aws_default"
    region: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    hours: int = HOURS

    @property
    def without_connection(self) -> str:
        return "AWS looks for credentials by itself"

    @property
    def waits(self) -> dict[str, Any]:
        """The arguments of each operator that say where the service is, and how long Airflow waits for it."""
        return {
            "aws_conn_id": self.conn_id,
            "region_name": self.region,
            "waiter_delay": DELAY,
            "waiter_max_attempts": self.hours * 3_600 // DELAY,
            "deferrable": self.deferrable,
        }


@arguments(**ELSEWHERE)
@dataclass(frozen=True, slots=True, kw_only=True)
class EmrServerless(_OfAmazon):
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
    :param hours: How long the application may take, for EMR and for Airflow.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    application_id: str
    role: str
    environment: str | None = None
    packages: str = ""

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        words = {**self.conf, "packages": self.packages, "py_files": ",".join(self.py_files)}
        words |= {"code": self.code, "environment": self.environment or ""}
        overrides = "set it in operator={'configuration_overrides': ...}, or leave the space out"
        _check_words("EmrServerless", words, overrides)

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.amazon.aws.operators.emr import EmrServerlessStartJobOperator
        asked = {
            "application_id": self.application_id,
            "execution_role_arn": self.role,
            "job_driver": {"sparkSubmit": self._job(launch)},
            "name": f"orderedkafka-{named(launch.load, 100)}",
            "config": {"executionTimeoutMinutes": self.hours * 60},
            **self.waits,
        }
        return self.made(EmrServerlessStartJobOperator, launch, asked)

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


def _check_words(service: str, settings: Mapping[str, Any], way_out: str) -> None:
    """`SettingError` for a value with a space: the service takes all of them as one text, and parts it at spaces."""
    for name, value in settings.items():
        if re.search(r"\s", re.sub("{{.*?}}", "", f"{name}{value}")):
            raise SettingError(
                f"{service}: {name} is {value!r}, but {service} takes these settings as one line, where a space ends a "
                f"value: {way_out}"
            )


@arguments(**ELSEWHERE, job_flow_id="it is cluster=")
@dataclass(frozen=True, slots=True, kw_only=True)
class EmrSteps(_OfAmazon):
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
    packages: str = ""

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        _check_waits("EmrSteps", self.conf)

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator
        words = ["spark-submit", "--deploy-mode", "cluster", "--py-files", ",".join([self.bundle, *self.py_files])]
        words += ["--packages", self.packages] if self.packages else []
        conf = {WAITS["yarn"]: "true", **self.conf}  # whatever the cluster's own settings say
        words += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        step = {"Jar": "command-runner.jar", "Args": [*words, launch.application, *launch.arguments]}
        name = f"orderedkafka-{named(launch.load, 100)}"
        asked = {
            "job_flow_id": self.cluster,
            "steps": [{"Name": name, "ActionOnFailure": "CONTINUE", "HadoopJarStep": step}],
            "wait_for_completion": True,
            **self.waits,
        }
        return self.made(EmrAddStepsOperator, launch, asked)


@arguments(
    **ELSEWHERE,
    packages="Glue resolves none: name jars with settings={'DefaultArguments': {'--extra-jars': 's3://bucket/a.jar'}}",
    environment="Glue installs Python's packages itself: python_modules=('confluent-kafka',)",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Glue(_OfAmazon):
    """Run the application as a job of AWS Glue, which is made or brought up to date, by Airflow's `GlueJobOperator`.

    :param code: The folder with what `orderedkafka bundle` writes, in S3, such as `"s3://bucket/code"`.
    :param role: The ARN of the role that it runs as: who reads the code, reads and writes the checkpoint, and, on MSK
        with IAM, asks Kafka.
    :param job: The name of the job in Glue. Default: the load's, after `orderedkafka-`.
    :param version: Glue's version, from 5.0 on: older ones have a Spark that is too old.
    :param worker_type: What each worker is.
    :param workers: How many of them.
    :param python_modules: What Glue installs with pip, on each worker, before the application begins.
    :param conn_id: The connection to AWS.
    :param region: The region. Default: the connection's.
    :param conf: Spark's settings.
    :param py_files: Where further modules and zips for Python's path are.
    :param settings: What else the job's definition has, such as `{"Connections": {"Connections": ["kafka"]}}`; it is
        put over what is there.
    :param hours: How long a run may take, for Glue and for Airflow.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    role: str
    job: str | None = None
    version: str = "5.0"
    worker_type: str = "G.1X"
    workers: int = 2
    python_modules: tuple[str, ...] = ("confluent-kafka", "pyarrow==18.1.0")
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        _check_words("Glue", self.conf, "leave the space out")
        if "--conf" in (self.settings.get("DefaultArguments") or ()):
            raise SettingError(
                "Glue: settings has a '--conf' among DefaultArguments, which Glue leaves out where a run has its own: "
                "set it with conf={'spark.name': 'value'}"
            )
        if not self.code.startswith("s3://"):
            raise SettingError(f"Glue: code must be a folder in S3, such as 's3://bucket/code', found {self.code!r}")
        if not re.fullmatch(r"[5-9]\.\d+|[1-9]\d+\.\d+", self.version):
            raise SettingError(
                f"Glue: version must be '5.0' or newer, found {self.version!r}: before that Spark is older than 3.5"
            )
        for each in self.python_modules:
            if "," in each:
                raise SettingError(
                    f"Glue: python_modules has {each!r}, but Glue splits them at commas: name one version, such as "
                    "'pyarrow==18.1.0'"
                )

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
        asked = {
            "job_name": self.job or f"orderedkafka-{launch.load}",  # no other load's: it is brought up to date
            "script_location": launch.application,
            "script_args": {**_by_name(launch), **self._settings_of_spark()},
            "iam_role_arn": self.role,
            "create_job_kwargs": over(self._definition(), self.settings),
            "update_config": True,
            "concurrent_run_limit": 3,  # an attempt that is given up ends when the next one has begun
            "stop_job_run_on_kill": True,
            **self.waits,
            **runs_anew(GlueJobOperator),
        }
        return self.made(GlueJobOperator, launch, asked)

    def _definition(self) -> dict[str, Any]:
        given = {
            "--extra-py-files": ",".join([self.bundle, *self.py_files]),
            "--additional-python-modules": ",".join(self.python_modules),
            "--job-bookmark-option": "job-bookmark-disable",
        }
        return {
            "GlueVersion": self.version,
            "WorkerType": self.worker_type,
            "NumberOfWorkers": self.workers,
            "Timeout": self.hours * 60,
            "DefaultArguments": {name: text for name, text in given.items() if text},
        }

    def _settings_of_spark(self) -> dict[str, str]:
        """They are a run's: lineage of Airflow adds its own there, and a job's would be nothing beside a run's."""
        said = " --conf ".join(f"{name}={value}" for name, value in self.conf.items())
        return {"--conf": said} if said else {}


def _by_name(launch: Launch) -> dict[str, str]:
    """The arguments as Glue takes them; `SettingError` for those of an application that have no names."""
    words = launch.arguments
    found = dict(zip(words[::2], words[1::2], strict=False))
    if 2 * len(found) != len(words) or not all(name.startswith("--") for name in found):
        raise SettingError(
            f"load {launch.load!r}: Glue takes arguments by name, found {' '.join(words[:-4])!r} for the application: "
            "write each as '--name' and its value, and none twice"
        )
    return found


@arguments(
    **ELSEWHERE,
    packages="it is one of Spark's settings: conf={'spark.jars.packages': '...'}",
    environment="a batch has an image= with Python's packages, and a cluster has them on its machines",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Dataproc(Service):
    """Run the application on Dataproc: as a batch without a cluster, or as a job of a cluster that runs.

    By Airflow's `DataprocCreateBatchOperator`, or its `DataprocSubmitJobOperator`.

    :param code: The folder with what `orderedkafka bundle` writes, such as `"gs://bucket/code"`.
    :param project: The project that it runs in.
    :param region: The region.
    :param image: The image of a batch, which has what the application needs of Python.
    :param version: The version of a batch's runtime, which says which Spark it is.
    :param cluster: The name of a cluster, whose machines have what the application needs of Python. Default: a batch.
    :param conn_id: The connection to Google.
    :param conf: Spark's settings.
    :param py_files: Where further modules and zips for Python's path are.
    :param settings: What else the batch, or the cluster's job, has, such as
        `{"environment_config": {"execution_config": {"service_account": "..."}}}`; it is put over what is there.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    extra: ClassVar = "google"

    project: str
    region: str
    image: str | None = None
    version: str = "3.0"
    cluster: str | None = None
    conn_id: str = "google_cloud_default"
    conf: Mapping[str, Any] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        if (self.image is None) == (self.cluster is None):
            raise SettingError(
                f"Dataproc: found image={self.image!r} and cluster={self.cluster!r}: name either the image of a "
                "batch, which has the Python packages of the application, or the cluster that runs it"
            )
        _check_waits("Dataproc", self.conf)

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.google.cloud.operators.dataproc import (
                DataprocCreateBatchOperator,
                DataprocSubmitJobOperator,
            )
        asked = {
            "project_id": self.project,
            "region": self.region,
            "gcp_conn_id": self.conn_id,
            "deferrable": self.deferrable,
        }
        if self.cluster is None:  # no batch_id: one of that name would be taken for the next attempt's
            batch = over(self._batch(launch), self.settings)
            return self.made(DataprocCreateBatchOperator, launch, {**asked, "batch": batch})
        return self.made(DataprocSubmitJobOperator, launch, {**asked, "job": over(self._job(launch), self.settings)})

    def _batch(self, launch: Launch) -> dict[str, Any]:
        runtime = {"version": self.version, "container_image": self.image, "properties": self._properties()}
        return {
            "pyspark_batch": self._program(launch),
            "runtime_config": runtime,
            "environment_config": {"execution_config": {"ttl": {"seconds": HOURS * 3_600}}},  # by itself, it is 4 hours
            "labels": _labels(launch),
        }

    def _job(self, launch: Launch) -> dict[str, Any]:
        program = {**self._program(launch), "properties": self._properties()}
        return {"placement": {"cluster_name": self.cluster}, "pyspark_job": program, "labels": _labels(launch)}

    def _program(self, launch: Launch) -> dict[str, Any]:
        return {
            "main_python_file_uri": launch.application,
            "args": [*launch.arguments],
            "python_file_uris": [self.bundle, *self.py_files],
        }

    def _properties(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.conf.items()}


def _check_waits(service: str, conf: Mapping[str, Any]) -> None:
    """`SettingError` where the service would take the application for ended when it has only been submitted."""
    if wrong := not_awaited(conf):
        raise SettingError(f"{service}: {wrong}")


def _labels(launch: Launch) -> dict[str, str]:
    return {"orderedkafka-load": named(launch.load, LABEL)}


SHARED: Final = ("USER_ISOLATION", "DATA_SECURITY_MODE_STANDARD", "DATA_SECURITY_MODE_AUTO")
"""Databricks' access modes that keep an application from the JVM, or may."""


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

    extra: ClassVar = "databricks"

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
                    f"Databricks: the cluster {self.cluster!r} exists already, so a run cannot give it secret=: set "
                    f"{OPTIONS_VARIABLE} in the cluster's environment, or give cluster= the settings of a new one"
                )
            return
        mode = self.cluster.get("data_security_mode")
        if mode in SHARED:
            raise SettingError(
                f"Databricks: the cluster has data_security_mode={mode!r}, which keeps applications from the JVM, but "
                "a load needs the JVM: use 'SINGLE_USER', which is dedicated access"
            )
        check_conf("Databricks", self.cluster.get("spark_conf", {}))
        check_public("Databricks", self.cluster.get("spark_env_vars", {}))

    @property
    def bundle(self) -> str:
        return ""

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
        asked = {
            **self._where(),
            "spark_python_task": {"python_file": launch.application, "parameters": [*launch.arguments]},
            "run_name": f"orderedkafka-{launch.load}",
            "databricks_conn_id": self.conn_id,
            "deferrable": self.deferrable,
            **runs_anew(DatabricksSubmitRunOperator),
        }
        return self.made(DatabricksSubmitRunOperator, launch, asked)

    def _where(self) -> dict[str, Any]:
        if isinstance(self.cluster, str):
            return {"existing_cluster_id": self.cluster}
        found = over({"data_security_mode": "SINGLE_USER"}, self.cluster)
        if self.secret is not None:
            found = over(found, {"spark_env_vars": {OPTIONS_VARIABLE: f"{{{{secrets/{self.secret}}}}}"}})
        for name in {"spark_conf", "spark_env_vars"} & {*found}:
            found[name] = {each: _kept(value) for each, value in found[name].items()}
        return {"new_cluster": found}


def _kept(value: Any) -> Any:
    """Databricks' own template of a secret, kept from Airflow's."""
    return f"{{{{ '{value}' }}}}" if re.fullmatch(r"{{secrets/[^{}']+}}", str(value)) else value
