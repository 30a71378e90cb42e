"""Read what is beside a checkpoint, wherever it is: the report, and whether there are notes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.errors import SettingError, StateError

REPORT = "report.json"
NOTES = "notes"


def place_of(root: str, range_id: str, times: int) -> str:
    """The folder of a range, another one each time that it is loaded again."""
    return f"{root.rstrip('/')}/{range_id}" + (f"-again-{times}" if times else "")


def report_location(checkpoint: str) -> str:
    """Where the report of this checkpoint is."""
    return f"{checkpoint.rstrip('/')}/{REPORT}"


def read_report(checkpoint: str) -> Report | None:
    """The report, or None while there is none; a location with a scheme is read with Airflow's object storage."""
    text = _read(report_location(checkpoint))
    return None if text is None else Report.from_text(text)


def readable(checkpoint: str) -> str:
    """Check that reports can be read at this location, and return it: no range could be committed otherwise."""
    _read(report_location(checkpoint))
    return checkpoint


def has_notes(checkpoint: str) -> bool:
    """Whether a batch was noted beside this checkpoint, so that rows may have been written."""
    with _explained(checkpoint), suppress(FileNotFoundError, NotADirectoryError):
        return any(True for _ in _path(f"{checkpoint.rstrip('/')}/{NOTES}").iterdir())
    return False


def _read(location: str) -> str | None:
    with _explained(location), suppress(FileNotFoundError):
        text: str = _path(location).read_text(encoding="utf-8")
        return text
    return None


@contextmanager
def _explained(location: str) -> Iterator[None]:
    """Add what the location is for to Airflow's errors."""
    try:
        yield
    except (ValueError, ImportError) as error:  # unknown scheme, or no provider installed for it
        raise SettingError(_unreadable(location, error)) from error
    except OSError as error:
        raise StateError(_unreadable(location, error)) from error


def _unreadable(location: str, error: Exception) -> str:
    why = (str(error) or type(error).__name__).splitlines()[0]
    return (
        f"Airflow cannot read {location!r} here ({why}): a range counts as loaded by the report that its application "
        f"leaves there. Where Airflow's tasks run, install what reads it (for s3a:// and s3:// "
        f"apache-airflow-providers-amazon[s3fs], for gs:// apache-airflow-providers-google, for abfs:// "
        f"apache-airflow-providers-microsoft-azure, for hdfs:// Hadoop's libhdfs), or name a checkpoint= that they and "
        f"Spark reach, such as a shared folder"
    )


def _path(location: str) -> Any:
    parts = urlsplit(location)
    if parts.scheme in {"", "file"}:
        return Path(unquote(parts.path) if parts.scheme else location)
    from airflow.sdk import ObjectStoragePath

    return ObjectStoragePath(location)
