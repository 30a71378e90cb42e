"""All errors that are raised on purpose.

Messages are for people. Programs use `retryable`, and the `topic`, `partition` and `offset` of errors that have them.
"""

from typing import ClassVar, Final

USAGE: Final = 2
FINAL: Final = 65
TEMPORARY: Final = 75
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
TERMINATED: Final = 143
"""What processes end with, if not with 0."""


class OrderedKafkaError(Exception):
    """Base of all errors of this package. The message says what happened, and the way out."""

    retryable: ClassVar[bool] = False
    """Whether a retry may succeed without a change."""


class PlacedError(OrderedKafkaError):
    """An error at a place in Kafka: `topic`, `partition` and `offset`, each None if unknown."""

    def __init__(
        self, message: str = "", *, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        if topic is not None:  # a traceback, which shows notes, is all that Spark passes on from its tasks
            number = "" if partition is None else f"[{partition}]"
            self.add_note(f"at {topic}{number}" + ("" if offset is None else f"@{offset}"))


class SettingError(OrderedKafkaError, ValueError):
    """A setting, option or argument is wrong."""


class DocumentError(OrderedKafkaError, ValueError):
    """A stored document cannot be read: it is damaged, or was written by a newer version."""


class UnreachableError(OrderedKafkaError):
    """Kafka did not answer in time; or a schema registry, or Airflow."""

    retryable = True


class AccessDeniedError(OrderedKafkaError):
    """Kafka refused access: the principal lacks a permission."""


class CredentialsError(AccessDeniedError):
    """Kafka does not know the client by its credentials, or the client does not trust the broker's certificate.

    They may be about to be changed: another attempt takes what its connection has then.
    """

    retryable = True


class UnknownTopicError(PlacedError):
    """A topic or partition does not exist."""


class TopicChangedError(PlacedError):
    """A topic was deleted and created again, so its offsets mean something else now."""


class DataLossError(PlacedError):
    """Records were deleted before they were read, from `offset` on. A person has to decide how to go on."""


class OrderViolationError(PlacedError):
    """Two records would have been written in the wrong order: a bug in this package."""


class StateError(OrderedKafkaError):
    """The checkpoint cannot be read or written."""

    retryable = True


class FencedError(OrderedKafkaError):
    """A newer attempt, named by `by`, has taken over the range, or may have: this attempt has to end."""

    retryable = True

    def __init__(self, message: str = "", *, by: str | None = None) -> None:
        super().__init__(message)
        self.by = by


class LifecycleError(OrderedKafkaError):
    """A range or a ledger is in a state in which this step cannot run. A person has to decide."""


class LedgerChangedError(OrderedKafkaError):
    """Another task wrote the ledger at the same moment."""

    retryable = True


class RowError(PlacedError):
    """A row cannot be written: correct the transform or the topic, or name a dead letter topic."""


class DeliveryError(PlacedError):
    """Kafka did not accept records, or not in time."""

    retryable = True


class TaskFailedError(OrderedKafkaError):
    """Spark failed for another reason, such as a worker that died or a full disk."""

    retryable = True


class TransformError(OrderedKafkaError):
    """A transform raised an error; a retry would raise it again."""


class SchemaChangedError(OrderedKafkaError):
    """Records have fields that were not known when the columns were settled: a retry settles them anew."""

    retryable = True


class NotYetError(OrderedKafkaError):
    """It is too early to decide; try again later."""

    retryable = True


def no_connect(said: str) -> SettingError:
    """The error for a load whose session would be one of Spark Connect, because of the setting `said`."""
    return SettingError(
        f"a load needs a Spark session with a JVM of its own, and {said} makes it one of Spark Connect: leave that "
        "out, and let spark-submit start the application; on Databricks, use a cluster with dedicated access"
    )


def exit_code(error: BaseException) -> int:
    """The exit code of commands and applications: 2 for a `SettingError`, 75 if a retry may succeed, otherwise 65.

    130 and 141 say, as everywhere, that Ctrl-C or a closed pipe ended it.

    :param error: The error that ended it.
    """
    for kind, code in ((SettingError, USAGE), (KeyboardInterrupt, INTERRUPTED), (BrokenPipeError, PIPE_CLOSED)):
        if isinstance(error, kind):
            return code
    return TEMPORARY if getattr(error, "retryable", False) else FINAL


def may_retry(code: int | None) -> bool:
    """Whether what ended with this code may succeed if it runs again, as what ended with an unknown code may."""
    return code not in (USAGE, FINAL)
