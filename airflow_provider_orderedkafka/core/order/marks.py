"""Which log it was: what a place keeps of the last record before each of its offsets, to be compared at the next look.

A log that an unclean election truncated, or that came back from a backup, may have grown past where a load stands: its
offsets tell nothing then. The record before them does. No leader truncates its own log, and each election raises the
epoch: while it is the same, so is the log.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple, Self

from .positions import TopicPartition

SHOWN = 3

NOT_KNOWN = -1
"""The epoch of leaders that do not say it."""


class LogEnd(NamedTuple):
    """Where a log ends now, and the epoch of its leader."""

    offset: int
    epoch: int


class Seen(NamedTuple):
    """A record that was looked at: the epoch that it was written in, and a hash of that, its time, key and value."""

    offset: int
    epoch: int
    digest: str


def digest(epoch: int, timestamp: int, key: bytes | None, value: bytes | None) -> str:
    found = blake2b(f"{epoch} {timestamp} {-1 if key is None else len(key)} {value is None} ".encode(), digest_size=6)
    found.update(key or b"")
    found.update(value or b"")
    return found.hexdigest()


class Mark(NamedTuple):
    """A record that a log had, and the epoch of the leader that was asked for it; no hash where none could be read."""

    epoch: int
    offset: int
    digest: str

    def __str__(self) -> str:
        return f"{self.epoch}:{self.offset}:{self.digest}"

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse what it prints as; `ValueError` for anything else."""
        try:
            epoch, offset, digest = text.split(":")
            return cls(int(epoch), int(offset), digest)
        except ValueError as error:
            raise ValueError(f"a mark is '<epoch>:<offset>:<hash>', found {text!r}") from error


class Compared(NamedTuple):
    """What became of the marks of a place: where logs have parted, at the latest, and which of them are not known."""

    parted: Mapping[TopicPartition, int] = {}
    unknown: tuple[TopicPartition, ...] = ()

    @property
    def remark(self) -> str:
        """For people; empty where all is known."""
        few, more = self.unknown[:SHOWN], len(self.unknown) - SHOWN
        where = ", ".join(map(str, few)) + (f" and {more:,} more" if more > 0 else "")
        return (
            f"whether the log is still the same is not known for {where}: there was an election, and the record before "
            "that offset was deleted or compacted away"
            if few
            else ""
        )


SAME = Compared()
