"""Documents on whatever file system Spark itself can reach: HDFS, S3, GCS, ABFS, and local disk too.

Where a rename is atomic, a document is written under a temporary name and renamed. In an object store a rename is a
copy, but what is written appears whole when it is closed, so it is written in place, and only closed once it is whole.
A request to an object store takes a while, so nothing is asked that the next request answers too.
"""

import contextlib
import secrets
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ...compat.spark import gateway, hadoop_configuration
from ...errors import SettingError, StateError
from ...storage import TEMPORARY, failure, join

WHOLE_ON_CLOSE = {"s3", "s3a", "s3n", "gs", "oss", "cosn", "obs"}
"""The schemes of object stores whose objects appear when they are closed."""

CREATES = {"hdfs", "viewfs", "webhdfs", "abfs", "abfss", "gs", "file"}
"""The schemes where one of two that create the same document fails, as soon as neither may overwrite."""

ONLY_NEW = "fs.option.create.conditional.overwrite"
"""How S3A, from Hadoop 3.4.2, is asked for the same, and how it is asked whether it can."""

UNASKED = "fs.s3a.create.performance"
"""Tells S3A to put an object without first looking for a folder of that name."""

TRIES = 3
"""How often a document is read that is replaced while it is read: S3A notices, and calls that an error."""

MISSING = "java.io.FileNotFoundException"
TAKEN = ("org.apache.hadoop.fs.FileAlreadyExistsException", "org.apache.hadoop.fs.s3a.RemoteFileChangedException")
"""Java exceptions that mean that a document exists already: S3A reports a failed precondition as a change."""

PACKAGES = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "gs": "hadoop-gcp"}
"""What brings a scheme to Spark, in the version of Spark's Hadoop."""

REFUSALS = {
    "org.apache.hadoop.fs.s3a.UnknownStoreException": "create the bucket, or name another location",
    "java.nio.file.AccessDeniedException": "give Spark's driver credentials that may list, read, write and delete "
    "there: in its environment, by its machine's role, or in Spark's settings",
    "java.lang.ClassNotFoundException": "Spark's Hadoop lacks a part of the client for this scheme, as Hadoop 3.5.0 "
    "does for webhdfs://. Name the location with another scheme, such as hdfs://...",
}
"""What no retry mends, and the way out."""


