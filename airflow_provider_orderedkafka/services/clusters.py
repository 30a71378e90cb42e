"""Clusters of one's own: Kubernetes, and YARN behind Livy."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.notation.spelling import arguments
from ..errors import SettingError
from ..outputs import OPTIONS_VARIABLE
from .service import ELSEWHERE, LABEL, Launch, Service, check_conf, named, over, provider, runs_anew

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


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
        over what is there, a list after it.
    :param deferrable: Whether Airflow's triggerer waits for the application, and not a worker.
    :param operator: Further arguments of the operator.
    """

    extra: ClassVar = "kubernetes"

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
        check_conf("SparkKubernetes", self.spec.get("sparkConf", {}))

    @property
    def without_connection(self) -> str:
        return "the operator is who its own pod is" if self.conn_id == "kubernetes_default" else ""

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
        asked = {
            "name": f"orderedkafka-{named(launch.load, 40)}",
            "namespace": self.namespace,
            "kubernetes_conn_id": self.conn_id,
            "deferrable": self.deferrable,
            "reattach_on_restart": False,  # an application that has succeeded may have loaded the range before this one
            "template_spec": {"spark": self._application(launch)},
        }
        return self.made(SparkKubernetesOperator, launch, asked)

    def _application(self, launch: Launch) -> dict[str, Any]:
        labels = {"orderedkafka-load": named(launch.load, LABEL)}
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
            "sparkConf": _texts(self.conf),
            "restartPolicy": {"type": "Never"},  # Airflow tries again
            "driver": {**pod, "serviceAccount": self.service_account, "env": self._environment()},
            "executor": {**pod, "instances": self.executors},
        }
        found = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}
        return {**found, "metadata": {"labels": labels}, "spec": over(spec, self.spec)}

    def _environment(self) -> list[dict[str, Any]]:
        """The driver's alone: it hands the settings on to the executors' tasks in memory."""
        if self.secret is None:
            return []
        name, _, key = self.secret.partition(":")
        return [{"name": OPTIONS_VARIABLE, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}]


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

    extra: ClassVar = "livy"

    environment: str | None = None
    conn_id: str = "livy_default"
    conf: Mapping[str, Any] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()

    def __call__(self, launch: Launch) -> "BaseOperator":
        with provider(self):
            from airflow.providers.apache.livy.operators.livy import LivyOperator
        python = {} if self.environment is None else {"spark.pyspark.python": "./environment/bin/python"}
        asked = {  # no name: Livy refuses a second batch of the same one, and so the next attempt
            "file": launch.application,
            "args": [*launch.arguments],
            "py_files": [self.bundle, *self.py_files],
            "archives": None if self.environment is None else [f"{self.environment}#environment"],
            "conf": {"spark.submit.deployMode": "cluster", **python, **_texts(self.conf)},
            "livy_conn_id": self.conn_id,
            "polling_interval": 10,
            "deferrable": self.deferrable,
            **runs_anew(LivyOperator),
        }
        return self.made(LivyOperator, launch, asked)


def _texts(conf: Mapping[str, Any]) -> dict[str, str]:
    """Spark's settings as Livy and Kubernetes take them: of numbers, Airflow's hook for Livy takes integers alone."""
    return {name: str(value) for name, value in conf.items()}
