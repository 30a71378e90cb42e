"""Customers as their database has them: Debezium's change events, merged by the key into an Iceberg table.

A column that the database gets later is added to the table. The Spark is the one of `orders_to_iceberg.py`;
docs/upserts.md has the promises.
"""

from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_orderedkafka import Decode, IcebergOutput, Json, OrderedLoad, Rows, SparkSubmit, ordered_load

customers = OrderedLoad("customers_to_iceberg", topics=["shop.public.customers"], start="earliest", max_delay="15m")
event = Json("op string, after struct<id: int, name: string, country: string>")

with DAG(
    "customers_to_iceberg",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Change events of a database, into an Iceberg table that mirrors it",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        customers,
        to=IcebergOutput("lake.shop.customers", upsert=["id"], new_columns="add"),
        rows=Rows(decode=Decode(key=Json("id int"), value=event), arrow_transform="debezium"),
        spark=SparkSubmit(
            packages="org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
            conf={
                "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
                "spark.sql.catalog.lake.type": "hadoop",
                "spark.sql.catalog.lake.warehouse": str(Path.home() / "lake"),
            },
            spark_binary="/opt/spark-4.1/bin/spark-submit",
        ),
        wait="never",
    )
