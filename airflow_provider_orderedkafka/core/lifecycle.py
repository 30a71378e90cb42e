"""The life of a range as a table: what a step does, given the state of the range and who asks.

A range is *planned* once a document points at it, *submitted* once an attempt is recorded, *succeeded* once a complete
report is beside its checkpoint, and then *committed* or, by a person, *abandoned*. Nothing else changes its state: no
task state, no XCom.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from .documents import Claim, Ledger, Open, Outcome, Range

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


_RESOLVE_OPEN = {
    (Step.RESOLVE, Asker.OWNER): Action.KEEP,
    (Step.RESOLVE, Asker.OTHER): Action.SKIP,
    (Step.RESOLVE, Asker.SUCCESSOR): Action.TAKE_OVER,
    (Step.RESOLVE, Asker.STRANGER): Action.REFUSE,
}
_ONLY_THE_OWNER = {
    (step, asker): Action.REFUSE for step in (Step.LOAD, Step.COMMIT) for asker in Asker if asker is not Asker.OWNER
}
_RESOLVE_ENDED = {(Step.RESOLVE, asker): Action.SKIP for asker in Asker}
_EMIT_AGAIN = {(step, Asker.OWNER): Action.EMIT_AGAIN for step in (Step.RESOLVE, Step.COMMIT)}

TABLE: dict[RangeState, dict[tuple[Step, Asker], Action]] = {
    RangeState.UNKNOWN: {(Step.RESOLVE, asker): Action.PLAN for asker in Asker}
    | {(step, asker): Action.REFUSE for step in (Step.LOAD, Step.COMMIT) for asker in Asker},
    RangeState.PLANNED: _RESOLVE_OPEN
    | _ONLY_THE_OWNER
    | {(Step.LOAD, Asker.OWNER): Action.START, (Step.COMMIT, Asker.OWNER): Action.REFUSE},
    RangeState.SUBMITTED: _RESOLVE_OPEN
    | _ONLY_THE_OWNER
    | {(Step.LOAD, Asker.OWNER): Action.RESUME, (Step.COMMIT, Asker.OWNER): Action.REFUSE},
    RangeState.SUCCEEDED: _RESOLVE_OPEN
    | _ONLY_THE_OWNER
    | {(Step.LOAD, Asker.OWNER): Action.GIVE_REPORT, (Step.COMMIT, Asker.OWNER): Action.MOVE},
    RangeState.COMMITTED: {(step, asker): Action.SKIP for step in Step for asker in Asker} | _EMIT_AGAIN,
    RangeState.ABANDONED: _RESOLVE_ENDED
    | {(step, asker): Action.REFUSE for step in (Step.LOAD, Step.COMMIT) for asker in Asker},
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
    RangeState.UNKNOWN: "no range {self.range_id!r} was ever opened",
    RangeState.PLANNED: "range {self.range_id!r} is planned by {self.owner}, nothing was started yet",
    RangeState.SUBMITTED: (
        "range {self.range_id!r} of {self.owner} was submitted, attempt {self.attempt} did not complete"
    ),
    RangeState.SUCCEEDED: "range {self.range_id!r} of {self.owner} is loaded and not yet committed",
    RangeState.COMMITTED: "range {self.range_id!r} was committed at revision {outcome.revision} by {outcome.by}",
    RangeState.ABANDONED: "range {self.range_id!r} was abandoned by {outcome.by}: {outcome.reason}",
}


def status_of(book: Ledger | Claim, range_id: str, *, complete: bool = False) -> RangeStatus:
    """The status of a range in a ledger or a claim; `complete` means that its complete report was found."""
    if book.open is not None and book.open.range_id == range_id:
        return _of_open(book.open, complete=complete)
    outcome = outcome_of(book, range_id)
    if outcome is None:
        return RangeStatus(range_id, RangeState.UNKNOWN)
    state = RangeState.COMMITTED if outcome.kind == "committed" else RangeState.ABANDONED
    return RangeStatus(range_id, state, outcome.by, 0, outcome)


def outcome_of(book: Ledger | Claim, range_id: str) -> Outcome | None:
    """The latest outcome of the range, if the book still has it."""
    ended = (each for each in reversed(book.outcomes) if each.kind in {"committed", "abandoned"})
    return next((each for each in ended if each.range_id == range_id), None)


def _of_open(opened: Open, *, complete: bool) -> RangeStatus:
    begun = RangeState.SUBMITTED if opened.attempt else RangeState.PLANNED
    state = RangeState.SUCCEEDED if complete else begun
    return RangeStatus(opened.range_id, state, opened.owner, opened.attempt)


def parted(owner: str) -> tuple[str, str]:
    """The run and the id of its Airflow; no id in what earlier releases wrote, and in Airflow's own store."""
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
        f"{found.sentence}. {found.owner} is a run of another Airflow with the same ledger, and whether it has ended "
        "cannot be asked here: give each Airflow a ledger= of its own, or the load another name. If that one is gone, "
        f"set the Variable 'orderedkafka_airflow' here to {airflow!r}, to go on with what it left open; or give up a "
        f"range of the ledger by `orderedkafka ledger abandon {load}`"
    )


def way_out(loaded: Range) -> str:
    """What a person can do if a range cannot be finished as it is."""
    if loaded.kind == "interval":
        return "load its offsets with a replay, which writes all of them with what is set now; no other interval waits"
    if loaded.kind == "replay":
        return (
            "start another run for it, which writes all of its rows with what is set now; no other run waits for this"
        )
    return (
        f"give the range up with `orderedkafka ledger abandon {loaded.load}`: the next run loads its offsets again, "
        "with what is set now, and what was written stays written"
    )
