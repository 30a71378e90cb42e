"""Load Kafka with Spark from Airflow, on a schedule, in time order.

Importing this package imports nothing heavy: a DAG file may do it at every parse.
"""

__version__ = "0.1.0"
