"""The parameters of spark-submit on an operator, under the names that Airflow's `SparkSubmitOperator` gives them."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_orderedkafka.compat.airflow import kerberos_principal
from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.hooks.submission import Submission, submission_of

if TYPE_CHECKING:
    from airflow.sdk import Context
    from requests.auth import AuthBase

REFUSED = {
    "java_class": "the application is a Python program, which has no main class",
    "track_driver_via_k8s_api": "spark-submit itself waits for the driver's pod, and a task that is ended ends the pod",
    "reconnect_on_retry": "it is called durable",
}


class SparkSubmitParameters(BaseOperator):
    """The arguments of spark-submit that apply to a Python application.

    :param application: The program. (templated)
    :param conf: Spark's settings. (templated)
    :param conn_id: The Spark connection.
    :param files: Files for the working directory of each executor, separated by commas; as are `py_files`, `archives`,
        `jars`, `packages`, `exclude_packages` and `repositories`. (templated, but for archives and repositories)
    :param keytab: The keytab's path; otherwise the connection's extra has its content as base64. (templated)
    :param application_args: More arguments for the application. (templated)
    :param env_vars: The driver's environment: spark-submit's own in client mode, by settings on YARN and Kubernetes,
        where they are on the command line. (templated)
    :param spark_binary: The program instead of spark-submit.
    :param use_krb5ccache: Use the ticket cache that KRB5CCNAME names.
    :param post_submit_commands: Commands to run after the application has ended, without a shell. If one fails, a
        warning is logged. (templated)
    :param yarn_track_via_rm_api: On YARN in cluster mode, do not keep spark-submit waiting; poll the resource manager,
        whose address is in the connection's extra as `yarn_resourcemanager_webapp_address`.
    :param yarn_rm_auth: Authentication for the resource manager. Default: Kerberos if keytab and principal are set.
    :param status_poll_interval: Seconds between two polls, at least 10.
    :param durable: Whether a retried task keeps following the application of the previous try.
    :param openlineage_inject_parent_job_info: Pass the parent job of Airflow's OpenLineage provider to Spark;
        `openlineage_inject_transport_info` passes its transport. Default: Airflow's own settings.
    """

    template_fields: Sequence[str] = (
        *("application", "conf", "files", "py_files", "jars", "driver_class_path", "packages", "exclude_packages"),
        *("keytab", "principal", "proxy_user", "name", "application_args", "env_vars", "post_submit_commands"),
        "properties_file",
    )
    refused = REFUSED
    application: str
    application_args: list[str] | None
    conf: dict[str, Any] | None
    conn_id: str
    durable: bool
    files: str | None
    name: str | None
    openlineage_inject_parent_job_info: bool | None
    openlineage_inject_transport_info: bool | None
    post_submit_commands: list[str] | None
    principal: str | None
    py_files: str | None
    status_poll_interval: float
    use_krb5ccache: bool
    yarn_rm_auth: "AuthBase | None"

    def __init__(
        self,
        *,
        application: str = "",
        conf: dict[str, Any] | None = None,
        conn_id: str = "spark_default",
        files: str | None = None,
        py_files: str | None = None,
        archives: str | None = None,
        driver_class_path: str | None = None,
        jars: str | None = None,
        packages: str | None = None,
        exclude_packages: str | None = None,
        repositories: str | None = None,
        total_executor_cores: int | None = None,
        executor_cores: int | None = None,
        executor_memory: str | None = None,
        driver_memory: str | None = None,
        keytab: str | None = None,
        principal: str | None = None,
        proxy_user: str | None = None,
        name: str | None = None,
        num_executors: int | None = None,
        status_poll_interval: float = 1,
        application_args: list[str] | None = None,
        env_vars: dict[str, Any] | None = None,
        verbose: bool = False,
        spark_binary: str | None = None,
        properties_file: str | None = None,
        yarn_queue: str | None = None,
        deploy_mode: str | None = None,
        use_krb5ccache: bool = False,
        post_submit_commands: list[str] | None = None,
        yarn_track_via_rm_api: bool = False,
        yarn_rm_auth: "AuthBase | None" = None,
        openlineage_inject_parent_job_info: bool | None = None,
        openlineage_inject_transport_info: bool | None = None,
        durable: bool = True,
        **kwargs: Any,
    ) -> None:
        given = {each: value for each, value in locals().items() if each not in {"self", "kwargs", "__class__"}}
        for each, why in REFUSED.items():
            if kwargs.pop(each, None):
                raise SettingError(f"{kwargs.get('task_id')!r}: leave {each!r} out: {why}")
        super().__init__(**kwargs)
        for each, value in given.items():
            setattr(self, each, value)

    def submission(self) -> Submission:
        """The submission; `SettingError` if it cannot work."""
        given = dict(vars(self))
        if self.use_krb5ccache:
            given["principal"] = _of_the_ticket_cache(self.principal)
        return submission_of(self._connection(), given)

    def lineage(self, context: "Context") -> Mapping[str, Any]:
        """Spark's settings, with those of Airflow's OpenLineage provider if enabled."""
        from airflow.providers.common.compat.openlineage.utils import spark
        from airflow.providers.common.compat.sdk import conf as settings

        conf = dict(self.conf or {})
        for asked, option, add in (
            (
                self.openlineage_inject_parent_job_info,
                "spark_inject_parent_job_info",
                spark.inject_parent_job_information_into_spark_properties,
            ),
            (
                self.openlineage_inject_transport_info,
                "spark_inject_transport_info",
                spark.inject_transport_information_into_spark_properties,
            ),
        ):
            if settings.getboolean("openlineage", option, fallback=False) if asked is None else asked:
                conf = add(conf, context)
        return conf

    def _connection(self) -> Any:
        from airflow.providers.common.compat.sdk import AirflowNotFoundException
        from airflow.sdk import BaseHook

        try:
            return BaseHook.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            raise SettingError(
                f"there is no Spark connection {self.conn_id!r}: create it with `airflow connections add "
                f"{self.conn_id} --conn-type spark --conn-host 'local[*]'`, or name another one with spark_conn_id="
            ) from error


def _of_the_ticket_cache(principal: str | None) -> str:
    if not os.environ.get("KRB5CCNAME"):
        raise SettingError("use_krb5ccache=True needs KRB5CCNAME, the ticket cache, in the worker's environment")
    return kerberos_principal(principal)
