"""Documents in an object store, by fsspec: an object appears whole when its upload ends.

`create` is the store's own precondition: `If-None-Match` in S3, `ifGenerationMatch=0` in Google's store, an upload
without overwriting in Azure's. fsspec emulates it elsewhere by looking first, which two writers can do at the same
moment, so other file systems are only read here. A store that ignores the precondition, as some do that speak S3, is
found out before the first document is created.
"""

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

from airflow_provider_orderedkafka.errors import OrderedKafkaError, SettingError

from .store import TEMPORARY, failure, join

PRECONDITIONS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""The protocols of fsspec whose file systems let the store itself decide who creates an object."""


class ObjectState:
    """Documents under `base` on this file system; `location` is what people call it."""

    def __init__(self, location: str, filesystem: Any, base: str) -> None:
        self._location = location.rstrip("/")
        self._files = filesystem
        self._base = base.rstrip("/")
        self._tried = False

    @property
    def location(self) -> str:
        return self._location

    def put(self, name: str, text: str) -> None:
        self._check_kind()
        with self._explained("write", name):
            self._files.pipe_file(self._path(name), text.encode())

    def create(self, name: str, text: str) -> bool:
        self._check_creates()
        with self._explained("create", name):
            return self._created(name, text)

    def date(self, name: str, seconds: int) -> None:
        """Nothing: an object store keeps its own dates."""

    def get(self, name: str) -> str | None:
        with self._explained("read", name):
            try:
                return bytes(self._files.cat_file(self._path(name))).decode()
            except FileNotFoundError:
                return None

    def names(self, folder: str = "") -> list[str]:
        path = self._path(folder)
        with self._explained("list", folder):
            self._files.invalidate_cache()  # fsspec remembers what it has listed
            try:
                found = self._files.ls(path, detail=False)
            except FileNotFoundError:
                return []
        paths = {each.rstrip("/") for each in found} - {path.rstrip("/")}  # a folder may have an object of its own
        return sorted(each.rpartition("/")[2] for each in paths if not each.endswith(TEMPORARY))

    def delete(self, name: str) -> None:
        with self._explained("delete", name):
            self._files.invalidate_cache()
            with contextlib.suppress(FileNotFoundError):
                self._files.rm(self._path(name), recursive=True)

    def _created(self, name: str, text: str) -> bool:
        try:
            self._files.pipe_file(self._path(name), text.encode(), mode="create")
        except FileExistsError:
            return False
        return True

    def _check_kind(self) -> None:
        protocol = self._files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        if not protocols & PRECONDITIONS:
            raise SettingError(
                f"documents cannot be written to {self._location!r} from here: of two writers at the same moment both "
                f"would win on {'/'.join(sorted(protocols))}. Name a location in S3, Google's or Azure's object store, "
                "or a folder that all of them share"
            )

    def _check_creates(self) -> None:
        """See once that the store refuses to create what is there."""
        if self._tried:
            return
        self._check_kind()
        probe = f"{secrets.token_hex(8)}{TEMPORARY}"
        with self._explained("create", probe):
            try:
                both = self._created(probe, "1") and self._created(probe, "2")
            finally:
                self.delete(probe)
        if both:
            raise SettingError(
                f"the store of {self._location!r} ignores preconditions: it lets two writers create the same object, "
                "so that both would win. Use a release of it that knows If-None-Match, or name another location"
            )
        self._tried = True

    @contextlib.contextmanager
    def _explained(self, action: str, name: str) -> Iterator[None]:
        """Turn what the store's client says, whose errors have no common base, into an error that says what is safe."""
        try:
            yield
        except OrderedKafkaError:
            raise
        except Exception as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise failure(action, join(self._location, name), reason) from error

    def _path(self, name: str) -> str:
        return join(self._base, name) if name else self._base
