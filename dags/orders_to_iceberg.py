"""Orders, decoded to columns, into an Iceberg table; records that are no JSON go to a table of their own.

There is no Iceberg for Spark 4.2 yet, so this runs with another Spark than Airflow's:

    uv venv --python 3.11 /opt/spark-4.1
    uv pip install --python /opt/spark-4.1 pyspark==4.1.3 confluent-kafka pyarrow numpy "pandas<3"

Spark fetches Iceberg with the first run. `docs/tables.md` has other catalogs, and the maintenance of the table.
"""

from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_orderedkafka import (
    Allow,
    Decode,
    IcebergOutput,
    Json,
    OrderedLoad,
    Rows,
    SparkSubmit,
    ordered_load,
)

orders = OrderedLoad("orders_to_iceberg", topics=["orders"], start="earliest", min_offsets=10_000, max_delay="15m")
schema = Json("order long, customer string, state string, amount double")

with DAG(
    "orders_to_iceberg",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    description="Orders as rows of an Iceberg table, by another Spark",
    tags=["orderedkafka", "load"],
):
    ordered_load(
        orders,
        to=IcebergOutput("lake.shop.orders"),
        rows=Rows(
            decode=Decode(value=schema),
            transform="transforms.orders:columns",
            bad_records=Allow(10, to=IcebergOutput("lake.shop.orders_dead")),
        ),
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
