"""Find the package's own errors in the text of a failed Spark task, and classify the others."""

import re

from airflow_provider_orderedkafka import errors
from airflow_provider_orderedkafka.compat.spark import WORKER_GONE
from airflow_provider_orderedkafka.errors import (
    OrderedKafkaError,
    PlacedError,
    StateError,
    TaskFailedError,
    TransformError,
)

_OURS = re.compile(
    rf"^{re.escape(errors.__name__)}\.(?P<name>\w+): (?P<message>.+)$"
    r"(?:\nat (?P<topic>[\w.-]+)(?:\[(?P<partition>\d+)\])?(?:@(?P<offset>\d+))?$)?",
    re.MULTILINE,
)
"""An error of ours with its note, as a traceback ends: Python names its module, so that no other has its name."""

# The operating system's words, which Java and Python pass on.
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")

_PYTHON = re.compile(r"^(?!java|scala|org\.apache|pyspark\.)[\w.]*(?:Error|Exception)(?::.*)?$")
_FROM_OUTSIDE = re.compile(r"^(?:\w+\.)*(?:OSError|IOError|\w*Timeout\w*|Connection\w*|BrokenPipeError)\b")
_FROM_KAFKA = re.compile(r"^(?:\w+\.)*(?:Kafka|Produce|Consume)\w*(?:Error|Exception)\b")
_MOST = 400

_KINDS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, OrderedKafkaError)
}


def classify_failure(error: BaseException) -> OrderedKafkaError:
    """The package's own error behind it, or else Spark's text as an error that is retryable or not."""
    if isinstance(error, OrderedKafkaError):
        return error
    text = str(error)
    if (ours := _OURS.search(text)) and (kind := _KINDS.get(ours["name"])):
        return _again(kind, ours)
    if full := _FULL.search(text):
        return StateError(
            f"Spark cannot write ({full[0]}): the disk of the checkpoint, or of spark.local.dir, is full. Nothing is "
            f"lost: free some space, then run the same range with the same checkpoint again. Do not delete the "
            f"checkpoint: it knows what was written already"
        )
    if WORKER_GONE.search(text):
        return TaskFailedError(f"a Python worker or an executor died at work: {_short(text)}")
    raised = _raised_in_python(text)
    if raised is not None:
        return _of_a_task(raised)
    if type(error).__module__.startswith(("pyspark", "py4j")):
        return TaskFailedError(f"Spark failed: {type(error).__name__}: {_short(text)}")
    return OrderedKafkaError(f"an unexpected {type(error).__name__}: {_short(text)}; please report it")


def _again(kind: type[OrderedKafkaError], told: re.Match[str]) -> OrderedKafkaError:
    message = told["message"].strip()
    if not issubclass(kind, PlacedError):
        return kind(message)
    partition, offset = (None if told[name] is None else int(told[name]) for name in ("partition", "offset"))
    return kind(message, topic=told["topic"], partition=partition, offset=offset)


def _of_a_task(raised: str) -> OrderedKafkaError:
    if _FROM_KAFKA.match(raised):
        return TaskFailedError(f"Kafka's client failed in a task: {raised}")
    if _FROM_OUTSIDE.match(raised):
        return TaskFailedError(f"what a task needs failed: {raised}")
    return TransformError(f"Python code in a task failed: {raised}")


def _raised_in_python(text: str) -> str | None:
    if "Traceback (most recent call last)" not in text:
        return None
    lines = [line.strip() for line in text.splitlines() if _PYTHON.match(line)]
    return lines[-1][:_MOST] if lines else None


def _short(text: str) -> str:
    return " ".join(text.split())[:_MOST]
