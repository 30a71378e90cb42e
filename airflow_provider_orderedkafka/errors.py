"""One exception for each reaction a caller can have.

`exit_code` is what a command line ends with: 2 for wrong usage, 65 for what a retry cannot mend, 75 for what it can.
"""


class OrderedKafkaError(Exception):
    """Everything this project raises on purpose; its message says what happened and the way out."""

    exit_code = 65


class SettingError(OrderedKafkaError, ValueError):
    """A setting, option or argument is wrong: change it."""

    exit_code = 2


class DocumentError(OrderedKafkaError, ValueError):
    """A stored document cannot be read: it is damaged, or from a version that this one does not know."""


class UnreachableError(OrderedKafkaError):
    """Kafka did not answer within the deadline: try again when it does."""

    exit_code = 75


class AccessDeniedError(OrderedKafkaError):
    """Kafka refused: the principal needs a permission, or other credentials."""


class UnknownTopicError(OrderedKafkaError):
    """A topic or partition does not exist."""


class TopicChangedError(OrderedKafkaError):
    """A topic was deleted and created again: its offsets mean something else now."""


class DataLossError(OrderedKafkaError):
    """Records that were promised are gone: a person has to decide whether to go on without them."""


class OrderViolationError(OrderedKafkaError):
    """Two neighbouring records would have come out in the wrong order: a fault of ours, never silent."""


class StateError(OrderedKafkaError):
    """The state beside the checkpoint cannot be read or written: mend the place where it lies, then run again."""

    exit_code = 75


class FencedError(OrderedKafkaError):
    """A newer attempt has taken over this range: this one has to end."""

    exit_code = 75


class LifecycleError(OrderedKafkaError):
    """A range or a ledger is not where this step needs it: a person has to look."""


class LedgerChangedError(OrderedKafkaError):
    """Another step wrote the ledger at the same moment: try again, on what it says now."""

    exit_code = 75


class RowError(OrderedKafkaError):
    """A row cannot become a record: mend the transform or the output topic, or name a dead letter topic."""


class DeliveryError(OrderedKafkaError):
    """Kafka did not take records, or not in time: try again when it does."""

    exit_code = 75


class TaskFailedError(OrderedKafkaError):
    """Spark failed for a reason that is not ours: a worker died, a disk was full. A retry can mend it."""

    exit_code = 75


class TransformError(OrderedKafkaError):
    """Python code that runs in Spark's tasks raised an error: a retry would raise it again."""


class NotYetError(OrderedKafkaError):
    """It is too early to decide something for good: try again later."""

    exit_code = 75


class UnexpectedError(OrderedKafkaError):
    """A fault of ours: something that should not happen did."""
