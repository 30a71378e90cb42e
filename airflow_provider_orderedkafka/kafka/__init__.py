"""What talks to Kafka, by confluent-kafka; knows nothing of Spark and Airflow."""
