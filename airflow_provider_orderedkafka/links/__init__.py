"""A link from a task to the XComs that show its decision."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import Context


class RangeLink(BaseOperatorLink):
    """To the task's page that shows what it decided, and why."""

    name = "Range"

    @property
    def xcom_key(self) -> str:
        """Where the address is kept."""
        return "_link_range"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """The page with the task's XComs."""
        return task_page(ti_key.dag_id, ti_key.run_id, ti_key.task_id)


def task_page(dag_id: str, run_id: str, task_id: str) -> str:
    """A task's page in Airflow, as a path under its own address."""
    from urllib.parse import quote

    return f"/dags/{quote(dag_id)}/runs/{quote(run_id)}/tasks/{quote(task_id)}/xcom"


def push(link: BaseOperatorLink, context: "Context", address: str) -> None:
    """Keep a link's address now, not when the task ends."""
    context["ti"].xcom_push(key=link.xcom_key, value=address)
