"""Orders, in time order, into a Delta table: each batch is appended by one commit.

`docs/tables.md` has Iceberg, files, catalogs and the maintenance of the table. Run it by hand first; then give it a
schedule. Spark fetches Delta with its first run. On a cluster the path is a location that all of it reaches, such as
s3a://lake/orders.
"""

from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_orderedkafka import DeltaOutput, OrderedLoad, SparkSubmit, ordered_load

TABLE = str(Path.home() / "lake" / "orders")

orders = OrderedLoad("orders_to_delta", topics=["orders"], start="earliest", min_offsets=10_000, max_delay="15m")

with DAG(
    "orders_to_delta",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders in time order, into a Delta table",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        orders, to=DeltaOutput(TABLE), spark=SparkSubmit(packages="io.delta:delta-spark_4.2_2.13:4.4.0"), wait="never"
    )
