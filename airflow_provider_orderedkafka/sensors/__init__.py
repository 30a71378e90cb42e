"""The Airflow sensor."""
