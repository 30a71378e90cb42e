"""The batch loop: the steps for each batch of a range, in an order that survives a kill at any moment.

For each batch of the plan: see that the lease is held, decide how far the row limit lets it go, note it, write it,
count it. A batch that was noted before and not counted is a replay: its writer leaves out what is there already. A
batch that was counted is done. A batch that fails is run again here, as a replay of itself, a few times.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_orderedkafka.core.batches import Batch, Counts, Note, Tally
from airflow_provider_orderedkafka.core.documents import Range
from airflow_provider_orderedkafka.core.limits import check_bad, rows_left
from airflow_provider_orderedkafka.core.order.cuts import Place
from airflow_provider_orderedkafka.core.plan import Planned
from airflow_provider_orderedkafka.errors import OrderedKafkaError, SchemaChangedError, StateError, TaskFailedError
from airflow_provider_orderedkafka.spark.application.plan import Plan
from airflow_provider_orderedkafka.spark.lanes.writer import Before, Limit, Writer
from airflow_provider_orderedkafka.spark.session.failures import classify_failure
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.spark.state.lease import Lease

TRIES = 3
"""How often a batch is written before its failure ends the attempt."""

_log = logging.getLogger(__name__)


class Host(Protocol):
    """The attempt around the loop."""

    def ready(self) -> None:
        """Wait until batches can be written, while planning goes on."""
        ...

    def before_a_retry(self) -> None:
        """Wait until no task of the failed batch runs any more."""
        ...

    def tell(self, counts: Counts, planned: Planned) -> None:
        """Called after each batch."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """What the loop works with: the range, its checkpoint, lease, plan, writer and row limit.

    `max_bad` is how many dead letters the range may have, where it is bounded.
    """

    loaded: Range
    checkpoint: Checkpoint
    lease: Lease
    plan: Plan
    writer: Writer
    limit: Limit
    max_bad: int | None = None


Run = Callable[[Sequence[Planned], "BatchLoop"], None]
"""Hands the batches of a window to the loop's `take`, in whatever order; ends early where the loop is `over`."""


class BatchLoop:
    """Loads one batch after the other. `counts` are the latest; `error` is the one that ended it.

    `loading` is the batch that is being loaded, while there is one.
    """

    def __init__(self, work: Work, host: Host) -> None:
        self._work = work
        self._host = host
        self._early: dict[int, Planned] = {}
        self._off_plan = False
        self._stopped = False
        self.counts = work.checkpoint.counts()
        self.loading: Planned | None = None
        self.error: OrderedKafkaError | None = None

    @property
    def over(self) -> bool:
        """Whether to load no more batches of this window."""
        return self.error is not None or self._stopped or self._off_plan or self._left() == 0

    def stop(self) -> None:
        """Start no further batch or retry; may be called from any thread."""
        self._stopped = True

    def run(self, run: Run) -> None:
        """Load batches to the range's end; stops at the first error and keeps it."""
        while not self.over and (window := self._work.plan.window(*self._next())):
            self._host.ready()
            self._early.clear()
            run(window, self)
            if not self.over and self._next()[0] <= window[-1].batch:
                raise StateError(
                    f"Spark's streaming query did not find batch {self._next()[0]} of the plan in "
                    f"{self._work.checkpoint.location!r}: was a file deleted there, or does Spark see another file "
                    f"system than this process? Fix that, then run the same range again"
                )
            self._off_plan = False

    def take(self, planned: Planned) -> None:
        """Load a batch of the window in its turn; one that arrives early waits."""
        self._early[planned.batch] = planned
        try:
            while not self.over and (following := self._early.pop(self._next()[0], None)):
                self._load(following)
        except Exception as error:  # noqa: BLE001 - kept: Spark would turn it into text
            self.error = classify_failure(error)

    def _next(self) -> tuple[int, Place]:
        """The number and start of the next batch; the limit may have ended the previous one early."""
        counts = self.counts
        return (1, self._work.loaded.start) if counts is None else (counts.batch + 1, counts.end)

    def _load(self, planned: Planned) -> None:
        self.loading = planned
        number, start = self._next()
        end = planned.end(self._work.loaded)
        self._work.lease.check()
        batch = self._limited(Batch(number, start, end))
        tally = self._written(batch)
        self.counts = self._counted(batch, tally)
        self._work.checkpoint.put_counts(self.counts)
        self._off_plan = batch.end != end
        self.loading = None
        self._host.tell(self.counts, planned)

    def _limited(self, batch: Batch) -> Batch:
        left = self._left()
        if left is None:
            return batch
        allotment = self._work.checkpoint.allotment(batch.number)
        if allotment is None:
            allotment = self._work.limit.allot(batch, left)
            if allotment is None:
                return batch
            self._work.checkpoint.put_allotment(allotment)
        return self._work.limit.cut(batch, allotment)

    def _written(self, batch: Batch) -> Tally:
        left = TRIES
        while True:
            try:
                note, before = self._noted(batch)
                self._work.lease.check()  # to look back may take a while, and what follows cannot be taken back
                return self._work.writer.write(batch, note, before)
            except StateError:  # what cannot be noted is not written
                raise
            except Exception as error:  # noqa: BLE001 - raised again, classified, unless the batch is run again
                left -= 1
                self._prepare_a_retry(batch, error, left)

    def _prepare_a_retry(self, batch: Batch, error: Exception, left: int) -> None:
        reason = classify_failure(error)
        self._work.lease.check()
        if left == 0 or not reason.retryable or isinstance(reason, SchemaChangedError):
            raise reason from error  # columns are settled once for an attempt
        self._host.before_a_retry()
        if self._stopped:
            raise TaskFailedError("the attempt was stopped before the batch was run again") from error
        _log.warning("batch %d failed and is run again: %s", batch.number, reason)

    def _noted(self, batch: Batch) -> tuple[Note, Before | None]:
        """The batch's note, stored before a write and whenever it changes, and what landed before."""
        output, found = self._work.writer.output, self._work.checkpoint.note(batch.number)
        if found is None:
            note, before = output.noted(batch, self._work.lease.attempt, self._work.checkpoint.put_note), None
        else:
            note = output.joined(found)
            before = output.before(note)
            note = note.doubted(None if before is None else before.doubt)
        if note != found:
            self._work.checkpoint.put_note(note)
        return note, before

    def _counted(self, batch: Batch, tally: Tally) -> Counts:
        before = self.counts
        total = tally if before is None else before.total.plus(tally)
        check_bad(total.dead_letters, self._work.max_bad)
        batches = 1 if before is None else before.batches + 1
        spent = rows_left(self._work.loaded.rows_left, total.rows) == 0
        return Counts(batch.number, tally, total, batches, batch.end, limit_spent=spent)

    def _left(self) -> int | None:
        return rows_left(self._work.loaded.rows_left, 0 if self.counts is None else self.counts.total.rows)
