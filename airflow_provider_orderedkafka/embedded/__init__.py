"""A real Apache Kafka (KRaft) on this machine's loopback, for the quickstart and the tests: no Docker.

    with EmbeddedKafka(directory) as kafka:
        print(kafka.bootstrap_servers)

Needs Java 17 or newer, and the network once, to fetch the broker.
"""

from airflow_provider_orderedkafka.embedded.broker import Broker
from airflow_provider_orderedkafka.embedded.certificates import Authority
from airflow_provider_orderedkafka.embedded.cluster import EmbeddedKafka
from airflow_provider_orderedkafka.embedded.secured import Secured

__all__ = ["Authority", "Broker", "EmbeddedKafka", "Secured"]
