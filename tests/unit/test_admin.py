"""Which broker the requests for a controller go to."""

from types import SimpleNamespace

import pytest

from airflow_provider_orderedkafka.kafka.clients.admin import Admin


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


@pytest.fixture
def admin():
    return Admin({"bootstrap.servers": "127.0.0.1:1"})


def test_a_controller_that_did_not_answer_is_not_asked_again_while_kafka_still_names_it(admin):
    admin.client = cluster = Cluster(3, 2, 2, 2, 2, 1)
    admin.look_again(5)
    assert cluster.controller == 2
    admin.look_again(5)
    assert cluster.controller == 1


def test_the_only_broker_is_asked_again(admin):
    admin.client = cluster = Cluster(1, 0, 0, 0)
    admin.look_again(5)
    admin.look_again(5)
    assert cluster.controller == 0
