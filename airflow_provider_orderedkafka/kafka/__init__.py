"""Talks to Kafka, through confluent-kafka; knows nothing of Spark and Airflow."""
