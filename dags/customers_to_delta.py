"""Customers as their database has them: Debezium's change events, merged by the key into a Delta table.

Debezium writes JSON without schemas here; docs/decoding.md has its other forms, docs/upserts.md the promises. The row
of a deleted customer stays, with its key and `_is_deleted`.
"""

from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_orderedkafka import Decode, DeltaOutput, Json, OrderedLoad, Rows, SparkSubmit, ordered_load

TABLE = str(Path.home() / "lake" / "customers")

customers = OrderedLoad("customers_to_delta", topics=["shop.public.customers"], start="earliest", max_delay="15m")
event = Json("op string, after struct<id: int, name: string, country: string>")

with DAG(
    "customers_to_delta",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Change events of a database, into a Delta table that mirrors it",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        customers,
        to=DeltaOutput(TABLE, upsert=["id"]),
        rows=Rows(decode=Decode(key=Json("id int"), value=event), arrow_transform="debezium"),
        spark=SparkSubmit(packages="io.delta:delta-spark_4.2_2.13:4.4.0"),
        wait="never",
    )
