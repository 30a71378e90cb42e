"""Spark's daemon of Python workers, which has imported what they need before it forks the first one.

A worker of Spark's own daemon imports that after the fork, and many are forked: the imports cost more than what most
tasks of tests do. Only the session that tests share is set to it; a load of its own starts workers as a user's does.
"""

from importlib import import_module

from pyspark import daemon

OURS = "airflow_provider_orderedkafka.spark.lanes.kafka_lanes"
NEEDED = ("pyspark.worker", "pyarrow.compute", OURS)

if __name__ == "__main__":
    for each in NEEDED:
        import_module(each)
    daemon.manager()
