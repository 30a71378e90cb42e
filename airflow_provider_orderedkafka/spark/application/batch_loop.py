"""The batches of a range: where they end, and the steps for each, in an order that survives a kill at any moment.

`Plan` says where batches end, a window at a time; what earlier attempts stored comes first. For each batch of the plan
`BatchLoop` sees that the lease is held, decides how far the row limit lets it go, notes it, writes it, counts it. A
batch that was noted before and not counted is a replay: its writer leaves out what is there already. A batch that was
counted is done. A batch that fails is run again here, as a replay of itself, a few times.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from ...core.batches import (
    WINDOW,
    Allotment,
    Batch,
    Counts,
    Doubt,
    Note,
    Overtaken,
    Planned,
    Setup,
    Size,
    Tally,
    needs_sample,
    size_of,
    window,
)
from ...core.documents import Destination, Ends, Range
from ...core.lifecycle import way_out
from ...core.next_range import check_bad, rows_left
from ...core.order.cuts import Place
from ...core.order.planning import Planner
from ...errors import (
    CredentialsError,
    FencedError,
    OrderedKafkaError,
    SchemaChangedError,
    SettingError,
    StateError,
    TaskFailedError,
)
from ...kafka.lookup.survey import marked
from ...kafka.lookup.topics import check_ids
from ..lanes.frames import RangeFrames
from ..lanes.limit import RowLimit
from ..session.failures import classify_failure
from ..state.checkpoint import Checkpoint
from ..state.lease import Lease

if TYPE_CHECKING:
    from ...core.order.positions import TopicPartition
    from ...core.order.timeline import OwnIndex

_log = logging.getLogger(__name__)


class Output(Protocol):
    """Where rows go, as far as a replay needs to know."""

    @property
    def unprotected(self) -> str | None:
        """Why a replay cannot leave out what is there already; None where it can, or need not."""
        ...

    def ends(self) -> Ends: ...

    def may_double(self, batch: Batch) -> int | None:
        """How many rows of a batch can come twice, at most, if two attempts write it at once; None: any number."""
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
        """What cannot be known of the batch."""
        ...


class Writer(Protocol):
    """What writes a batch somewhere, and from which frames. `setup` is how, for this attempt and all that follow."""

    @property
    def setup(self) -> Setup: ...

    @property
    def frames(self) -> RangeFrames: ...

    @property
    def output(self) -> Output: ...

    @property
    def destination(self) -> Destination:
        """Where the rows go, for whoever looks for them afterwards."""
        ...

    def write(self, batch: Batch, note: Note, before: Any) -> Tally:
        """Write the batch but for what is there before; None where nothing is, as in a first try."""
        ...


class Plan:
    """The remaining batches of a range, at most `at_once` in a window."""

    def __init__(self, frames: RangeFrames, checkpoint: Checkpoint, at_once: int = WINDOW) -> None:
        self._frames = frames
        self._checkpoint = checkpoint
        self._at_once = at_once
        self._own: dict[TopicPartition, OwnIndex] = {}

    def window(self, number: int, start: Place) -> list[Planned]:
        """The next batches from this number and place; none at the range's end."""
        loaded = self._frames.loaded
        if start.offsets == loaded.end.offsets:
            return []
        size, begun = self._size, self._begun(number)
        ends = [] if begun is None else [begun]
        rest = loaded.between(begun or start, loaded.end)
        if rest.offsets:
            ends += Planner(self._frames.cluster.log, rest, self._own).ends(size.offsets, self._at_once - len(ends))
        return window(loaded, number, start, ends, size)

    def _begun(self, number: int) -> Place | None:
        """The end of a batch that an earlier attempt began."""
        begun = self._checkpoint.note(number) or self._checkpoint.allotment(number)
        return None if begun is None else begun.end

    def check_logs(self) -> None:
        """Raise if what is read is not what was planned any more."""
        self._frames.cluster.check_logs(self._frames.loaded)

    def marked(self, place: Place) -> Place:
        return marked(self._frames.cluster.kafka, place)

    @cached_property
    def _size(self) -> Size:
        """Determined before the first window; also checks that the topics are still the range's."""
        from ...kafka.read.slices import average_bytes

        loaded, cluster = self._frames.loaded, self._frames.cluster
        check_ids(cluster.topics().ids, loaded.topics)
        self.check_logs()
        average = average_bytes(loaded.span, self._frames.read) if needs_sample(loaded) else None
        return size_of(loaded, average, self._frames.slice_offsets)


TRIES = 3
"""How often a batch is written before its failure ends the attempt."""

OF_AN_ATTEMPT = (SchemaChangedError, CredentialsError)
"""What only another attempt mends: columns and credentials are those that this one began with."""


class Host(Protocol):
    """The attempt around the loop."""

    def ready(self) -> None:
        """Wait until batches can be written, while planning goes on."""
        ...

    def wait_for_tasks(self) -> None:
        """Wait until no task of the failed batch runs any more."""
        ...

    def spent(self) -> int | None:
        """Milliseconds of processor time so far, without what tasks have counted themselves; None if not known."""
        ...

    def tell(self, counts: Counts, planned: Planned) -> None: ...


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
    limit: RowLimit
    max_bad: int | None = None


Run = Callable[[Sequence[Planned], "BatchLoop"], None]
"""Hands the batches of a window to the loop's `take`, in whatever order; ends early where the loop is `over`."""


