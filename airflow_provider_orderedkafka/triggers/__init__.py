"""The Airflow trigger."""
