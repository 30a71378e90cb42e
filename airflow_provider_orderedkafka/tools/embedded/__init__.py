"""A real Apache Kafka (KRaft) on this machine, without Docker, for the quickstart and the tests.

    with EmbeddedKafka(directory) as kafka:
        print(kafka.bootstrap_servers)

Needs Java 17 or newer, and the network once, to download the broker.
"""

from airflow_provider_orderedkafka.tools.embedded.broker import Broker
from airflow_provider_orderedkafka.tools.embedded.cluster import EmbeddedKafka

__all__ = ["Broker", "EmbeddedKafka"]
