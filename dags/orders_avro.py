"""Orders in Avro, decoded by the schemas of a registry, into Parquet files.

Needs the connection `schema_registry`, whose host is the registry's address, such as http://localhost:8081.
In a checkout, `make sample ARGS="--registry http://localhost:8081"` writes such orders.
"""

from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_orderedkafka import Allow, Avro, Decode, FilesOutput, OrderedLoad, Rows, ordered_load

orders = OrderedLoad("orders_avro", topics=["orders-avro"], start="earliest", max_delay="15m")

with DAG(
    "orders_avro",
    schedule="*/5 * * * *",
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders in Avro, decoded with a schema registry, into files every five minutes",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        orders,
        to=FilesOutput(str(Path.home() / "lake" / "orders-avro")),
        rows=Rows(
            decode=Decode(value=Avro(registry="schema_registry")),
            transform="transforms.orders:columns",
            bad_records=Allow(10, to="orders-dead"),
        ),
    )