class HadoopState:
    """Documents on a Hadoop file system, by the session's configuration."""

    def __init__(self, location: str, gateway: Any, configuration: Any) -> None:
        """`SettingError` for a location that Spark has nothing for, or that will not let it in."""
        self.location = self._root = location.rstrip("/")
        self._gateway = gateway
        self._tried = False
        self._scheme, server = urlsplit(location)[:2]
        try:
            path = self._path("")
            self._files = path.getFileSystem(configuration)
            self._scheme = str(self._files.getUri().getScheme())
            if not server:  # hdfs:///loads is on the default file system
                self._root = str(self._files.makeQualified(path).toString())
            self._context = None
            if self._scheme not in WHOLE_ON_CLOSE:
                contexts = gateway.jvm.org.apache.hadoop.fs.FileContext
                self._context = contexts.getFileContext(self._files.getUri(), configuration)
        except (Py4JJavaError, PySparkException) as error:
            raise SettingError(
                f"the location {location!r} cannot be opened ({_cause(error)}): {self._instead(self._scheme)}"
            ) from error
        self._check_let_in()

    @classmethod
    def of(cls, location: str, session: Any) -> "HadoopState":
        if session is None:
            raise SettingError(f"the location {location!r} is not on local disk: it can only be read where Spark runs")
        return cls(location, gateway(session), hadoop_configuration(session))

    def put(self, name: str, text: str) -> None:
        path = self._path(name)
        with _explained("write", str(path)):
            if self._context is None:
                self._write(self._files.createFile(path).overwrite(True).opt(UNASKED, True), text)  # noqa: FBT003
                return
            partial = self._path(name + TEMPORARY)
            self._write(self._files.createFile(partial).overwrite(True), text)  # noqa: FBT003
            self._context.rename(partial, path, self._how("OVERWRITE"))

    def create(self, name: str, text: str) -> bool:
        with _explained("create", str(self._path(name))):
            self.check_creates()
            return self._created(name, text)

    def date(self, name: str, seconds: int) -> None:
        """Set the document's modification time to `seconds` from now; object stores ignore it."""
        changed = round((time.time() + seconds) * 1000)
        with contextlib.suppress(Py4JError):
            self._files.setTimes(self._path(name), changed, -1)

    def get(self, name: str) -> str | None:
        path = self._path(name)
        with _explained("read", str(path)):
            left = TRIES
            while True:
                try:
                    return self._read(path)
                except Py4JJavaError as error:
                    left -= 1
                    if _kind(error) == MISSING:
                        return None
                    if left == 0:
                        raise

    def names(self, folder: str = "") -> list[str]:
        path = self._path(folder)
        with _explained("list", str(path)):
            try:
                found = [status.getPath().getName() for status in self._files.listStatus(path)]
            except Py4JJavaError as error:
                if _kind(error) != MISSING:
                    raise
                return []
        return sorted(name for name in found if not name.endswith(TEMPORARY))

    def size(self, folder: str) -> int:
        """How many bytes the files in a folder have."""
        path = self._path(folder)
        with _explained("list", str(path)):
            return int(self._files.getContentSummary(path).getLength())

    def delete(self, name: str) -> None:
        path = self._path(name)
        with _explained("delete", str(path)):
            self._files.delete(path, True)  # noqa: FBT003 - Hadoop's own signature

    def _read(self, path: Any) -> str:
        stream = self._files.open(path)
        try:
            return bytes(self._gateway.jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode("utf-8")
        finally:
            stream.close()

    def _created(self, name: str, text: str) -> bool:
        try:
            self._create(name, text)
        except Py4JJavaError as error:
            if _kind(error) not in TAKEN:
                raise
            return False
        return True

    def _create(self, name: str, text: str) -> None:
        path = self._path(name)
        if self._context is None:
            self._write(self._files.createFile(path).overwrite(False).opt(ONLY_NEW, True), text)  # noqa: FBT003
            return
        partial = self._path(f"{name}.{secrets.token_hex(4)}{TEMPORARY}")
        self._write(self._files.createFile(partial), text)
        try:
            self._context.rename(partial, path, self._how("NONE"))
        finally:
            self._files.delete(partial, False)  # noqa: FBT003 - Hadoop's own signature

    def _check_let_in(self) -> None:
        """What is wrong for the moment only is said by the first question that meets it."""
        try:
            self._files.listStatus(self._path(""))
        except (Py4JError, PySparkException) as error:
            if (way_out := next(filter(None, map(REFUSALS.get, _kinds(error))), None)) is not None:
                raise SettingError(
                    f"the location {self.location!r} cannot be reached ({_cause(error)}): {way_out}"
                ) from error

    def _instead(self, scheme: str) -> str:
        if (package := PACKAGES.get(scheme)) is not None:
            version = self._gateway.jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            return f"start Spark with `--packages org.apache.hadoop:{package}:{version}` (packages= in Airflow)"
        if scheme in {"s3", "s3n"}:
            return "name it with s3a://, as Hadoop's own client for S3 is called"
        return "name one on a file system that this Spark is set up for, such as hdfs://..., s3a://... or file:///..."

    def check_creates(self) -> None:
        """See once that one of two that create a document is refused: not all that speaks S3 heeds what S3 does."""
        if self._tried or self._scheme in CREATES:
            return
        able = self._files.hasPathCapability(self._path(""), ONLY_NEW)
        probe = f"{secrets.token_hex(8)}{TEMPORARY}"
        try:
            if not able or (self._created(probe, "1") and self._created(probe, "2")):
                raise SettingError(
                    f"the location {self.location!r} cannot hold documents: two writers could create the same one at "
                    "once. Use gs://, abfss:// or hdfs://; or s3a:// with hadoop-aws 3.4.2 or newer, "
                    "fs.s3a.create.conditional.enabled and a store that heeds If-None-Match"
                )
        finally:
            if able:
                self.delete(probe)
        self._tried = True

    def _write(self, builder: Any, text: str) -> None:
        stream, whole = builder.recursive().build(), False
        try:
            stream.write(bytearray(text.encode("utf-8")))
            stream.hsync()
            whole = True
        finally:
            if whole or self._context is not None:  # closed, it would stand in the document's place
                stream.close()

    def _how(self, rename: str) -> Any:
        kinds = self._gateway.jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(kinds, 1)
        options[0] = getattr(kinds, rename)
        return options

    def _path(self, name: str) -> Any:
        return self._gateway.jvm.org.apache.hadoop.fs.Path(join(self._root, name) if name else self._root)


@contextlib.contextmanager
def _explained(action: str, path: str) -> Iterator[None]:
    """Turn what the JVM says into an error that says what is safe next."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise failure(action, path, _cause(error)) from error
    except Py4JError as error:
        raise StateError(f"cannot {action} {path!r}: the connection to Spark's JVM is gone; run again") from error


def _kind(error: Exception) -> str:
    return str(error.java_exception.getClass().getName()) if isinstance(error, Py4JJavaError) else ""


def _kinds(error: Exception) -> Iterator[str]:
    """What was raised, and what it was raised for."""
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        yield str(cause.getClass().getName())
        cause = cause.getCause()


def _cause(error: Exception) -> str:
    """What Java said, or PySpark of some of its exceptions."""
    if not isinstance(error, Py4JJavaError):
        return str(error).partition("\n")[0]
    cause = error.java_exception
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
