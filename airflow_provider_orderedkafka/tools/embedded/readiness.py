"""Check whether a broker is ready: an open port is not enough."""

import socket

from airflow_provider_orderedkafka.tools.embedded.settings import HOST

_ANSWER_SECONDS = 2.0
_PROBE_TOPIC = "orderedkafka.readiness"


class Readiness:
    """Checks one broker, with the same client each time."""

    def __init__(self, number: int, port: int) -> None:
        from confluent_kafka.admin import AdminClient

        self._number = number
        self._port = port
        self._admin = AdminClient(
            {
                "bootstrap.servers": f"{HOST}:{port}",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )

    def serves(self) -> bool:
        """Whether the broker is in the metadata, leads its partitions, and reaches its controller."""
        return self._listens() and self._leads() and self._reaches_controller()

    def _listens(self) -> bool:
        with socket.socket() as client:
            client.settimeout(_ANSWER_SECONDS)
            return client.connect_ex((HOST, self._port)) == 0

    def _leads(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            metadata = self._admin.list_topics(timeout=_ANSWER_SECONDS)
        except KafkaException:
            return False
        partitions = [p for topic in metadata.topics.values() for p in topic.partitions.values()]
        leaderless = [p for p in partitions if p.leader < 0 and self._number in p.isrs]
        return self._number in metadata.brokers and not leaderless

    def _reaches_controller(self) -> bool:
        """Send a request to create a topic that is only validated."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        probe = NewTopic(_PROBE_TOPIC, num_partitions=1, replication_factor=1)
        answers = self._admin.create_topics([probe], validate_only=True, request_timeout=_ANSWER_SECONDS)
        try:
            answers[_PROBE_TOPIC].result(_ANSWER_SECONDS + 1)
        except (KafkaException, TimeoutError):
            return False
        return True
