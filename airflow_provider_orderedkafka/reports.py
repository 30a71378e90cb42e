"""Read what is beside a checkpoint, wherever it is: the report, and whether there are notes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError, StateError
from airflow_provider_orderedkafka.storage.store import local_path

REPORT = "report.json"
NOTES = "notes"

AZURE = frozenset({"abfs", "abfss"})
"""Hadoop names these container@account, where others have no user, or Airflow's connection."""

WEBHDFS = "webhdfs"

BUCKETS = frozenset({"s3", "s3a", "s3n", "gs", *AZURE})
"""Where a document that is not there may mean that nothing ever will be."""

FINAL = (ValueError, ImportError, PermissionError)
"""No such scheme, nothing installed for it, no credentials: what no retry mends."""


class WebHdfsPath:
    """A path of HDFS over HTTP, by fsspec: Airflow has no file system for it. A user may be named before the host."""

    def __init__(self, location: str) -> None:
        from fsspec.core import url_to_fs

        self.fs, self.path = url_to_fs(location)

    def read_text(self, encoding: str = "utf-8") -> str:
        return str(self.fs.cat_file(self.path), encoding)

    def write_text(self, text: str) -> None:
        self.fs.pipe_file(self.path, text.encode())

    def iterdir(self) -> Iterable[str]:
        found: list[str] = self.fs.ls(self.path, detail=False)
        return found

    def unlink(self) -> None:
        self.fs.rm(self.path)


def path_of(location: str) -> Any:
    """The location as a path on this machine, or one that Airflow's object storage opens with its connections."""
    if (path := local_path(location)) is not None:
        return path
    parts = urlsplit(location)
    if parts.scheme == WEBHDFS:
        return WebHdfsPath(location)
    from airflow.sdk import ObjectStoragePath

    container, _, account = parts.netloc.rpartition("@")
    if container and parts.scheme in AZURE and "." in account:
        return ObjectStoragePath(parts._replace(netloc=container).geturl())
    return ObjectStoragePath(location)


def report_location(checkpoint: str) -> str:
    return f"{checkpoint.rstrip('/')}/{REPORT}"


def for_spark(location: str) -> str:
    """The location without the Airflow connection that may be named in it, as in s3a://aws_default@bucket/loads.

    What Airflow reads by WebHDFS is on Spark's default file system: the client for WebHDFS of Hadoop 3.5.0 is broken.
    """
    parts = urlsplit(location)
    if parts.scheme == WEBHDFS:
        return f"hdfs://{parts.path}"
    _, named, bucket = parts.netloc.rpartition("@")
    return parts._replace(netloc=bucket).geturl() if named and parts.scheme not in AZURE else location


def read_report(checkpoint: str) -> Report | None:
    """The report, or None while there is none; a location with a scheme is read with Airflow's object storage."""
    text = _read(report_location(checkpoint))
    return None if text is None else Report.from_text(text)


def readable(checkpoint: str) -> str:
    """Check that reports can be read at this location, and return it: no range could be committed otherwise."""
    if _read(report_location(checkpoint)) is None and urlsplit(checkpoint).scheme in BUCKETS:
        _check_bucket(checkpoint)
    return checkpoint


def has_notes(checkpoint: str) -> bool:
    """Whether a batch was noted beside this checkpoint, so that rows may have been written."""
    with _explained(checkpoint), suppress(FileNotFoundError, NotADirectoryError):
        return any(True for _ in path_of(f"{checkpoint.rstrip('/')}/{NOTES}").iterdir())
    return False


def _read(location: str) -> str | None:
    with _explained(location), suppress(FileNotFoundError):
        text: str = path_of(location).read_text(encoding="utf-8")
        return text
    return None


def _check_bucket(location: str) -> None:
    with _explained(location):
        path = path_of(location)
        found = path.fs.exists(path.drive)
    if not found:
        raise SettingError(
            f"the checkpoint {location!r} cannot be read here: there is no bucket {path.drive!r}, or Airflow may not "
            f"list what is in it. Create it, allow that, or name another checkpoint="
        )


@contextmanager
def _explained(location: str) -> Iterator[None]:
    """Add what the location is for to the errors of Airflow and of the stores' clients, which share no base."""
    try:
        yield
    except OrderedKafkaError:
        raise
    except FINAL as error:
        raise SettingError(_unreadable(location, error)) from error
    except Exception as error:
        raise StateError(_unreadable(location, error)) from error


def _unreadable(location: str, error: Exception) -> str:
    why = (str(error) or type(error).__name__).splitlines()[0]
    return (
        f"Airflow cannot read {location!r} here ({why}): a range counts as loaded by the report that its application "
        f"leaves there. Where Airflow's tasks run, install what reads it (for s3a:// and s3:// "
        f"apache-airflow-providers-amazon[s3fs], for gs:// apache-airflow-providers-google, for abfs:// "
        f"apache-airflow-providers-microsoft-azure, for hdfs:// Hadoop's libhdfs; webhdfs:// needs nothing) and give "
        f"it credentials, in the environment or by a connection in the location (s3a://aws_default@bucket/loads); or "
        f"name a checkpoint= that they and Spark reach, such as a shared folder"
    )
