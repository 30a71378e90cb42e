"""What a task finds in Airflow: its load's documents, in the asset state store or a location; which runs are active."""

SOURCE = """
from airflow.sdk import DAG, task

from airflow_provider_orderedkafka.assets import ledger_asset
from airflow_provider_orderedkafka.context import books_of, is_active
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.lifecycle import first_look, opened, abandoned
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition

with DAG("under_test", schedule=None):
    @task(inlets=[ledger_asset("large")])
    def walk(**context):
        store = books_of("large", context).store
        offsets = Offsets((TopicPartition("t", p), p * 1_000_000_007) for p in range(3_000))
        place = Place(offsets, Floor())
        ledger = first_look("large", instance="i", home_dag="d", place=place, topics={"t": "x"}, now=1)
        store.save(ledger, None)
        assert store.ledger() == ledger
        after = opened(ledger, "r", "d/run")
        store.save(after, ledger)
        assert store.ledger() == after
        last = abandoned(after, "me", "because", 2)
        store.save(last, after)
        assert store.ledger() == last

    @task
    def ask(ti=None):
        return [is_active(f"{ti.dag_id}/{run}") for run in (ti.run_id, "never.404")]

    walk()
    ask()
"""


def test_a_ledger_of_3000_partitions_is_kept_in_parts_and_read_back_and_only_a_run_that_there_is_is_active(dag_file):
    run = dag_file(SOURCE).test()
    assert run.state == "success"
    assert run.get_task_instance("ask").xcom_pull() == [True, False]
