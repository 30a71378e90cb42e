"""Compact a table of Iceberg or Delta, and expire what it had: `spark-submit ordered_maintenance.py --help`."""

from airflow_provider_orderedkafka.spark.maintenance import run_maintenance

if __name__ == "__main__":
    run_maintenance()
