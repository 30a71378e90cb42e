"""The life of a range as a table, what a step does given its state and who asks; and the changes of ledgers and claims.

A range is *planned* once a document points at it, *submitted* once an attempt is recorded, *succeeded* once a complete
report is beside its checkpoint, and then *committed* or, by a person, *abandoned*. Nothing else changes its state: no
task state, no XCom.

Changes are functions from one document to the next. Only `committed`, `rewound` and `restored` move the place of a
ledger; each makes a new revision. A change that does not fit the document it is given raises `LifecycleError`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from ..errors import LifecycleError
from .documents import DOUBTS, OUTCOMES_KEPT, Claim, Ledger, Open, Outcome, Place, Range, Report
from .notation.spelling import counted
from .upserts import begun, reached

AIRFLOW = re.compile(r"[0-9a-f]{12}")
"""The id of an Airflow. It follows a run's name in a ledger that several may reach: `<dag id>/<run id>@<id>`."""

ADVISE_AFTER = 3
"""After this many failed attempts, errors list what a person can do."""


class RangeState(StrEnum):
    UNKNOWN = "unknown"
    PLANNED = "planned"
    SUBMITTED = "submitted"
    SUCCEEDED = "succeeded"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


class Step(StrEnum):
    RESOLVE = "resolve"
    LOAD = "load"
    COMMIT = "commit"


class Asker(StrEnum):
    """The run that asks, as seen from the range."""

    OWNER = "the owner"
    OTHER = "another run, while the owner is active"
    SUCCESSOR = "another run, when the owner has ended"
    STRANGER = "a run of another Airflow, which cannot know whether the owner has ended"


class Action(StrEnum):
    PLAN = "plan a new range"
    KEEP = "keep the same range"
    TAKE_OVER = "take the range over"
    START = "start the application"
    RESUME = "resume with the next attempt"
    GIVE_REPORT = "give the report, start nothing"
    MOVE = "move the ledger"
    EMIT_AGAIN = "emit the event again, move nothing"
    SKIP = "skip"
    REFUSE = "refuse"


_REFUSED = {(step, asker): Action.REFUSE for step in (Step.LOAD, Step.COMMIT) for asker in Asker}
_OPEN = {
    **_REFUSED,
    (Step.RESOLVE, Asker.OWNER): Action.KEEP,
    (Step.RESOLVE, Asker.OTHER): Action.SKIP,
    (Step.RESOLVE, Asker.SUCCESSOR): Action.TAKE_OVER,
    (Step.RESOLVE, Asker.STRANGER): Action.REFUSE,
}
_EMIT_AGAIN = {(step, Asker.OWNER): Action.EMIT_AGAIN for step in (Step.RESOLVE, Step.COMMIT)}

TABLE: dict[RangeState, dict[tuple[Step, Asker], Action]] = {
    RangeState.UNKNOWN: _REFUSED | {(Step.RESOLVE, asker): Action.PLAN for asker in Asker},
    RangeState.PLANNED: _OPEN | {(Step.LOAD, Asker.OWNER): Action.START},
    RangeState.SUBMITTED: _OPEN | {(Step.LOAD, Asker.OWNER): Action.RESUME},
    RangeState.SUCCEEDED: _OPEN
    | {(Step.LOAD, Asker.OWNER): Action.GIVE_REPORT, (Step.COMMIT, Asker.OWNER): Action.MOVE},
    RangeState.COMMITTED: {(step, asker): Action.SKIP for step in Step for asker in Asker} | _EMIT_AGAIN,
    RangeState.ABANDONED: _REFUSED | {(Step.RESOLVE, asker): Action.SKIP for asker in Asker},
}
"""What each step does. A resolve that remembers a range that ended skips it; any other plans a new one.

If the run that committed a range is cleared, its resolve passes, its load skips and its commit emits the event again,
which a kill may have prevented.
"""


@dataclass(frozen=True, slots=True)
class RangeStatus:
    range_id: str
    state: RangeState
    owner: str | None = None
    attempt: int = 0
    outcome: Outcome | None = None

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.state].format(self=self, outcome=self.outcome)


