"""Decode JSON, and transform it by a function beside this file; a record that is no JSON becomes a dead letter."""

from airflow.sdk import DAG

from airflow_provider_orderedkafka import Allow, Decode, Json, KafkaOutput, OrderedLoad, Rows, ordered_load

orders = OrderedLoad("orders_decoded", topics=["orders"], start="earliest", max_delay="15m")

with DAG(
    "orders_decoded",
    schedule="*/5 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders as JSON, transformed by a function, every five minutes",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        orders,
        to=KafkaOutput("orders-by-customer"),
        rows=Rows(
            decode=Decode(value=Json("order long, customer string")),
            transform="transforms.orders:by_customer",
            bad_records=Allow(10, to="orders-dead"),
        ),
    )
