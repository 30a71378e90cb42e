"""The documents beside the checkpoint of a range, as its attempts read and write them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from ...core.batches import Allotment, Counts, Note, Overtaken, Planned, Setup
from ...core.checkpoint_files import (
    AFTER_THE_RANGE,
    ALLOTMENTS,
    COUNTS,
    FAILURE,
    JOBS,
    LEASES,
    NOTES,
    OVERTAKEN,
    PLAN,
    RANGE,
    REPORT,
    SETUPS,
    SIGNS,
    overtaken_by,
    overtaken_file,
    proof_by,
    report_by,
)
from ...core.codec import Document
from ...core.documents import Range, Report
from ...core.lifecycle import way_out
from ...errors import SettingError, StateError
from ...job import Job
from ...storage import LocalState, State, join, local_path

Kind = TypeVar("Kind", bound=Document)


def open_state(location: str, session: Any = None) -> State:
    """The store at this location; any but a local one uses the file systems of a Spark session."""
    path = local_path(location)
    if path is not None:
        return LocalState(path.absolute())
    from .hadoop_state import HadoopState

    return HadoopState.of(location, session)


class Checkpoint:
    def __init__(self, state: State) -> None:
        self.state = state
        self._term = "000000"
        self._setup: Setup | None = None
        self._job: Job | None = None

    @property
    def location(self) -> str:
        return self.state.location

    def report(self) -> Report | None:
        return report_by(self.state.get)

    def proof(self, loaded: Range) -> Report | None:
        """The complete report of this range, if there is one; raises if it is another range's."""
        found = proof_by(self.state.get)
        if found is not None:
            self._check_bound(loaded, found.range_id, same=found.is_of(loaded))
        return found

    def put_report(self, report: Report) -> Report:
        """Store what came of an attempt; the report that holds, which is that of who succeeded first."""
        if not report.complete:
            self.state.put(FAILURE, report.to_text())
            return report
        if not self._created(REPORT, report) and proof_by(self.state.get) is None:
            self.state.put(REPORT, report.to_text())
        return proof_by(self.state.get) or report

    def put_overtaken(self, found: Overtaken) -> None:
        """Store what an attempt may have doubled beside all others, also where everything else is deleted by now."""
        number = len(overtaken_by(self.state.get)) + 1
        while not self._created(name := overtaken_file(number), found):
            if self.state.get(name) is None:
                return self.state.put(name, found.to_text())
            number += 1
        return None

    @property
    def bound(self) -> bool:
        return not set(SIGNS).isdisjoint(self.state.names())

    def bind(self, loaded: Range) -> None:
        """Write the range here, before an attempt is counted."""
        if RANGE not in self.state.names():
            self.state.put(RANGE, loaded.to_text())

    def take_up(self, loaded: Range, attempt: int | None = None) -> None:
        """Bind the checkpoint to this range; raises if it is bound to another one or has lost its notes."""
        found = self._get(RANGE, Range)  # before the report: who is done deletes it after writing that
        if found is not None:
            same = found.fingerprint == loaded.fingerprint  # what its job is about, `set_up` compares
            self._check_bound(loaded, found.id, same=same)
            return
        if (report := self.report()) is not None:
            self._check_bound(loaded, report.range_id, same=report.is_of(loaded))
            if report.complete:
                return
        if AFTER_THE_RANGE.intersection(self.state.names()):
            raise self._gone("has lost documents of the range: part of it was deleted")
        if (attempt or 1) > 1:
            raise self._gone(f"has nothing of the attempts before attempt {attempt}: is it another machine's disk?")
        self.state.put(RANGE, loaded.to_text())

    def loss(self) -> StateError | None:
        """The error for a checkpoint that was deleted during an attempt; None if it exists or cannot be read."""
        with suppress(StateError):
            if RANGE not in self.state.names():
                return self._gone("is gone while it is in use: someone deleted or unmounted it")
        return None

    def hold(self, term: str) -> None:
        """Write notes and counts as the holder of this lease, of those whose names are in their order."""
        self._term = term

    def set_up(self, setup: Setup, job: Job) -> None:
        """Store setup and job for the notes to come; raises if they do not fit those that batches were begun with."""
        self._setup, self._job = replace(setup, job=job.key), job
        if noted := _batches(self.state.names(NOTES)):
            self.note(noted[0])
        self._put(f"{SETUPS}/{self._setup.key}.json", self._setup)
        self._put(f"{JOBS}/{job.key}.json", job)

    def note(self, batch: int) -> Note | None:
        """The batch's note; raises if it was begun with settings that those of this attempt do not fit."""
        newest = max(self.state.names(f"{NOTES}/{batch}"), default=None)
        found = None if newest is None else self._get(f"{NOTES}/{batch}/{newest}", Note)
        if found is not None and self._setup is not None and found.setup != self._setup.key:
            self._check_settings(found)
        return found

    def put_note(self, note: Note) -> None:
        note = note if self._setup is None else replace(note, setup=self._setup.key)
        self._put(f"{NOTES}/{note.batch}/{self._term}.json", note)

    def allotment(self, batch: int) -> Allotment | None:
        return self._get(f"{ALLOTMENTS}/{batch}.json", Allotment)

    def kept(self, allotment: Allotment) -> Allotment:
        """Store the batch's allotment, once; the one that holds, which another attempt may have decided meanwhile."""
        if (lost := self.loss()) is not None:
            raise lost
        created = self.state.create(f"{ALLOTMENTS}/{allotment.batch}.json", allotment.to_text())
        return allotment if created else self.allotment(allotment.batch) or allotment

    def counts(self) -> Counts | None:
        """Those of the newest batch that is done: that whoever noted it last has counted."""
        for batch in _batches(self.state.names(COUNTS)):
            newest = max(self.state.names(f"{COUNTS}/{batch}"), default="")
            if newest and newest >= max(self.state.names(f"{NOTES}/{batch}"), default=""):
                return self._get(f"{COUNTS}/{batch}/{newest}", Counts)
        return None

    def put_counts(self, counts: Counts) -> None:
        self._put(f"{COUNTS}/{counts.batch}/{self._term}.json", counts)

    def plan(self, folder: str) -> str:
        return join(self.location, PLAN, folder)

    def put_plan(self, folder: str, window: Sequence[Planned]) -> None:
        """Store the batches of a window, one file each, ordered by name and modification time."""
        if (lost := self.loss()) is not None:
            raise lost
        latest = window[-1].batch
        for planned in window:
            name = f"{PLAN}/{folder}/{planned.batch:08d}.json"
            self.state.put(name, planned.to_text())
            self.state.date(name, planned.batch - latest)

    def forget_plan(self, folder: str) -> None:
        self.state.delete(f"{PLAN}/{folder}")

    def clean(self) -> None:
        """Delete all of the range's documents but the complete report, by which other attempts end well and clean up.

        And but for works, which those read first, and for what overtaken attempts may have doubled. What else lies in
        the folder is not of the range: it may be a load's own, by hand, with its ledger.

        killed or slow         what the next attempt finds
        before the range       the report; while the holder lives, it waits for the lease, and then finds the report
        before the lease       the same: a report that is complete is looked for before a range that is missing
        after the lease        the report
        """
        passing = AFTER_THE_RANGE - {REPORT, LEASES, OVERTAKEN}
        for name in (*sorted(passing.intersection(self.state.names())), RANGE, LEASES):
            self.state.delete(name)

    def _get(self, name: str, kind: type[Kind]) -> Kind | None:
        text = self.state.get(name)
        return None if text is None else kind.from_text(text)

    def _created(self, name: str, document: Document) -> bool:
        """Whether the document is now the first one there; where the store cannot tell, it is not known."""
        with suppress(SettingError):
            return self.state.create(name, document.to_text())
        return False

    def _put(self, name: str, document: Document) -> None:
        """Store a document only while `range.json` exists: a checkpoint that lost its notes must not look new."""
        if (lost := self.loss()) is not None:
            raise lost
        self.state.put(name, document.to_text())

    def _check_settings(self, note: Note) -> None:
        """Jobs are compared with the places that templates in them were rendered to: those are written to."""
        assert self._setup is not None
        assert self._job is not None
        begun = self._get(f"{SETUPS}/{note.setup}.json", Setup)
        job = None if begun is None else self._get(f"{JOBS}/{begun.job}.json", Job)
        if begun is None or job is None:
            raise self._gone(f"has lost the settings that batch {note.batch} began with: part of it was deleted")
        changes = (job.changes(replace(self._job, written="")), begun.changes(self._setup))
        if changed := "; ".join(filter(None, changes)):
            raise SettingError(
                f"the checkpoint {self.location!r} has batches that were begun with other settings: {changed}. Set "
                f"them back (a place for dead letters, or more output topics, may be added); or {self._otherwise()}"
            )

    def _otherwise(self) -> str:
        loaded, by_hand = self._get(RANGE, Range), "by hand: name a new --checkpoint, which writes its rows again"
        return by_hand if loaded is None else f"{way_out(loaded)} ({by_hand})"

    def _check_bound(self, loaded: Range, bound_to: str, *, same: bool) -> None:
        """One checkpoint holds one range, which never changes."""
        if bound_to != loaded.id:
            raise SettingError(
                f"the checkpoint {self.location!r} belongs to range {bound_to!r}, found range {loaded.id!r}; one "
                f"checkpoint holds one range: name a new --checkpoint for this range, or run range {bound_to!r} here"
            )
        if not same:
            raise SettingError(
                f"the checkpoint {self.location!r} belongs to another range that is called {loaded.id!r} too: either "
                "this one was changed, or another Airflow has the same checkpoint folder. Run the range as it is in "
                f"{join(self.location, RANGE)!r}, or name a new --checkpoint; in Airflow, name a checkpoint= that no "
                f"other Airflow has, and {way_out(loaded)}"
            )

    def _gone(self, what: str) -> StateError:
        return StateError(
            f"the checkpoint {self.location!r} {what}. Bring it back, then run the same range again. If it is lost, "
            f"running the range with a new checkpoint writes its rows again: move the output aside first, or accept "
            f"them twice"
        )


def _batches(names: Sequence[str]) -> list[int]:
    """The batches that have a folder of their own, the newest first."""
    return sorted(map(int, names), reverse=True)
