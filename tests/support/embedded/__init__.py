"""Clusters of one or three brokers, which can be killed, paused and restarted, and end with the process of the tests.

with EmbeddedKafka(directory) as kafka:
    print(kafka.bootstrap_servers)
"""

from support.embedded.broker import Broker
from support.embedded.cluster import EmbeddedKafka

__all__ = ["Broker", "EmbeddedKafka"]
