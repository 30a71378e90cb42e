"""Databricks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_provider_orderedkafka.core.notation.spelling import arguments, parameters
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.outputs import OPTIONS_VARIABLE

from .service import ELSEWHERE, Launch, Service, check_public, over, provider

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

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
        check_public("Databricks", {**self.cluster.get("spark_conf", {}), **self.cluster.get("spark_env_vars", {})})

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
        }
        if "durable" in parameters(DatabricksSubmitRunOperator):  # it would take a job that succeeded for the next one
            asked["durable"] = False
        made: BaseOperator = DatabricksSubmitRunOperator(**{**asked, **self.operator}, **launch.task)
        return made

    def _where(self) -> dict[str, Any]:
        if isinstance(self.cluster, str):
            return {"existing_cluster_id": self.cluster}
        found = over({"data_security_mode": "SINGLE_USER"}, self.cluster)
        if self.secret is not None:  # Databricks' own template of a secret, kept from Airflow's
            ours = {OPTIONS_VARIABLE: f"{{{{ '{{{{secrets/{self.secret}}}}}' }}}}"}
            found = over(found, {"spark_env_vars": ours})
        return {"new_cluster": found}
