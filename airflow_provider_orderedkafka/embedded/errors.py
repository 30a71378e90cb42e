"""What can go wrong with an embedded broker: one exception for each reaction a caller can have."""

from airflow_provider_orderedkafka.errors import OrderedKafkaError


class JavaError(OrderedKafkaError):
    """There is no Java that can run Kafka: install one that is new enough, or set JAVA_HOME."""


class FetchError(OrderedKafkaError):
    """The broker could not be fetched: try again with the network, or bring the cache directory from elsewhere."""

    retryable = True


class PortTakenError(OrderedKafkaError):
    """Another program listens where the broker should: choose another port, or stop that program."""

    retryable = True


class AlreadyRunningError(OrderedKafkaError):
    """A broker runs in this directory already: use it or stop it."""


class BrokerFailedError(OrderedKafkaError):
    """The broker ended, or did not serve in time: its last log lines say why."""

    retryable = True
