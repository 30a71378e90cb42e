"""Ports of the loopback address that are free, and what goes wrong with brokers."""

import contextlib
import random
import socket
from typing import Final

from airflow_provider_orderedkafka.errors import OrderedKafkaError

HOST: Final = "127.0.0.1"

# Below the range that systems take outgoing connections' ports from, so that a stopped broker finds its port again.
_FREE_PORTS, _TRIES = range(20_000, 32_768), 200
_RANDOM = random.SystemRandom()  # two programs that seed their chance alike do not ask for the same ports


class BrokerFailedError(OrderedKafkaError):
    """The broker ended, or was not ready in time: the message has its last log lines."""


class PortTakenError(BrokerFailedError):
    """Another program uses the port: choose another one, or stop that program."""

    def __init__(self, port: int) -> None:
        super().__init__(f"the broker cannot listen on port {port}: another program does. Choose another port")


def free_port(*taken: int) -> int:
    """Return a port that nothing listens on and that is not among those taken."""
    for port in _RANDOM.sample(_FREE_PORTS, _TRIES):
        with contextlib.suppress(PortTakenError):
            check_free(port)
            if port not in taken:
                return port
    raise BrokerFailedError(f"none of {_TRIES} ports between {_FREE_PORTS[0]} and {_FREE_PORTS[-1]} is free")


def check_free(port: int) -> None:
    """`PortTakenError` if a program listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error
