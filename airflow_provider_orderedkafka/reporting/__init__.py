"""What a load tells of itself in Airflow: metrics, lineage, its status."""
