"""What a lane is to the batch loop: what writes a batch, where to, and how far the row limit lets it go."""

from collections.abc import Callable
from typing import Any, Protocol

from airflow_provider_orderedkafka.core.batches import Allotment, Batch, Doubt, Note, Setup, Tally
from airflow_provider_orderedkafka.spark.lanes.frames import RangeFrames


class Output(Protocol):
    """Where rows go, as far as a replay needs to know."""

    @property
    def unprotected(self) -> str | None:
        """Why a replay cannot leave out what is there already; None where it can, or need not."""
        ...

    def noted(self, batch: Batch, attempt: int, keep: Callable[[Note], None]) -> Note:
        """The note of a batch that is about to be written for the first time; `keep` stores one that comes earlier."""
        ...

    def joined(self, note: Note) -> Note:
        """The note of a batch that an earlier attempt has begun, once this one takes part."""
        ...

    def before(self, note: Note) -> "Before | None":
        """What earlier attempts left of a noted batch; None where it does not matter."""
        ...


class Before(Protocol):
    """What earlier attempts left of a batch, as far as the loop is concerned."""

    @property
    def doubt(self) -> Doubt | None:
        """What of it nobody can know."""
        ...


class Writer(Protocol):
    """What writes a batch somewhere, and from which frames. `setup` is how, for this attempt and all that follow."""

    @property
    def setup(self) -> Setup: ...

    @property
    def frames(self) -> RangeFrames:
        """The range as DataFrames of records, and what becomes of them."""
        ...

    @property
    def output(self) -> Output: ...

    def write(self, batch: Batch, note: Note, before: Any) -> Tally:
        """Write the batch but for what is there before; None where nothing is, as in a first try."""
        ...


class Limit(Protocol):
    """The row limit, as the loop asks for it."""

    def allot(self, batch: Batch, left: int) -> Allotment | None:
        """How far the batch goes with so many rows left; None where all of it passes."""
        ...

    def cut(self, batch: Batch, allotment: Allotment) -> Batch:
        """The batch, as far as the allotment lets it go."""
        ...
