"""Google's Dataproc, without a cluster or on one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_orderedkafka.core.notation.spelling import arguments
from airflow_provider_orderedkafka.errors import SettingError

from .service import ELSEWHERE, LABEL, Launch, Service, named, over, provider

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


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
                f"Dataproc: found image={self.image!r} and cluster={self.cluster!r}: name the image of a batch, which "
                "has what the application needs of Python, or the cluster that runs it"
            )

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
        made: BaseOperator
        if self.cluster is None:  # no batch_id: one of that name would be taken for the next attempt's
            given = {**asked, "batch": over(self._batch(launch), self.settings), **self.operator}
            made = DataprocCreateBatchOperator(**given, **launch.task)
        else:
            given = {**asked, "job": over(self._job(launch), self.settings), **self.operator}
            made = DataprocSubmitJobOperator(**given, **launch.task)
        return made

    def _batch(self, launch: Launch) -> dict[str, Any]:
        runtime = {"version": self.version, "container_image": self.image, "properties": self._properties()}
        return {"pyspark_batch": self._program(launch), "runtime_config": runtime, "labels": _labels(launch)}

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


def _labels(launch: Launch) -> dict[str, str]:
    return {"orderedkafka-load": named(launch.load, LABEL)}
