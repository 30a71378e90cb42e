"""A link from a task to the XComs that show its decision."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import Context


class RangeLink(BaseOperatorLink):
    """A link to the page with the task's XComs, which say what it decided and why."""

    name = "Range"

    @property
    def xcom_key(self) -> str:
        """The XCom that stores the address."""
        return "_link_range"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """The page with the task's XComs."""
        return task_page(ti_key.dag_id, ti_key.run_id, ti_key.task_id)


def task_page(dag_id: str, run_id: str, task_id: str) -> str:
    """The path of a task's page in Airflow."""
    from urllib.parse import quote

    return f"/dags/{quote(dag_id)}/runs/{quote(run_id)}/tasks/{quote(task_id)}/xcom"


def push(link: BaseOperatorLink, context: "Context", address: str) -> None:
    """Store a link's address now; Airflow would do so when the task ends."""
    context["ti"].xcom_push(key=link.xcom_key, value=address)
