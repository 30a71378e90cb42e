"""What a table is to the writer of batches, and what a table format has to know to be one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_provider_orderedkafka.core.commits import History, Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a batch: how its range is called this time, the batch, and what the commit says of itself.

    `count` gives the number of rows, once they are written.
    """

    called: str
    batch: int
    name: str
    count: "Callable[[], int]"


class Table(Protocol):
    """A table to which a batch is added by one commit."""

    @property
    def identity(self) -> bool:
        """Whether its rows say where they came from."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether a batch is written in place of what is there of it, so that writing it again is always safe."""
        ...

    def prepare(self, rows: "DataFrame") -> None:
        """Make the table if it is missing; `SettingError` if such rows do not fit into it."""
        ...

    def seen(self) -> Seen | None:
        """The table as it is now, for the note; None where replays need none."""
        ...

    def history(self, batch: int, seen: Seen | None) -> History:
        """The commits that may be this batch's, from the newest back to what was seen, as far as they are known."""
        ...

    def append(self, rows: "DataFrame", write: Write) -> None:
        """Add the rows of a batch by one commit, which has the write's name."""
        ...

    def rows_of(self, range_id: str, batch: int, /) -> tuple[int, int]:
        """How many rows of a batch there are, and how many different ones, by their identities."""
        ...

    def forget(self, range_id: str) -> None:
        """Delete the rows of a range, which is about to be loaded again."""
        ...
