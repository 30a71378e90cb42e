"""Load a range of Kafka into a table or files, in time order: `spark-submit ordered_table.py --help`.

--sink-option path=/data/orders (--sink-option format=parquet, or delta), or --sink-option table=catalog.db.orders
--sink-option format=iceberg, or --output with what ordered_load(output=...) says.
"""

from airflow_provider_orderedkafka.spark.app import run_available_now
from airflow_provider_orderedkafka.spark.table_sink import table_sink

if __name__ == "__main__":
    run_available_now(sink=table_sink)
