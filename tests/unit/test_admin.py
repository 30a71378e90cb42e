"""Which broker the requests for a controller go to."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider_orderedkafka.kafka.clients import pools
from airflow_provider_orderedkafka.kafka.clients.pools import Admin


class Cluster:
    """A client whose cluster names these controllers, one after the other, with each look."""

    def __init__(self, brokers, *named):
        self._brokers = brokers
        self._named = list(named)
        self.controller = None

    def list_topics(self, timeout):
        assert timeout > 0
        self.controller = self._named.pop(0)
        return SimpleNamespace(controller_id=self.controller, brokers=dict.fromkeys(range(self._brokers)))


class Gone:
    """A client that hears of no broker any more."""

    def list_topics(self, timeout):
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, _timeout):
        return 0


@pytest.fixture
def admin(monkeypatch):
    """An admin of these clients, one after the other."""

    def make(*clients):
        left = list(clients)
        monkeypatch.setattr(pools, "new_client", lambda *_: left.pop(0))
        return Admin({"bootstrap.servers": "127.0.0.1:1"})

    return make


def test_a_controller_that_did_not_answer_is_not_asked_again_while_kafka_still_names_it(admin):
    asked = admin(Cluster(3, 2, 2, 2, 2, 1))
    assert asked.controller(5, None) == 2
    assert asked.controller(5, 2) == 1


def test_the_only_broker_is_named_again(admin):
    assert admin(Cluster(1, *[0] * 9)).controller(5, 0) == 0


def test_a_client_that_hears_of_no_broker_is_replaced(admin):
    asked = admin(Gone(), new := Cluster(1, 0))
    assert asked.controller(5, None) is None
    assert asked.client is new


def test_who_asks_for_the_metadata_hears_that_none_came(admin):
    asked = admin(Gone(), new := Cluster(1, 0))
    with pytest.raises(KafkaException):
        asked.metadata(5)
    assert asked.metadata(5).controller_id == new.controller == 0
