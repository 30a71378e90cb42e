"""All uses of private parts of Airflow and Spark."""
