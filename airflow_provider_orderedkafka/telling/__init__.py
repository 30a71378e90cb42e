"""What a load tells of itself in Airflow: metrics, lineage, the documentation of its tasks."""