_SENTENCES = {
    RangeState.UNKNOWN: (
        f"range {{self.range_id!r}} is neither open nor among the last {OUTCOMES_KEPT} that ended, which are remembered"
    ),
    RangeState.PLANNED: "range {self.range_id!r} is planned by {self.owner}, and not started yet",
    RangeState.SUBMITTED: (
        "range {self.range_id!r} of {self.owner} was submitted, and attempt {self.attempt} did not complete"
    ),
    RangeState.SUCCEEDED: "range {self.range_id!r} of {self.owner} is loaded, not committed",
    RangeState.COMMITTED: "range {self.range_id!r} was committed at revision {outcome.revision} by {outcome.by}",
    RangeState.ABANDONED: "range {self.range_id!r} was abandoned by {outcome.by}: {outcome.reason}",
}


def status_of(book: Ledger | Claim, range_id: str, *, complete: bool = False) -> RangeStatus:
    """The status of a range in a ledger or a claim; `complete` means that its complete report was found."""
    if book.open is not None and book.open.range_id == range_id:
        begun = RangeState.SUBMITTED if book.open.attempt else RangeState.PLANNED
        state = RangeState.SUCCEEDED if complete else begun
        return RangeStatus(range_id, state, book.open.owner, book.open.attempt)
    outcome = outcome_of(book, range_id)
    if outcome is None:
        return RangeStatus(range_id, RangeState.UNKNOWN)
    state = RangeState.COMMITTED if outcome.kind == "committed" else RangeState.ABANDONED
    return RangeStatus(range_id, state, outcome.by, 0, outcome)


def outcome_of(book: Ledger | Claim, range_id: str) -> Outcome | None:
    ended = (each for each in reversed(book.outcomes) if each.kind in {"committed", "abandoned"})
    return next((each for each in ended if each.range_id == range_id), None)


def parted(owner: str) -> tuple[str, str]:
    """The run and the id of its Airflow; no id in Airflow's own store, from which a ledger may have moved."""
    run, _, airflow = owner.rpartition("@")
    return (run, airflow) if AIRFLOW.fullmatch(airflow) else (owner, "")


def is_same(owner: str, run: str) -> bool:
    (one, here), (other, there) = parted(owner), parted(run)
    return one == other and (here == there or "" in {here, there})


def asker(status: RangeStatus, run: str, *, owner_active: bool) -> Asker:
    if status.owner is None or is_same(status.owner, run):
        return Asker.OWNER
    here, there = parted(run)[1], parted(status.owner)[1]
    if here != there and "" not in {here, there}:
        return Asker.STRANGER
    return Asker.OTHER if owner_active else Asker.SUCCESSOR


def action(status: RangeStatus, step: Step, who: Asker) -> Action:
    return TABLE[status.state][step, who]


def of_another_airflow(found: RangeStatus, load: str) -> str:
    """Why a run of this Airflow does not go on with a range of another one."""
    airflow = parted(str(found.owner))[1]
    return (
        f"{found.sentence}. {found.owner} is a run of another Airflow with the same ledger, and this Airflow cannot "
        "ask whether that run has ended: give each Airflow a ledger= of its own, or give the load another name. If the "
        f"other Airflow is gone, set the Variable 'orderedkafka_airflow' here to {airflow!r}, to take over its open "
        f"ranges; or abandon a range of the ledger with `orderedkafka ledger abandon {load} --reason ...`"
    )


def way_out(loaded: Range) -> str:
    """What a person can do if a range cannot be finished as it is."""
    if loaded.kind == "interval":
        return (
            "load its offsets with a replay, which writes all their rows with the current settings; no other interval "
            "waits for this one"
        )
    if loaded.kind == "replay":
        return (
            "start another run of the replay, which writes all its rows with the current settings; no other run waits "
            "for this one"
        )
    return (
        f"abandon the range with `orderedkafka ledger abandon {loaded.load} --reason ...`: the next run loads its "
        "offsets again with the current settings, and rows that were written stay"
    )


