"""The demo's directory: everything it writes is here, and replaces what an earlier demo left."""

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_orderedkafka.errors import SettingError
from airflow_provider_orderedkafka.tools.embedded import EmbeddedKafka

_MARK = ".orderedkafka-demo"


class Place:
    """The paths in a directory that this demo has for itself; `log` is that of Airflow and Spark."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kafka = directory / "kafka"
        self.airflow = directory / "airflow"
        self.log = directory / "demo.log"
        self.picture = directory / "before-and-after.png"

    @staticmethod
    def shown(path: Path) -> str:
        """A path to print: relative if it is below the working directory."""
        here = Path.cwd()
        return str(path.relative_to(here) if path.is_relative_to(here) else path)

    def note(self, text: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(text)

    @classmethod
    @contextlib.contextmanager
    def claim(cls, directory: Path) -> Iterator["Place"]:
        """Lock the directory for the `with` block, and delete what an earlier demo left.

        Refuses a directory with anything else in it, and one where a demo is running.
        """
        place = cls(directory.expanduser().absolute())
        with place._marked().open("w") as mark:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise SettingError(
                    f"a demo is running in {place.directory}: wait for it, or name another --directory"
                ) from error
            place._clear()
            yield place

    def _marked(self) -> Path:
        mark = self.directory / _MARK
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not mark.exists() and any(self.directory.iterdir()):
                raise SettingError(
                    f"--directory {str(self.directory)!r} holds something else than a demo, which would be deleted: "
                    "name a new directory"
                )
            mark.touch()
        except OSError as error:
            raise SettingError(f"--directory {str(self.directory)!r} cannot be written: {error.strerror}") from error
        return mark

    def _clear(self) -> None:
        kafka = EmbeddedKafka.open(self.kafka)
        if kafka is not None and kafka.running:
            raise SettingError(
                f"the broker of an earlier demo runs in {self.kafka}: stop it with `orderedkafka broker stop "
                f"--directory {self.shown(self.kafka)}`, or name another --directory"
            )
        for folder in (self.kafka, self.airflow):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.log, self.picture):
            file.unlink(missing_ok=True)
