"""Errors of the embedded broker."""

from airflow_provider_orderedkafka.errors import OrderedKafkaError


class JavaMissingError(OrderedKafkaError):
    """There is no Java to run: install one, or set JAVA_HOME."""


class JavaTooOldError(OrderedKafkaError):
    """Java was found, but it is older than Kafka needs: install a newer one."""


class FetchError(OrderedKafkaError):
    """The broker could not be fetched: try again with the network, or bring the cache directory from elsewhere."""

    exit_code = 75


class PortTakenError(OrderedKafkaError):
    """Another program listens where the broker should: choose another port, or stop that program."""

    exit_code = 75


class AlreadyRunningError(OrderedKafkaError):
    """A broker runs in this directory already: use it or stop it."""


class BrokerFailedError(OrderedKafkaError):
    """The broker ended, or did not serve in time: its last log lines say why."""

    exit_code = 75
