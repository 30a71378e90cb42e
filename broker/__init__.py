"""A real Apache Kafka on the loopback address, without Docker: for `make broker`, the demo, tests and benchmarks.

    with LocalKafka(directory) as kafka:
        print(kafka.bootstrap_servers)

Needs Java 17 or newer, and the network once, to download the broker.
"""

from .cluster import LocalKafka
from .ports import HOST, BrokerFailedError, PortTakenError, free_port

__all__ = ["HOST", "BrokerFailedError", "LocalKafka", "PortTakenError", "free_port"]
