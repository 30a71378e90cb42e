"""The data source, the sink and the application; knows nothing of Airflow."""
