"""What a task's context tells the steps, under a real Airflow."""

import pytest

SOURCE = """
from airflow.sdk import DAG, task

from airflow_provider_orderedkafka.context import is_active

with DAG("under_test", schedule=None):
    @task
    def ask(ti=None):
        return is_active({owner})
    ask()
"""


@pytest.mark.parametrize(
    ("owner", "active"), [('f"{ti.dag_id}/{ti.run_id}"', True), ('f"{ti.dag_id}/never.404"', False)]
)
def test_a_run_that_is_running_is_active_and_one_that_airflow_does_not_know_is_not(dag_file, owner, active):
    assert dag_file(SOURCE.replace("{owner}", owner)).test().get_task_instance("ask").xcom_pull() is active