Book = TypeVar("Book", bound=Ledger | Claim)


def first_look(
    load: str,
    *,
    instance: str,
    home_dag: str | None,
    place: Place,
    topics: Mapping[str, str],
    now: int,
    chosen: bool | None = None,
    home_file: str = "",
) -> Ledger:
    """Revision 0, with the start resolved, so that "latest" does not move any more."""
    return Ledger(
        load=load,
        instance=instance,
        revision=0,
        place=place,
        topics=topics,
        first_looked_at=now,
        last_run_at=None,
        rows_emitted=0,
        open=None,
        outcomes=(),
        home_dag=home_dag,
        chosen=chosen,
        home_file=home_file,
    )


def joined(ledger: Ledger, place: Place, topics: Mapping[str, str]) -> Ledger:
    """Add new topics or partitions at the load's start. Nothing moves, so the revision stays."""
    added = replace(place, floor=ledger.place.floor)
    return replace(ledger, place=ledger.place.updated(added), topics={**topics, **ledger.topics})


def opened(book: Book, range_id: str, owner: str) -> Book:
    """Open a range that is stored already."""
    if book.open is not None:
        raise LifecycleError(
            f"cannot open range {range_id!r}: {book.open.range_id!r} of {book.open.owner} is still open"
        )
    return replace(book, open=Open(range_id, owner))


def taken_over(book: Book, owner: str) -> Book:
    """Give the open range to another run; its attempts continue to count."""
    return replace(book, open=replace(open_of(book), owner=owner))


def submitted(book: Book, checkpoint: str, machine: str) -> Book:
    """Record the next attempt; the checkpoint stays where the first attempt put it."""
    opened = open_of(book)
    place = opened.checkpoint or checkpoint
    return replace(book, open=replace(opened, attempt=opened.attempt + 1, checkpoint=place, machine=machine))


def reopened(claim: Claim, owner: str) -> Claim:
    """Open a committed range again, without its checkpoint."""
    if not claim.outcomes:
        raise LifecycleError("no range was ever loaded for this interval or replay")
    return replace(claim, open=Open(claim.outcomes[-1].range_id, owner))


def committed(ledger: Ledger, loaded: Range, report: Report, run: str, now: int) -> Ledger:
    """Move to where the application stopped; the delay counts from the range's planning time."""
    check_proof(open_of(ledger), loaded, report)
    if loaded.ledger_revision != ledger.revision:
        raise LifecycleError(
            f"range {loaded.id!r} was planned at revision {loaded.ledger_revision}, but the ledger of {ledger.load!r} "
            f"is at {ledger.revision}: the ledger was moved in between"
        )
    revision = ledger.revision + 1
    outcome = _success(loaded, report, revision, run, now)
    return replace(
        ledger,
        revision=revision,
        place=ledger.place.updated(report.stop),
        reached=reached(ledger, loaded, report.stop),
        begun=begun(ledger, loaded),
        topics={**ledger.topics, **loaded.topics},
        last_run_at=loaded.planned_at,
        rows_emitted=ledger.rows_emitted + report.rows_emitted,
        dead_letters=ledger.dead_letters + report.dead_letters,
        open=None,
        outcomes=_kept(ledger, outcome),
    )


def recounted(ledger: Ledger, report: Report) -> Ledger:
    """With what the report of a committed range says now of rows that may be doubled, if that is more than it said."""
    now = report.may_be_doubled
    outcomes = tuple(
        replace(each, may_be_doubled=max(each.may_be_doubled, now)) if each.range_id == report.range_id else each
        for each in ledger.outcomes
    )
    return replace(ledger, outcomes=outcomes)


def claim_committed(claim: Claim, loaded: Range, report: Report, run: str, now: int) -> Claim:
    """Close an interval's or a replay's range; no ledger moves, so its revision is the one it was planned at.

    All outcomes are kept: their number names the folder in which the range is loaded again.
    """
    check_proof(open_of(claim), loaded, report)
    outcome = _success(loaded, report, loaded.ledger_revision, run, now)
    return replace(claim, open=None, outcomes=(*claim.outcomes, outcome))


