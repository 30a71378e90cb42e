"""One exception for each reaction a caller can have.

A program asks an error whether it is `retryable`, and one that lies at a place in Kafka for that place; its message is
for people. `exit_code` says what a command or an application ends with.
"""

from typing import ClassVar, Final

USAGE: Final = 2
FINAL: Final = 65
TEMPORARY: Final = 75


class OrderedKafkaError(Exception):
    """Everything this project raises on purpose; its message says what happened and the way out."""

    retryable: ClassVar[bool] = False
    """Whether the same again can succeed, without anybody having mended anything."""


class PlacedError(OrderedKafkaError):
    """An error at a place in Kafka: its `topic`, `partition` and `offset`, each None where it is not known."""

    def __init__(
        self, message: str = "", *, topic: str | None = None, partition: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        if topic is not None:  # the note stands in tracebacks, which are all that comes out of Spark's tasks
            number = "" if partition is None else f"[{partition}]"
            self.add_note(f"at {topic}{number}" + ("" if offset is None else f"@{offset}"))


class SettingError(OrderedKafkaError, ValueError):
    """A setting, option or argument is wrong: change it."""


class DocumentError(OrderedKafkaError, ValueError):
    """A stored document cannot be read: it is damaged, or from a version that this one does not know."""


class UnreachableError(OrderedKafkaError):
    """Kafka did not answer within the deadline: try again when it does."""

    retryable = True


class AccessDeniedError(OrderedKafkaError):
    """Kafka refused: the principal needs a permission, or other credentials."""


class UnknownTopicError(PlacedError):
    """A topic or partition does not exist."""


class TopicChangedError(PlacedError):
    """A topic was deleted and created again: its offsets mean something else now."""


class DataLossError(PlacedError):
    """Records are gone that were to be read from `offset` on: a person has to decide whether to go on without them."""


class OrderViolationError(PlacedError):
    """Two neighbouring records would have come out in the wrong order: a fault of ours, never silent."""


class StateError(OrderedKafkaError):
    """The state beside the checkpoint cannot be read or written: mend the place where it lies, then run again."""

    retryable = True


class FencedError(OrderedKafkaError):
    """A newer attempt, which `by` names, has taken over this range, or may have, unseen: this one has to end."""

    retryable = True

    def __init__(self, message: str = "", *, by: str | None = None) -> None:
        super().__init__(message)
        self.by = by


class LifecycleError(OrderedKafkaError):
    """A range or a ledger is not where this step needs it: a person has to look."""


class LedgerChangedError(OrderedKafkaError):
    """Another step wrote the ledger at the same moment: try again, on what it says now."""

    retryable = True


class RowError(PlacedError):
    """A row cannot become a record: mend the transform or the output topic, or name a dead letter topic."""


class DeliveryError(PlacedError):
    """Kafka did not take records, or not in time: try again when it does."""

    retryable = True


class TaskFailedError(OrderedKafkaError):
    """Spark failed for a reason that is not ours: a worker died, a disk was full. A retry can mend it."""

    retryable = True


class TransformError(OrderedKafkaError):
    """Python code that runs in Spark's tasks raised an error: a retry would raise it again."""


class NotYetError(OrderedKafkaError):
    """It is too early to decide something for good: try again later."""

    retryable = True


def exit_code(error: OrderedKafkaError) -> int:
    """What a process ends with after this error."""
    if isinstance(error, SettingError):
        return USAGE
    return TEMPORARY if error.retryable else FINAL
