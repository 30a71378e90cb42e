"""The batch loop: what is done with each batch of a range, in which order, so that a kill at any moment can be mended.

For each batch: see that the lease is held, decide how far the row limit lets it go, note it, write it, count it. A
batch that was noted before and not counted is a replay: its writer leaves out what is there already. A batch that
was counted is done. A batch that fails is run again here, as a replay of itself, a few times.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_orderedkafka.core.batches import Allotment, Counts, Doubt, Note, Setup, Surplus, Tally
from airflow_provider_orderedkafka.core.cuts import Place
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.limits import rows_left
from airflow_provider_orderedkafka.errors import StateError
from airflow_provider_orderedkafka.spark.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.failures import understood
from airflow_provider_orderedkafka.spark.lease import Lease

if TYPE_CHECKING:
    from airflow_provider_orderedkafka.errors import OrderedKafkaError
    from airflow_provider_orderedkafka.spark.frames import RangeFrames

TRIES = 3
"""How often a batch is written before its failure ends the attempt."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as it is to be written: where it begins and ends.

    Where the row limit ends inside, `end` is moved there, and of the `surplus` record only the first rows pass.
    """

    number: int
    start: Place
    end: Place
    surplus: Surplus | None = None


class Output(Protocol):
    """Where rows go, as far as a replay needs to know."""

    @property
    def unprotected(self) -> str | None:
        """Why a replay cannot leave out what is there already; None where it can, or need not."""
        ...

    def noted(self, batch: Batch, attempt: int) -> Note:
        """The note of a batch that is about to be written for the first time."""
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
    def setup(self) -> Setup:
        """How the batches are written."""
        ...

    @property
    def frames(self) -> "RangeFrames":
        """The range as DataFrames of records, and what becomes of them."""
        ...

    @property
    def output(self) -> Output:
        """Where to."""
        ...

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


@dataclass(frozen=True, slots=True)
class Parts:
    """What the loop works with."""

    loaded: Range
    checkpoint: Checkpoint
    lease: Lease
    writer: Writer
    limit: Limit
    ready: Callable[[], None]
    between_tries: Callable[[], None]
    tell: Callable[[Counts], None]


class BatchLoop:
    """Takes one batch after the other. `counts` are the newest; `error` is what ended it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.counts = parts.checkpoint.counts()
        self.error: OrderedKafkaError | None = None

    @property
    def done(self) -> bool:
        """Whether no row may follow."""
        return self._left() == 0

    def next(self) -> tuple[int, Place]:
        """The number of the next batch, and where it begins: the limit may have ended the one before it early."""
        counts = self.counts
        return (1, self._parts.loaded.start) if counts is None else (counts.batch + 1, counts.end)

    def take(self, batch: Batch) -> None:
        """Write one batch, where it is not done; an error is kept, and ends the attempt."""
        try:
            if not self.done and (self.counts is None or batch.number > self.counts.batch):
                self._run(batch)
        except Exception as error:  # whatever it is, Spark would turn it into text
            self.error = understood(error)
            raise

    def _run(self, batch: Batch) -> None:
        self._parts.ready()
        self._parts.lease.check()
        batch = self._limited(batch)
        tally = self._written(batch)
        self.counts = self._counted(batch, tally)
        self._parts.checkpoint.put_counts(self.counts)
        self._parts.tell(self.counts)

    def _limited(self, batch: Batch) -> Batch:
        left = self._left()
        if left is None:
            return batch
        allotment = self._parts.checkpoint.allotment(batch.number)
        if allotment is None:
            allotment = self._parts.limit.allot(batch, left)
            if allotment is None:
                return batch
            self._parts.checkpoint.put_allotment(allotment)
        return self._parts.limit.cut(batch, allotment)

    def _written(self, batch: Batch) -> Tally:
        for tries in range(1, TRIES + 1):
            try:
                return self._parts.writer.write(batch, *self._noted(batch))
            except StateError:  # what cannot be noted is not written
                raise
            except Exception as error:
                reason = understood(error)
                self._parts.lease.check()
                if tries == TRIES or not reason.retryable:
                    raise reason from error
                self._parts.between_tries()
                _log.warning("batch %d failed and is run again: %s", batch.number, reason)
        raise AssertionError("the last try returns or raises")

    def _noted(self, batch: Batch) -> tuple[Note, Before | None]:
        """The batch's note and what is there before: written down before a write, and when something is added to it."""
        output, found = self._parts.writer.output, self._parts.checkpoint.note(batch.number)
        if found is None:
            note, before = output.noted(batch, self._parts.lease.attempt), None
        else:
            note = output.joined(found)
            before = output.before(note)
            note = note.doubted(None if before is None else before.doubt)
        if note != found:
            self._parts.checkpoint.put_note(note)
        return note, before

    def _counted(self, batch: Batch, tally: Tally) -> Counts:
        before = self.counts
        total = tally if before is None else before.total.plus(tally)
        batches = 1 if before is None else before.batches + 1
        spent = rows_left(self._parts.loaded.rows_left, total.rows) == 0
        return Counts(batch.number, tally, total, batches, batch.end, limit_spent=spent)

    def _left(self) -> int | None:
        return rows_left(self._parts.loaded.rows_left, 0 if self.counts is None else self.counts.total.rows)
