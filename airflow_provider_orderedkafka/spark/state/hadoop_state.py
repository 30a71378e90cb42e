"""Documents on whatever file system Spark itself can reach: HDFS, S3, GCS, ABFS, and local disk too.

Where a rename is atomic, a document is written under a temporary name and renamed. In an object store a rename is a
copy, but what is written appears whole when it is closed, so it is written in place, and only closed once it is whole.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError

from airflow_provider_orderedkafka.compat.spark import gateway, hadoop_configuration
from airflow_provider_orderedkafka.errors import SettingError, StateError
from airflow_provider_orderedkafka.storage.store import TEMPORARY, failure, join

WHOLE_ON_CLOSE = {"s3", "s3a", "s3n", "gs", "oss", "cosn", "obs"}
"""The schemes of object stores whose objects appear when they are closed."""


class HadoopState:
    """Documents on a Hadoop file system, by the session's configuration."""

    def __init__(self, location: str, gateway: Any, configuration: Any) -> None:
        self._location = location.rstrip("/")
        self._gateway = gateway
        try:
            path = self._path("")
            self._files = path.getFileSystem(configuration)
            self._context = None
            if urlsplit(location).scheme not in WHOLE_ON_CLOSE:
                contexts = gateway.jvm.org.apache.hadoop.fs.FileContext
                self._context = contexts.getFileContext(path.toUri(), configuration)
        except Py4JJavaError as error:
            raise SettingError(
                f"the location {location!r} cannot be opened ({_cause(error)}): name one on a file system that this "
                f"Spark is set up for, such as hdfs://..., s3a://... or file:///..."
            ) from error

    @classmethod
    def of(cls, location: str, session: Any) -> "HadoopState":
        """By the file systems of this Spark session."""
        if session is None:
            raise SettingError(
                f"the location {location!r} is not on local disk: it can only be read with Spark at hand"
            )
        return cls(location, gateway(session), hadoop_configuration(session))

    @property
    def location(self) -> str:
        """The folder."""
        return self._location

    def put(self, name: str, text: str) -> None:
        """Write the document, in place of what had this name."""
        path = self._path(name)
        with _explained("write", str(path)):
            if self._context is None:
                self._write(path, text)
                return
            partial = self._path(name + TEMPORARY)
            self._write(partial, text)
            self._context.rename(partial, path, self._overwriting())

    def create(self, name: str, text: str) -> bool:  # noqa: ARG002 - the port's signature
        """Refused: what the JVM's file systems promise of it differs."""
        raise SettingError(f"{name!r} cannot be created in {self._location!r} such that of two writers only one wins")

    def date(self, name: str, seconds: int) -> None:
        """Say that the document was changed so many seconds from now; object stores do not care."""
        changed = round((time.time() + seconds) * 1000)
        with contextlib.suppress(Py4JError):
            self._files.setTimes(self._path(name), changed, -1)

    def get(self, name: str) -> str | None:
        """The document's text; None where there is none."""
        path = self._path(name)
        with _explained("read", str(path)):
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(self._gateway.jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode("utf-8")
            finally:
                stream.close()

    def names(self, folder: str = "") -> list[str]:
        """The names directly in this folder, sorted."""
        path = self._path(folder)
        with _explained("list", str(path)):
            if not self._files.exists(path):
                return []
            found = [status.getPath().getName() for status in self._files.listStatus(path)]
        return sorted(name for name in found if not name.endswith(TEMPORARY))

    def delete(self, name: str) -> None:
        """Delete a document, or a folder with all that is in it."""
        path = self._path(name)
        with _explained("delete", str(path)):
            self._files.delete(path, True)  # noqa: FBT003 - Hadoop's own signature

    def _write(self, path: Any, text: str) -> None:
        stream, whole = self._files.create(path, True), False  # noqa: FBT003 - Hadoop's own signature
        try:
            stream.write(bytearray(text.encode("utf-8")))
            stream.hsync()
            whole = True
        finally:
            if whole or self._context is not None:  # closed, it would stand in the document's place
                stream.close()

    def _overwriting(self) -> Any:
        rename = self._gateway.jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        return options

    def _path(self, name: str) -> Any:
        return self._gateway.jvm.org.apache.hadoop.fs.Path(join(self._location, name) if name else self._location)


@contextlib.contextmanager
def _explained(action: str, path: str) -> Iterator[None]:
    """Turn what the JVM says into an error that says what is safe next."""
    try:
        yield
    except Py4JJavaError as error:
        raise failure(action, path, _cause(error)) from error
    except Py4JError as error:
        raise StateError(f"cannot {action} {path!r}: the connection to Spark's JVM is gone; run again") from error


def _cause(error: Py4JJavaError) -> str:
    cause = error.java_exception
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
