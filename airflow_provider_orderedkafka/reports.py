"""What stands beside a checkpoint, read from wherever that is: the report, which is the proof, and whether notes do."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_provider_orderedkafka.core.documents import Report

REPORT = "report.json"
NOTES = "notes"


def place_of(root: str, range_id: str, times: int) -> str:
    """A range's own folder below the load's; one more for each time that it is loaded anew."""
    return f"{root.rstrip('/')}/{range_id}" + (f"-again-{times}" if times else "")


def report_location(checkpoint: str) -> str:
    """Where the report of this checkpoint is."""
    return f"{checkpoint.rstrip('/')}/{REPORT}"


def read_report(checkpoint: str) -> Report | None:
    """The report, or None while there is none; a location with a scheme is read with Airflow's object storage."""
    text = _read(report_location(checkpoint))
    return None if text is None else Report.from_text(text)


def has_notes(checkpoint: str) -> bool:
    """Whether a batch was noted beside this checkpoint: rows may have been written since."""
    try:
        return any(True for _ in _path(f"{checkpoint.rstrip('/')}/{NOTES}").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _read(location: str) -> str | None:
    try:
        text: str = _path(location).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return text


def _path(location: str) -> Any:
    parts = urlsplit(location)
    if parts.scheme in {"", "file"}:
        return Path(unquote(parts.path) if parts.scheme else location)
    from airflow.sdk import ObjectStoragePath

    return ObjectStoragePath(location)
