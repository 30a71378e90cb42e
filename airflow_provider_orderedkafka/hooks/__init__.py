"""The Airflow hook."""
