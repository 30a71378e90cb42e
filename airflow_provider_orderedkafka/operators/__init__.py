"""The Airflow operators: resolve, submit, commit."""
