"""Small text documents in one location: put as a whole or not at all, read, listed, deleted.

`State` is the port. A document that was put is there in full after any kill; a kill in the middle of a put leaves what
was there before. Of two writers at the same moment, `create` lets one through. `LocalState` is on local disk.

`ObjectState` is in an object store, by fsspec: an object appears whole when its upload ends. `create` is the store's
precondition: `If-None-Match` in S3, `ifGenerationMatch=0` in Google's store, an upload without overwriting in Azure's.
fsspec emulates it elsewhere by looking first, which two writers can do at the same moment, so other file systems are
only read here. A store that ignores the precondition, as some do that speak S3, is found out before it creates any.
"""

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from .errors import OrderedKafkaError, SettingError, StateError

TEMPORARY = ".partial"
"""The suffix of a document on its way; such a file is never listed and may be deleted at any time."""

STORES: Final = {"s3a": "s3", "s3n": "s3"}
"""What others call them, where Hadoop has other names."""


class State(Protocol):
    """The port. Names are relative, with `/` between folders; each failure is a `StateError`."""

    @property
    def location(self) -> str:
        """Where the documents are, as it was given."""

    def put(self, name: str, text: str) -> None:
        """Write the document, in place of what had this name."""

    def create(self, name: str, text: str) -> bool:
        """Write the document only where there is none yet; whether it was written.

        Of several writers one wins, whatever machines they are on. A store that cannot promise this raises a
        `SettingError`. Where the answer to a request was lost on its way and the request was sent again, the winner may
        be told that it lost: what it needs to know again has to be in the document.
        """

    def date(self, name: str, seconds: int) -> None:
        """Set the document's modification time to `seconds` from now, where the store supports it."""

    def get(self, name: str) -> str | None:
        """None where there is none."""

    def names(self, folder: str = "") -> list[str]:
        """The names directly in this folder, documents and folders, sorted; none where there is no such folder."""

    def delete(self, name: str) -> None:
        """Delete a document, or a folder with all that is in it; fine where there is none."""


def local_path(location: str) -> Path | None:
    """The path on this machine's disk that the location names; None where it is another file system."""
    parts = urlsplit(location)
    if not parts.scheme:
        return Path(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None


def uri_of(location: str) -> str:
    """The one name of a location, of which a path and a bucket have several."""
    if (path := local_path(location)) is not None:
        return f"file://{path}"
    scheme, _, rest = location.rstrip("/").partition(":")
    return f"{STORES.get(scheme, scheme)}:{rest}"


def join(location: str, *names: str) -> str:
    return "/".join([location.rstrip("/"), *names])


_CHANGED = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""What a deletion may raise if another process works in the same folder: what that created stays."""


class LocalState:
    """Documents on local disk: a temporary name, fsync, rename, fsync of the folder."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self.location = str(base)

    def put(self, name: str, text: str) -> None:
        """Its folder is made where it is missing."""
        path = self._base / name
        partial = path.with_name(path.name + TEMPORARY)
        with _explained("write", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                _write(partial, text)
                partial.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
                raise
            _sync(path.parent)

    def create(self, name: str, text: str) -> bool:
        """By a hard link to a whole file."""
        path = self._base / name
        partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
        with _explained("create", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                _write(partial, text)
                created = _linked(partial, path)
            finally:
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
            _sync(path.parent)
        return created

    def date(self, name: str, seconds: int) -> None:
        changed = time.time() + seconds
        with contextlib.suppress(OSError):
            os.utime(self._base / name, (changed, changed))

    def get(self, name: str) -> str | None:
        path = self._base / name
        with _explained("read", path):
            try:
                return path.read_text("utf-8")
            except FileNotFoundError:
                return None

    def names(self, folder: str = "") -> list[str]:
        path = self._base / folder
        with _explained("list", path):
            try:
                found = os.listdir(path)  # noqa: PTH208 - only the names are asked for
            except FileNotFoundError:
                return []
        return sorted(name for name in found if not name.endswith(TEMPORARY))

    def delete(self, name: str) -> None:
        path = self._base / name
        with (
            _explained("delete", path),
            contextlib.suppress(*_CHANGED),
        ):  # another process deletes it too, or creates something there
            if not path.is_dir():
                path.unlink()
                return
            for each in list(path.iterdir()):
                self.delete(f"{name}/{each.name}")
            try:
                path.rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # it got a new document while it was emptied: it stays
                    raise


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def _linked(partial: Path, path: Path) -> bool:
    """Give a whole file its name, unless another one has it."""
    try:
        os.link(partial, path)
    except FileExistsError:
        return partial.stat().st_nlink > 1  # NFS may have lost its answer to a link that was made
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise SettingError(
            f"{str(path.parent)!r} is on a file system without hard links ({error.strerror}), so two writers at the "
            "same moment would both succeed: name a location on a local disk, NFS or an object store"
        ) from error
    return True


_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems answer that keep folders in their own way, such as some of a network."""


def _sync(folder: Path) -> None:
    """A rename lasts only once its folder is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space, then run the same range again",
    errno.EFBIG: "files may not grow any more: raise the limit (ulimit -f), then run the same range again",
    errno.EDQUOT: "the disk quota is used up: free some space, then run the same range again",
    errno.EROFS: "the disk is read-only: mount it for writing, then run the same range again",
    errno.EACCES: "permission is missing: let this user read and write there, then run the same range again",
    errno.EPERM: "permission is missing: let this user read and write there, then run the same range again",
    errno.ENOTDIR: "a file is where a folder should be: name another location",
}


@contextlib.contextmanager
def _explained(action: str, path: Path) -> Any:
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "fix it, then run the same range again")
        raise failure(action, str(path), f"{error.strerror}: {remedy}") from error


def failure(action: str, path: str, cause: str) -> StateError:
    """It says what is safe to do next."""
    return StateError(
        f"cannot {action} {path!r}: {cause}. Nothing is lost: the documents stored here are complete, and the next run "
        "goes on from them. Do not delete the location: it knows what was written already"
    )


PRECONDITIONS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""The protocols of fsspec whose file systems let the store itself decide who creates an object."""


class ObjectState:
    """Documents under `base` on this file system; `location` is what people call it."""

    def __init__(self, location: str, filesystem: Any, base: str) -> None:
        self.location = location.rstrip("/")
        self._files = filesystem
        self._base = base.rstrip("/")
        self._tried = False

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
                f"documents cannot be kept at {self.location!r}: on {'/'.join(sorted(protocols))}, two writers at the "
                "same moment would both succeed. Name a location in S3, Google's or Azure's object store, or a folder "
                "that all machines share"
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
                f"the store of {self.location!r} ignores preconditions, so two writers could both create the same "
                "object. Use a release of the store that knows If-None-Match, or name another location"
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
            raise failure(action, join(self.location, name), reason) from error

    def _path(self, name: str) -> str:
        return join(self._base, name) if name else self._base
