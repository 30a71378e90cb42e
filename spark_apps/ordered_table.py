"""Load a range of Kafka into a table or files, in time order: `spark-submit ordered_table.py --help`.

--output parquet:/data/orders, --output delta:s3a://lake/orders, --output iceberg:catalog.db.orders; or --output with
JSON of all that the value has which `ordered_load(to=...)` takes.
"""

from airflow_provider_orderedkafka.spark.app import run_available_now
from airflow_provider_orderedkafka.spark.table_sink import table_sink

if __name__ == "__main__":
    run_available_now(sink=table_sink)
