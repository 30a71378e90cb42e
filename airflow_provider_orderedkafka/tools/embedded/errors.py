"""Errors of the embedded broker."""

from airflow_provider_orderedkafka.errors import OrderedKafkaError


class JavaError(OrderedKafkaError):
    """No suitable Java was found: install one that is new enough, or set JAVA_HOME."""


class FetchError(OrderedKafkaError):
    """The broker could not be downloaded: try again, or copy the cache directory from another machine."""

    retryable = True


class PortTakenError(OrderedKafkaError):
    """Another program uses the port: choose another one, or stop that program."""

    retryable = True


class AlreadyRunningError(OrderedKafkaError):
    """A broker is already running in this directory: use it or stop it."""


class BrokerFailedError(OrderedKafkaError):
    """The broker ended, or was not ready in time: the message has its last log lines."""

    retryable = True
