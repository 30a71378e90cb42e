"""Find the package's own errors in the text of a failed Spark task, and classify the others.

What a user's code raised is shown with the user's own frames, innermost first; those of Python, PySpark and this
package are left out. The message is one line, since an error of a task travels as text.
"""

import re
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from traceback import FrameSummary, extract_tb

from ... import errors
from ...compat.spark import NO_CLASSES, NO_MASTER, NOT_FITTING, STOPPED, WORKER_GONE
from ...errors import (
    OrderedKafkaError,
    PlacedError,
    SettingError,
    StateError,
    TaskFailedError,
    TransformError,
    UnreachableError,
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

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)\n(?P<code> +(?!File ")\S.*)?', re.MULTILINE
)
_TRACEBACK = "Traceback (most recent call last)"
_STANDARD, _INSTALLED = sysconfig.get_path("stdlib"), ("site-packages", "dist-packages")
_NOT_THE_USERS = ("airflow_provider_orderedkafka", "py4j", "pyspark")
_FRAMES_SHOWN = 4

_KINDS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, OrderedKafkaError)
}


def classify_failure(error: BaseException) -> OrderedKafkaError:
    """The package's own error behind it, or else Spark's text as an error that is retryable or not."""
    if isinstance(error, OrderedKafkaError):
        return error
    text = str(error)
    if (ours := _OURS.search(text)) and (kind := _KINDS.get(ours["name"])):
        return _made_again(kind, ours)
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
        return _failure_of_task(raised)
    if type(error).__module__.startswith(("pyspark", "py4j")):
        return _of_spark(type(error).__name__, text)
    return OrderedKafkaError(f"an unexpected {type(error).__name__}: {_short(text)}; please report it")


def _of_spark(name: str, text: str) -> OrderedKafkaError:
    """What Spark itself says: an error of its setup becomes a sentence, and stays until somebody mends it."""
    if found := NO_CLASSES.search(text):
        what = f"catalog {found['catalog']!r}" if found["catalog"] else f"format {found['format']!r}"
        return SettingError(
            f"Spark has no classes for the {what}: name the package that brings them, with packages= in Airflow or "
            "--packages, in the version for this Spark"
        )
    if found := NOT_FITTING.search(text):
        return SettingError(
            f"a package is missing, or is for another Spark ({_short(found[0])}): name the one that was built for this "
            "Spark and its Scala, with packages= in Airflow or --packages, or take another Spark"
        )
    if found := NO_MASTER.search(text):
        return SettingError(f"Spark knows no master {found[1]!r}: correct the Spark connection's host, or --master")
    if STOPPED in text:
        return UnreachableError(
            "Spark did not start: its master did not answer, or ended the application. Is the cluster up, does it have "
            "room, and can it be reached from the driver?"
        )
    return TaskFailedError(f"Spark failed: {name}: {_short(text)}")


def _made_again(kind: type[OrderedKafkaError], match: re.Match[str]) -> OrderedKafkaError:
    message = match["message"].strip()
    if not issubclass(kind, PlacedError):
        return kind(message)
    partition, offset = (None if match[name] is None else int(match[name]) for name in ("partition", "offset"))
    return kind(message, topic=match["topic"], partition=partition, offset=offset)


def _failure_of_task(raised: str) -> OrderedKafkaError:
    if _FROM_KAFKA.match(raised):
        return TaskFailedError(f"Kafka's client failed in a task: {raised}")
    if _FROM_OUTSIDE.match(raised):
        return TaskFailedError(f"the network or a disk failed in a task: {raised}")
    return TransformError(f"Python code in a task failed: {raised}")


def _raised_in_python(text: str) -> str | None:
    """The last error of Python in it, with the user's frames of its traceback."""
    if _TRACEBACK not in text:
        return None
    lines = [line for line in text.splitlines() if _PYTHON.match(line.strip())]
    if not lines:
        return None
    last = text[: text.rindex(lines[-1])].rpartition(_TRACEBACK)[2]
    frames = (
        FrameSummary(f["file"], int(f["line"]), f["function"], line=f["code"] or "") for f in _FRAME.finditer(last)
    )
    return lines[-1].strip()[:_MOST] + _shown(frames)


def failed(what: str, error: Exception) -> TransformError:
    """The error for a user's function that raised one, with the user's frames."""
    first_line = str(error).strip().split("\n", 1)[0]
    shown = _shown(extract_tb(error.__traceback__))
    return TransformError(f"{what} failed: {type(error).__name__}: {first_line[:_MOST]}{shown}")


def _shown(frames: Iterable[FrameSummary]) -> str:
    """The user's frames, innermost first: those of files of the user's own, or else of what is installed."""
    own = [frame for frame in frames if _may_be_the_users(frame.filename)]
    found = [frame for frame in own if not _is_installed(frame.filename)] or own
    innermost = found[: -_FRAMES_SHOWN - 1 : -1]
    return "".join(f"{', called' if n else ' -'} at {_in_words(frame)}" for n, frame in enumerate(innermost))


def _may_be_the_users(file: str) -> bool:
    """An installed package may be, too."""
    standard = file.startswith((_STANDARD, "<")) and not _is_installed(file)
    return not standard and not any(name in Path(file).parts for name in _NOT_THE_USERS)


def _is_installed(file: str) -> bool:
    return file.endswith(".pyx") or any(name in Path(file).parts for name in _INSTALLED)


def _in_words(frame: FrameSummary) -> str:
    return f"{Path(frame.filename).name}:{frame.lineno}, in {frame.name}" + (f": {frame.line}" if frame.line else "")


def _short(text: str) -> str:
    return " ".join(text.split())[:_MOST]
