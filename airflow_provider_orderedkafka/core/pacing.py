"""When a run starts: enough new offsets, or enough time since the last run; never with nothing to load.

The verdict has a sentence that says what decided, or what it waits for.
"""

from dataclasses import dataclass
from typing import Final, Self

from airflow_provider_orderedkafka.core.notation.durations import MILLISECONDS, shown_duration
from airflow_provider_orderedkafka.core.order.cuts import Place, Span

MINUTE: Final = MILLISECONDS["m"]


@dataclass(frozen=True, slots=True)
class Pace:
    """The minimum number of offsets, and the maximum delay in milliseconds, that start a run.

    Without a delay the minimum alone decides, and is 1 unless said; without a minimum the delay alone.
    """

    min_offsets: int | None = None
    max_delay: int | None = None

    @property
    def enough(self) -> int | None:
        """The number of offsets that starts a run at any time; None if only the delay decides."""
        if self.min_offsets is None and self.max_delay is None:
            return 1
        return self.min_offsets


@dataclass(frozen=True, slots=True)
class Situation:
    """Offsets before the cut, the time that the delay counts from, and now.

    `held_back` is how many offsets lie behind open transactions, where they cannot be read yet; `young` is how many lie
    after the cut.
    """

    offsets: int
    since: int
    now: int
    held_back: int = 0
    young: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to run, why, and when the delay runs out. `skip` means that waiting cannot help this run.

    `waiting` is how many offsets a run would load now, and `lag` how many are not loaded yet; None if nobody looked.
    `span` is from where to where each partition can be read.
    """

    run: bool
    reason: str
    due: int | None = None
    skip: bool = False
    waiting: int | None = None
    lag: int | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """How many offsets are not loaded yet, and how old the first of them is at most, in milliseconds, if known."""

    offsets: int
    age: int | None

    @classmethod
    def of(cls, place: Place, offsets: int, now: int) -> Self:
        """The lag behind a place: what follows there is no older than its floor."""
        if offsets == 0:
            return cls(0, 0)
        return cls(offsets, None if place.floor.time < 0 else max(now - place.floor.time, 0))

    def __str__(self) -> str:
        if not self.offsets:
            return "nothing is left"
        age = "" if self.age is None else f", from the last {shown_duration(self.age)}"
        return f"{_count(self.offsets)} left{age}"


def decide(pace: Pace, situation: Situation) -> Verdict:
    due = None if pace.max_delay is None else situation.since + pace.max_delay
    run, reason = _decided(pace, situation, due)
    lag = situation.offsets + situation.young + situation.held_back
    return Verdict(run=run, reason=reason, due=due, waiting=situation.offsets, lag=lag)


def _decided(pace: Pace, situation: Situation, due: int | None) -> tuple[bool, str]:
    if situation.offsets == 0:
        return False, _nothing(situation, due)
    if pace.enough is not None and situation.offsets >= pace.enough:
        return True, f"{situation.offsets:,} of {pace.enough:,} offsets are there"
    if pace.max_delay is not None and due is not None and situation.now >= due:
        return True, _late(pace, situation, pace.max_delay)
    return False, _held(pace, situation, due)


def until(due: int, now: int) -> Verdict:
    left = due - now
    wait = f" in {shown_duration(left)}" if left > 0 else ""
    return Verdict(run=left <= 0, reason=f"it is time{wait}", due=due)


def _nothing(situation: Situation, due: int | None) -> str:
    young = f" yet, {_count(situation.young)} too young" if situation.young else ""
    delay = "" if due is None else f", {_delay(situation, due)}"
    return f"nothing to load{young}{delay}" + _behind_transactions(situation)


def _late(pace: Pace, situation: Situation, delay: int) -> str:
    asked = "" if pace.enough is None else f" of {pace.enough:,}"
    return f"{situation.offsets:,}{asked} offsets are there, and the delay of {shown_duration(delay)} ran out"


def _held(pace: Pace, situation: Situation, due: int | None) -> str:
    asked = "" if pace.enough is None else f" of {pace.enough:,}"
    delay = "no delay is set" if due is None else _delay(situation, due)
    return f"{situation.offsets:,}{asked} offsets are there, {delay}" + _behind_transactions(situation)


def _delay(situation: Situation, due: int) -> str:
    left = due - situation.now
    return f"the delay runs out in {shown_duration(left)}" if left > 0 else "the delay ran out"


def _behind_transactions(situation: Situation) -> str:
    if not situation.held_back:
        return ""
    return f"; open transactions hold {_count(situation.held_back)} back"


def _count(offsets: int) -> str:
    return f"{offsets:,} offset" + ("" if offsets == 1 else "s")


class Remarks:
    """What to say of something that is looked at often: what is new, and that once a minute at most."""

    def __init__(self) -> None:
        self._said: str | None = None
        self._next = 0

    def new(self, remark: str, now: int) -> bool:
        """Whether to say it, at this moment in milliseconds."""
        if remark == self._said or now < self._next:
            return False
        self._said, self._next = remark, now + MINUTE
        return True
