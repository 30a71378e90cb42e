"""Amazon's services."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_orderedkafka.core.notation.spelling import arguments, parameters
from airflow_provider_orderedkafka.errors import SettingError

from .service import ELSEWHERE, Launch, Service, named, over, provider

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


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

    extra: ClassVar = "amazon"
    does_without_connection: ClassVar = True

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
        words = {**self.conf, "packages": self.packages, "py_files": ",".join(self.py_files)}
        overrides = "set it in operator={'configuration_overrides': ...}, or leave the space out"
        _check_words("EmrServerless", words, overrides)

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.amazon.aws.operators.emr import EmrServerlessStartJobOperator
        delay = 30
        asked = {
            "application_id": self.application_id,
            "execution_role_arn": self.role,
            "job_driver": {"sparkSubmit": self._job(launch)},
            "name": f"orderedkafka-{named(launch.load, 100)}",
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


def _check_words(service: str, settings: Mapping[str, Any], way_out: str) -> None:
    """`SettingError` for a value with a space: the service takes all of them as one text, and parts it at spaces."""
    for name, value in settings.items():
        if re.search(r"\s", f"{name}{value}"):
            raise SettingError(
                f"{service}: {name} is {value!r}, and a space in it would end it: {service} takes these settings as "
                f"one line; {way_out}"
            )


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

    extra: ClassVar = "amazon"
    does_without_connection: ClassVar = True

    cluster: str
    conn_id: str = "aws_default"
    region: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: str = ""
    py_files: tuple[str, ...] = ()
    hours: int = 12

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator
        delay = 30
        words = ["spark-submit", "--deploy-mode", "cluster", "--py-files", ",".join([self.bundle, *self.py_files])]
        words += ["--packages", self.packages] if self.packages else []
        words += [part for name, value in self.conf.items() for part in ("--conf", f"{name}={value}")]
        step = {"Jar": "command-runner.jar", "Args": [*words, launch.application, *launch.arguments]}
        name = f"orderedkafka-{named(launch.load, 100)}"
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


@arguments(
    **ELSEWHERE,
    packages="Glue resolves none: name jars with settings={'DefaultArguments': {'--extra-jars': 's3://bucket/a.jar'}}",
    environment="Glue installs Python's packages itself: python_modules=('confluent-kafka',)",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Glue(Service):
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

    extra: ClassVar = "amazon"
    does_without_connection: ClassVar = True

    role: str
    job: str | None = None
    version: str = "5.0"
    worker_type: str = "G.1X"
    workers: int = 2
    python_modules: tuple[str, ...] = ("confluent-kafka", "pyarrow==18.1.0")
    conn_id: str = "aws_default"
    region: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    hours: int = 12

    def __post_init__(self) -> None:
        Service.__post_init__(self)
        _check_words("Glue", self.conf, "leave the space out")
        if not self.code.startswith("s3://"):
            raise SettingError(f"Glue: code must be a folder in S3, such as 's3://bucket/code', found {self.code!r}")
        if not re.fullmatch(r"[5-9]\.\d+|[1-9]\d+\.\d+", self.version):
            raise SettingError(
                f"Glue: version must be '5.0' or newer, found {self.version!r}: before that Spark is older than 3.5"
            )
        for each in self.python_modules:
            if "," in each:
                raise SettingError(
                    f"Glue: python_modules has {each!r}, and Glue parts them at commas: name one version, such as "
                    "'pyarrow==18.1.0'"
                )

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
        delay = 30
        asked = {
            "job_name": self.job or f"orderedkafka-{launch.load}",  # no other load's: it is brought up to date
            "script_location": launch.application,
            "script_args": _by_name(launch),
            "iam_role_arn": self.role,
            "create_job_kwargs": over(self._definition(), self.settings),
            "update_config": True,
            "concurrent_run_limit": 3,  # an attempt that is given up ends when the next one has begun
            "stop_job_run_on_kill": True,
            "aws_conn_id": self.conn_id,
            "region_name": self.region,
            "waiter_delay": delay,
            "waiter_max_attempts": self.hours * 3_600 // delay,
            "deferrable": self.deferrable,
        }
        if "durable" in parameters(GlueJobOperator):  # it would follow a run with other arguments
            asked["durable"] = False
        made: BaseOperator = GlueJobOperator(**{**asked, **self.operator}, **launch.task)
        return made

    def _definition(self) -> dict[str, Any]:
        given = {
            "--extra-py-files": ",".join([self.bundle, *self.py_files]),
            "--additional-python-modules": ",".join(self.python_modules),
            "--conf": " --conf ".join(f"{name}={value}" for name, value in self.conf.items()),
            "--job-bookmark-option": "job-bookmark-disable",
        }
        return {
            "GlueVersion": self.version,
            "WorkerType": self.worker_type,
            "NumberOfWorkers": self.workers,
            "Timeout": self.hours * 60,
            "DefaultArguments": {name: text for name, text in given.items() if text},
        }


def _by_name(launch: Launch) -> dict[str, str]:
    """The arguments as Glue takes them; `SettingError` for those of an application that have no names."""
    words = launch.arguments
    found = dict(zip(words[::2], words[1::2], strict=False))
    if 2 * len(found) != len(words) or not all(name.startswith("--") for name in found):
        raise SettingError(
            f"load {launch.load!r}: Glue takes arguments by name, found {' '.join(words[:-4])!r} for the application: "
            "let each be '--name' and its value, and none come twice"
        )
    return found
