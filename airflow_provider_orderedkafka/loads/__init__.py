"""A load's life: ranges, ledger, steps, reports. Without Airflow."""
