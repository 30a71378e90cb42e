"""A link from `resolve` to the XComs that show its decision."""

from typing import Any

from airflow.sdk import BaseOperatorLink


class RangeLink(BaseOperatorLink):
    """A link to the page with the task's XComs: the range by partition, and as a document."""

    name = "Range"

    @property
    def xcom_key(self) -> str:
        return "_link_range"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        return task_page(ti_key.dag_id, ti_key.run_id, ti_key.task_id)


def task_page(dag_id: str, run_id: str, task_id: str) -> str:
    """The path of a task's page in Airflow, which may itself be below a path: that of `[api] base_url`."""
    from urllib.parse import quote, urlsplit

    from airflow.providers.common.compat.sdk import conf

    below = urlsplit(conf.get("api", "base_url", fallback=None) or "").path.rstrip("/")
    return f"{below}/dags/{quote(dag_id)}/runs/{quote(run_id)}/tasks/{quote(task_id)}/xcom"
