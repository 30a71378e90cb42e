"""How Airflow's side reaches Kafka, a schema registry and Spark."""
