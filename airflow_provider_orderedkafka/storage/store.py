"""Small text documents in one location: put as a whole or not at all, read, listed, deleted.

The port, and the store on local disk. A document that was put is there in full after any kill; a kill in the middle of
a put leaves what was there before. `create` is what two writers at the same moment are told apart by.
"""

import contextlib
import errno
import os
import secrets
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from airflow_provider_orderedkafka.errors import SettingError, StateError

TEMPORARY = ".partial"
"""The suffix of a document on its way; such a file is never listed and may be deleted at any time."""


class State(Protocol):
    """The port. Names are relative, with `/` between folders; each failure is a `StateError`."""

    @property
    def location(self) -> str:
        """Where the documents are, as it was given."""
        ...

    def put(self, name: str, text: str) -> None:
        """Write the document, in place of what had this name."""
        ...

    def create(self, name: str, text: str) -> bool:
        """Write the document only where there is none yet; whether it was written.

        Of several writers one wins, whatever machines they are on. A store that cannot promise this raises a
        `SettingError`. Where the answer to a request was lost on its way and the request was sent again, the winner may
        be told that it lost: what it needs to know again has to be in the document.
        """
        ...

    def date(self, name: str, seconds: int) -> None:
        """Set the document's modification time to `seconds` from now, where the store supports it."""
        ...

    def get(self, name: str) -> str | None:
        """The document's text; None where there is none."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """The names directly in this folder, documents and folders, sorted; none where there is no such folder."""
        ...

    def delete(self, name: str) -> None:
        """Delete a document, or a folder with all that is in it; fine where there is none."""
        ...


def local_path(location: str) -> Path | None:
    """The path on this machine's disk that the location names; None where it is another file system."""
    parts = urlsplit(location)
    if not parts.scheme:
        return Path(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None


def join(location: str, *names: str) -> str:
    """A location inside another one."""
    return "/".join([location.rstrip("/"), *names])


_CHANGED = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""What a deletion may raise if another process works in the same folder: what that created stays."""


class LocalState:
    """Documents on local disk: a temporary name, fsync, rename, fsync of the folder."""

    def __init__(self, base: Path) -> None:
        self._base = base

    @property
    def location(self) -> str:
        return str(self._base)

    def put(self, name: str, text: str) -> None:
        """Write the document; the folder it goes to is made where it is missing."""
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
        """Write the document only where there is none yet, by a hard link to a whole file; whether it was written."""
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
            f"{str(path.parent)!r} is on a file system without hard links ({error.strerror}), so that of two writers "
            "at the same moment both would win: name a location on a local disk, NFS or an object store"
        ) from error
    return True


def _sync(folder: Path) -> None:
    """A rename lasts only once its folder is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
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
    """Turn an `OSError` into an error that says what is safe to do next."""
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "fix it, then run the same range again")
        raise failure(action, str(path), f"{error.strerror}: {remedy}") from error


def failure(action: str, path: str, cause: str) -> StateError:
    """The error for a store that does not work, with what is safe to do next."""
    return StateError(
        f"cannot {action} {path!r}: {cause}. Nothing is lost: what is written down here is whole, and the next run "
        f"goes on from it. Do not delete the location: it knows what was written already"
    )
