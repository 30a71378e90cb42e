"""The documents of a load where Airflow keeps them: in its own asset state store, or before 3.3 in a location."""

SOURCE = """
from airflow.sdk import DAG, task

from airflow_provider_orderedkafka.assets import ledger_asset
from airflow_provider_orderedkafka.context import books_of
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.lifecycle import first_look, opened, abandoned
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition

with DAG("under_test", schedule=None):
    @task(inlets=[ledger_asset("{load}")])
    def walk(**context):
        store = books_of("{load}", context).store
        offsets = Offsets((TopicPartition("t", p), p * 1_000_000_007) for p in range({partitions}))
        place = Place(offsets, Floor())
        ledger = first_look("{load}", instance="i", home_dag="d", place=place, topics={{"t": "x"}}, now=1)
        store.save(ledger, None)
        assert store.ledger() == ledger
        after = opened(ledger, "r", "d/run")
        store.save(after, ledger)
        assert store.ledger() == after
        last = abandoned(after, "me", "because", 2)
        store.save(last, after)
        assert store.ledger() == last
    walk()
"""


def test_a_ledger_of_three_thousand_partitions_is_kept_in_parts_and_read_back(dag_file):
    dag = dag_file(SOURCE.format(load="large", partitions=3_000))
    run = dag.test()
    assert run.state == "success"


def test_a_small_ledger_is_kept_as_it_is(dag_file):
    assert dag_file(SOURCE.format(load="small", partitions=3)).test().state == "success"