class BatchLoop:
    """Loads one batch after the other. `counts` are the latest; `error` is the one that ended it.

    `loading` is the batch that is being loaded, while there is one, and `writing` says that it is being written now.
    `counting` is how many seconds went into counting rows for the row limit. `unsure` is a batch whose write was begun,
    and of which it is not known that no newer attempt had come before its last row.
    """

    def __init__(self, work: Work, host: Host) -> None:
        self._work = work
        self._host = host
        self._early: dict[int, Planned] = {}
        self._off_plan = False
        self._stopped = False
        self._note: Note | None = None
        self.counts = work.checkpoint.counts()
        self.loading: Planned | None = None
        self.writing = False
        self.unsure: Batch | None = None
        self.counting = 0.0
        self.error: OrderedKafkaError | None = None
        self._spent: int | None = 0

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

    def leave_word(self) -> None:
        """Once no task runs any more: store what may be doubled, if a newer attempt had come before a write was over.

        That one has looked for what landed of the batch, perhaps before the last row came.
        """
        if self.unsure is None:
            return
        rows = self._work.writer.output.may_double(self.unsure)
        if rows != 0 and self._overtaken():
            self._work.checkpoint.put_overtaken(Overtaken(self._work.lease.attempt, self.unsure.number, rows))
        self.unsure = None

    def _overtaken(self) -> bool:
        try:
            self._work.lease.check()
        except FencedError as error:
            if error.by is not None:
                return True
        found = self._work.checkpoint.report()
        return found is not None and found.complete  # who succeeds deletes the leases

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
        tally = self._written(batch).plus(Tally(core_ms=self._spent_since()))
        self._work.plan.check_logs()
        self._work.lease.check()  # who lost it meanwhile does not know what others wrote of the batch
        self.unsure = None
        self.counts = self._counted(batch, tally)
        self._work.checkpoint.put_counts(self.counts)
        self._off_plan = batch.end != end
        self.loading = None
        self._host.tell(self.counts, planned)

    def _spent_since(self) -> int | None:
        """Processor time since the last batch was counted; that of the start is the first one's."""
        before, self._spent = self._spent, self._host.spent()
        return None if before is None or self._spent is None else self._spent - before

    def _limited(self, batch: Batch) -> Batch:
        left = self._left()
        if left is None:
            return batch
        allotment = self._work.checkpoint.allotment(batch.number)
        if allotment is None:
            began = monotonic()
            allotment = self._work.limit.allot(batch, left)
            self.counting += monotonic() - began
            if allotment is None:
                return batch
            allotment = self._work.checkpoint.kept(replace(allotment, code=self._work.writer.setup.code))
        self._check_code(allotment)
        return self._work.limit.cut(batch, allotment)

    def _check_code(self, allotment: Allotment) -> None:
        if allotment.code != self._work.writer.setup.code:
            raise SettingError(
                f"the row limit ends in batch {allotment.batch}, and the transform's code was changed after its rows "
                "were counted. Set the code back, and run the same range again; or "
                f"{way_out(self._work.loaded)} (by hand: start with a new checkpoint)"
            )

    def _written(self, batch: Batch) -> Tally:
        left = TRIES
        while True:
            try:
                note, before = self._noted(batch)
                self._work.lease.check()  # to look back may take a while, and what follows cannot be taken back
                self.writing, self.unsure = True, batch
                return self._work.writer.write(batch, note, before)
            except StateError:  # what cannot be noted is not written
                raise
            except Exception as error:  # noqa: BLE001 - raised again, classified, unless the batch is run again
                left -= 1
                self._prepare_a_retry(batch, error, left)
            finally:
                self.writing = False

    def _prepare_a_retry(self, batch: Batch, error: Exception, left: int) -> None:
        reason = classify_failure(error)
        self._work.lease.check()
        if left == 0 or not reason.retryable or isinstance(reason, OF_AN_ATTEMPT):
            raise reason from error
        self._host.wait_for_tasks()
        if self._stopped:
            raise TaskFailedError("the attempt was stopped before the batch was run again") from error
        _log.warning("batch %d failed and is run again: %s", batch.number, reason)

    def _noted(self, batch: Batch) -> tuple[Note, Before | None]:
        """The batch's note, stored by this attempt before its write and whenever it changes, and what landed before."""
        output, found = self._work.writer.output, self._work.checkpoint.note(batch.number)
        if found is None:
            note, before = output.noted(batch, self._work.lease.attempt, self._work.checkpoint.put_note), None
        else:
            note = output.joined(found)
            before = output.before(note)
            note = note.doubted(None if before is None else before.doubt)
        if note != self._note:
            self._work.checkpoint.put_note(note)
            self._note = note
        return note, before

    def _counted(self, batch: Batch, tally: Tally) -> Counts:
        before = self.counts
        total = tally if before is None else before.total.plus(tally)
        check_bad(total.dead_letters, self._work.max_bad)
        batches = 1 if before is None else before.batches + 1
        spent = rows_left(self._work.loaded.rows_left, total.rows) == 0
        end = self._work.plan.marked(batch.end) if spent else batch.end
        return Counts(batch.number, tally, total, batches, end, limit_reached=spent)

    def _left(self) -> int | None:
        return rows_left(self._work.loaded.rows_left, 0 if self.counts is None else self.counts.total.rows)
