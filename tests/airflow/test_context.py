"""What a task's context tells the steps, under a real Airflow."""

SOURCE = """
from airflow.sdk import DAG, task

from airflow_provider_orderedkafka.context import is_active

with DAG("under_test", schedule=None):
    @task
    def ask(ti=None):
        return is_active(f"{ti.dag_id}/{ti.run_id}")
    ask()
"""


def test_a_run_that_is_running_is_active(dag_file):
    assert dag_file(SOURCE).test().get_task_instance("ask").xcom_pull() is True
