"""Copy a range of Kafka into a topic, in time order: `spark-submit ordered_replay.py --help`."""

from airflow_provider_orderedkafka.spark.app import run_available_now

if __name__ == "__main__":
    run_available_now()
