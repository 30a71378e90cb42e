"""What reaches into private parts of Airflow and Spark: all of it, and nothing else does."""
