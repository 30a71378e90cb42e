"""Amazon's services."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka.core.notation.spelling import arguments
from airflow_provider_orderedkafka.errors import SettingError

from .service import ELSEWHERE, Launch, Service, named, provider

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
        with provider(self, "amazon"):
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


def _check_words(service: str, settings: Mapping[str, Any]) -> None:
    """`SettingError` for a value with a space: the service takes all of them as one text, and parts it at spaces."""
    for name, value in settings.items():
        if re.search(r"\s", f"{name}{value}"):
            raise SettingError(
                f"{service}: {name} is {value!r}, and a space in it would end it: {service} takes these settings as "
                "one line; set it in operator={'configuration_overrides': ...}, or leave the space out"
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

    cluster: str
    conn_id: str = "aws_default"
    region: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    packages: str = ""
    py_files: tuple[str, ...] = ()
    hours: int = 12

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self, "amazon"):
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