def abandoned(book: Book, by: str, reason: str, now: int) -> Book:
    """Give up the open range; nothing moves, and what it wrote stays."""
    revision = book.revision if isinstance(book, Ledger) else 0
    outcome = Outcome("abandoned", open_of(book).range_id, revision, by, now, reason)
    return replace(book, open=None, outcomes=_kept(book, outcome))


def rewound(ledger: Ledger, place: Place, by: str, reason: str, now: int, *, topics: Mapping[str, str]) -> Ledger:
    """Move to another place, as a person asked; another DAG may continue from there, and other topics be named."""
    there = replace(ledger, topics={**ledger.topics, **topics})
    return _moved(there, place, Outcome("rewound", "", ledger.revision + 1, by, now, reason))


def restored(ledger: Ledger, by: str, reason: str, now: int) -> Ledger:
    """A ledger that was read back from its mirror."""
    return _moved(ledger, ledger.place, Outcome("restored", "", ledger.revision + 1, by, now, reason))


def _moved(ledger: Ledger, place: Place, outcome: Outcome) -> Ledger:
    if ledger.open is not None:
        raise LifecycleError(still_open(ledger.load, ledger.open, outcome.kind))
    after = replace(ledger, revision=outcome.revision, place=place, outcomes=_kept(ledger, outcome))
    return replace(after, home_dag=None, home_file="", chosen=None)


def still_open(load: str, opened: Open, moved: str) -> str:
    return (
        f"the ledger of {load!r} cannot be {moved}: range {opened.range_id!r} of {opened.owner} is open; let it "
        "finish, or abandon it first"
    )


def open_of(book: Ledger | Claim) -> Open:
    if book.open is None:
        raise LifecycleError("no range is open")
    return book.open


def check_proof(opened: Open, loaded: Range, report: Report) -> None:
    """Raise `LifecycleError` unless the report proves that the open range is loaded."""
    if not (opened.range_id == loaded.id == report.range_id):
        raise LifecycleError(
            f"the open range is {opened.range_id!r}, this run's range is {loaded.id!r}, and the report's is "
            f"{report.range_id!r}: all three must be the same"
        )
    if not report.is_of(loaded):
        raise LifecycleError(
            f"the report of range {loaded.id!r} belongs to another range of the same name, perhaps of another Airflow "
            "with the same checkpoint folder: it proves nothing here. Give each Airflow a checkpoint= of its own, and "
            f"{way_out(loaded)}"
        )
    if not report.complete:
        raise LifecycleError(
            f"the report of range {loaded.id!r} is not complete: attempt {report.attempt} stopped early"
        )
    for partition, stop in report.stop.offsets.items():
        if not loaded.start.offsets.get(partition, stop + 1) <= stop <= loaded.end.offsets[partition]:
            raise LifecycleError(
                f"the report of range {loaded.id!r} stops at {partition.at(stop)}, outside the range: "
                f"it is not a report of this range"
            )


def _success(loaded: Range, report: Report, revision: int, run: str, now: int) -> Outcome:
    doubts = {name: getattr(report, name) for name in DOUBTS}
    reason = loaded.reason
    if report.limit_reached:
        done = report.stop.offsets.since(loaded.start.offsets)
        rest = "; the rest waits" if loaded.kind == "incremental" else ""
        reason = f"the row limit was reached after {done:,} of {counted(loaded.offsets, 'offset')}{rest}"
    return Outcome(
        "committed",
        loaded.id,
        revision,
        run,
        now,
        reason,
        report.rows_emitted,
        report.late,
        **doubts,
        changes=report.changes,
    )


def _kept(book: Ledger | Claim, outcome: Outcome) -> tuple[Outcome, ...]:
    return (*book.outcomes, outcome)[-OUTCOMES_KEPT:]
