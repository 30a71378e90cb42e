"""Where a load's documents are, and what Airflow's side reads and writes beside a checkpoint, wherever it is.

The ledger is in Airflow's asset state store, or in a location of its own. Beside a checkpoint are the report, and maybe
notes. The range is written there before an attempt is counted, and the work where that does not fit into a word.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .compat.airflow import has_asset_state
from .core.checkpoint_files import DOCUMENT, LEASES, NOTES, RANGE, REPORT, SIGNS, WORKS, report_by
from .core.documents import Range, Report
from .core.notation.secrets import has_login, masked
from .errors import OrderedKafkaError, SettingError, StateError
from .load import check_absolute
from .loads.ledger import LEDGER, LedgerStore, store_in
from .storage import LocalState, ObjectState, State, join, local_path

REACHED_BY = (
    "for s3:// and s3a:// apache-airflow-providers-amazon[s3fs], for gs:// apache-airflow-providers-google, for "
    "abfs:// apache-airflow-providers-microsoft-azure"
)
VARIABLE = "AIRFLOW__ORDEREDKAFKA__LEDGER"
"""The environment's name for `[orderedkafka] ledger`."""


def ledger_in(load: str, location: str) -> LedgerStore:
    return store_in(load, open_location(join(location, load)))


def default_location() -> str | None:
    from airflow.providers.common.compat.sdk import conf

    return conf.get("orderedkafka", "ledger", fallback=None) or None


def location_for(load: str, ledger: str | None) -> str | None:
    """Where a load keeps its ledger: its own `ledger`, or the one of Airflow's configuration; None: in Airflow's store.

    `SettingError` where Airflow has no store for it, and nothing names a location, or a relative one.
    """
    location = ledger or default_location()
    if location is not None:
        check_absolute(location, "ledger")
    check_kept(load, location)
    return location


def check_kept(load: str, location: str | None) -> None:
    if location is None and not has_asset_state():
        raise SettingError(
            f"load {load!r}: ledger= is missing, and this Airflow has no asset state store (it came with 3.3): name a "
            "location that all of Airflow reaches, such as ledger='s3://bucket/ledgers' or a shared folder; or one for "
            f"all loads, as ledger in the section [orderedkafka] of airflow.cfg, or as {VARIABLE}"
        )


def open_location(location: str) -> State:
    """The documents in a folder of this machine or, with the connections of Airflow, in an object store."""
    try:
        path = path_of(location)
        return LocalState(path) if local_path(location) else ObjectState(location, path.fs, path.path)
    except (ValueError, ImportError) as error:  # no such scheme, or nothing installed for it
        raise SettingError(
            f"Airflow cannot open {location!r} here ({error}): install what reaches it ({REACHED_BY}), or name a "
            "folder that all of Airflow shares"
        ) from error


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
    check_no_login(location)
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


def check_no_login(location: str) -> None:
    if has_login(location):
        raise SettingError(
            f"the location {masked(location)!r} has a login or a signature, and locations are shown in command lines, "
            "logs and documents: name an Airflow connection in it instead (s3a://aws_default@bucket/loads), or keep "
            "the login in the environment"
        )


def report_location(checkpoint: str) -> str:
    return join(checkpoint, REPORT)


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
    return report_by(lambda name: _read(join(checkpoint, name)))


def readable(checkpoint: str) -> str:
    """Check that reports can be read at this location, and return it: no range could be committed otherwise."""
    if _read(report_location(checkpoint)) is None and urlsplit(checkpoint).scheme in BUCKETS:
        _check_bucket(checkpoint)
    return checkpoint


def local_root(load: str) -> str:
    """Where the checkpoints of a load are by default, with a local master."""
    from airflow.providers.common.compat.sdk import conf

    named = os.path.expandvars(os.environ.get("AIRFLOW_HOME", ""))  # as Airflow reads it
    home = Path(named).expanduser() if named else Path(conf.get("core", "dags_folder")).parent
    return f"{home}/orderedkafka/{load}"


def reports_at(location: str) -> dict[str, Report | None]:
    """The reports of the ranges that have a folder at this location, or of the one whose own it is, by their folders.

    None where there is none yet.
    """
    if (alone := read_report(location)) is not None:
        return {alone.range_id: alone}
    names: list[str] = []
    with _explained(location), suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(_name(each) for each in path_of(location).iterdir())
    if {LEASES, WORKS}.intersection(names):
        return {_name(location): None}
    folders = {name: join(location, name) for name in names if name != LEDGER and not name.endswith(DOCUMENT)}
    reports = {name: read_report(folder) for name, folder in folders.items()}
    of_ranges = {name for name, each in reports.items() if each or bound(folders[name]) or has_notes(folders[name])}
    return {name: each for name, each in reports.items() if name in of_ranges}


def _name(location: Any) -> str:
    return str(location).rstrip("/").rpartition("/")[2]


def has_notes(checkpoint: str) -> bool:
    """Whether a batch was noted beside this checkpoint, so that rows may have been written."""
    with _explained(checkpoint), suppress(FileNotFoundError, NotADirectoryError):
        return any(True for _ in path_of(f"{checkpoint.rstrip('/')}/{NOTES}").iterdir())
    return False


def bound(checkpoint: str) -> bool:
    """Whether a range was ever taken there: it lies there, or its report does."""
    return any(_read(join(checkpoint, name)) is not None for name in SIGNS)


def bind(checkpoint: str, loaded: Range) -> None:
    """Write the range there, unless one lies there already: the application sees whether it is the same."""
    if _read(join(checkpoint, RANGE)) is None:
        _write(checkpoint, RANGE, loaded.to_text())


def keep_work(checkpoint: str, name: str, text: str) -> None:
    _write(checkpoint, name, text)


def exists(location: str) -> bool | None:
    """Whether a file in an object store, or at a `file:` URL, is there; None where that cannot be asked from here."""
    if urlsplit(location).scheme not in {*BUCKETS, "file"}:
        return None  # in an image, on a cluster
    try:
        return bool(path_of(location).exists())
    except Exception:  # noqa: BLE001 - who may not look here may still be allowed to read it there, which says so itself
        return None


def _write(checkpoint: str, name: str, text: str) -> None:
    if (path := local_path(checkpoint)) is not None:
        LocalState(path.absolute()).put(name, text)
        return
    with _explained(join(checkpoint, name), "write"):
        path_of(join(checkpoint, name)).write_text(text)


def _read(location: str) -> str | None:
    with _explained(location), suppress(FileNotFoundError, NotADirectoryError):
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
def _explained(location: str, what: str = "read") -> Iterator[None]:
    """Add what the location is for to the errors of Airflow and of the stores' clients, which share no base."""
    try:
        yield
    except OrderedKafkaError:
        raise
    except FINAL as error:
        raise SettingError(_out_of_reach(location, what, error)) from error
    except Exception as error:
        raise StateError(_out_of_reach(location, what, error)) from error


def _out_of_reach(location: str, what: str, error: Exception) -> str:
    why = (str(error) or type(error).__name__).splitlines()[0]
    return (
        f"Airflow cannot {what} {location!r} here ({why}): its tasks write there what they start, and read there the "
        f"report that proves a range. Where Airflow's tasks run, install what reaches it ({REACHED_BY}, for hdfs:// "
        "Hadoop's libhdfs; webhdfs:// needs nothing) and give it credentials, in the environment or by a connection in "
        "the location (s3a://aws_default@bucket/loads); or name a checkpoint= that they and Spark reach, such as a "
        "shared folder"
    )
