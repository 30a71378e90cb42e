"""What is told of a Kafka that is silent: whether anybody is there at all."""

import socket
import threading
import time

import pytest

from airflow_provider_orderedkafka.kafka import knocking
from airflow_provider_orderedkafka.kafka.knocking import knock


@pytest.fixture
def silent():
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed():
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"127.0.0.1:{port}"


def test_where_nobody_listens_the_system_says_so(closed):
    assert knock(closed) == f"{closed}: Connection refused"


def test_what_is_no_server_does_not_keep_the_others_from_being_told(closed):
    told = knock(f"]:1, 127.0.0.1:70000, {closed},")
    assert told.startswith("]:1: this is no host and port; 127.0.0.1:70000: ")
    assert told.endswith(f"; {closed}: Connection refused")


def test_a_server_that_is_silent_is_told_from_one_that_is_not_there(silent, closed):
    assert knock(f"{closed}, SASL_SSL://{silent}") == (
        f"{closed}: Connection refused; SASL_SSL://{silent} takes connections, but no answer came"
    )


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        ("broker", ("broker", 9092)),
        ("broker:19092", ("broker", 19092)),
        ("SASL_SSL://broker:9093", ("broker", 9093)),
        ("[::1]:9094", ("::1", 9094)),
    ],
)
def test_servers_are_read_as_kafkas_client_reads_them(server, asked, monkeypatch):
    tried = []

    def connect(address, _timeout):
        tried.append(address)
        raise OSError(113, "No route to host")

    monkeypatch.setattr(socket, "create_connection", connect)
    assert knock(server) == f"{server}: No route to host"
    assert tried == [asked]


def test_a_name_that_takes_long_to_look_up_holds_nothing_up(monkeypatch):
    monkeypatch.setattr(knocking, "_PATIENCE", 0.1)
    released = threading.Event()

    def connect(_address, _timeout):
        released.wait(10)
        raise OSError(110, "Connection timed out")

    monkeypatch.setattr(socket, "create_connection", connect)
    begun = time.monotonic()
    assert knock("broker:9092") == "no connection came about either"
    assert time.monotonic() - begun < 5.0
    released.set()
