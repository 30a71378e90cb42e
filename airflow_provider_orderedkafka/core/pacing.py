"""When a run starts: enough new offsets, or enough time; never with nothing to load. And the settings of ranges.

The time counts from the last run or from the oldest waiting record, as is asked. The first run has none before it:
without a minimum it waits for nothing, with one its delay counts from the first look. The verdict has a sentence that
says what decided, or what it waits for.

A watcher starts a run once for each revision of the ledger, then again with growing delays. It sees the ledger and
Kafka, but not the runs that it started. A run appears as the owner of an open range; one that ends before it opens a
range is never seen, so the watcher waits a little longer for it.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self

from .codec import Document
from .documents import Isolation, Ledger
from .notation.spelling import MILLISECONDS, counted, shown_duration
from .notation.starts import Start
from .notation.subscriptions import Matching, Subscription
from .order.cuts import OnDataLoss, Place, Span

MINUTE: Final = MILLISECONDS["m"]

DelayFrom = Literal["last_run", "oldest"]


class Since(NamedTuple):
    """When a load was first looked at, and when its last run was planned, if there was one."""

    first_look: int
    last_run: int | None


@dataclass(frozen=True, slots=True)
class Pace:
    """The minimum number of offsets, and the maximum delay in milliseconds, that start a run.

    Without a delay the minimum alone decides, and is 1 by default; without a minimum the delay alone.
    `delay_from` is what the delay counts from: the last run, or the oldest record that waits.
    """

    min_offsets: int | None = None
    max_delay: int | None = None
    delay_from: DelayFrom = "last_run"

    @property
    def enough(self) -> int | None:
        """The number of offsets that starts a run at any time; None if only the delay decides."""
        if self.min_offsets is None and self.max_delay is None:
            return 1
        return self.min_offsets

    def asks_for_the_oldest(self, offsets: int) -> bool:
        """Whether it depends on the oldest record if this many offsets wait."""
        by_age = self.max_delay is not None and self.delay_from == "oldest"
        return by_age and 0 < offsets < (self.min_offsets or offsets + 1)


@dataclass(frozen=True, slots=True)
class Situation:
    """Offsets before the cut, the times that a delay counts from, and now.

    `held_back` is how many offsets lie behind open transactions, where they cannot be read yet; `young` is how many lie
    after the cut. `oldest` is the order time of the first record among the offsets, where the pace asks for it; None if
    there is no record among them.
    """

    offsets: int
    since: Since
    now: int
    held_back: int = 0
    young: int = 0
    oldest: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to run, why, and when the delay runs out. `skip` means that waiting cannot help this run.

    `waiting` is how many offsets a run would load now, and `lag` how many are left in all; None if Kafka was not asked.
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
        return cls(offsets, None if place.floor.lowest < 0 else max(now - place.floor.lowest, 0))

    def __str__(self) -> str:
        if not self.offsets:
            return "nothing is left"
        age = "" if self.age is None else f", from the last {shown_duration(self.age)}"
        return f"{counted(self.offsets, 'offset')} left{age}"


def decide(pace: Pace, situation: Situation) -> Verdict:
    due = _due(pace, situation)
    run, reason = _decided(pace, situation, due)
    lag = situation.offsets + situation.young + situation.held_back
    return Verdict(run=run, reason=reason, due=due, waiting=situation.offsets, lag=lag)


def _due(pace: Pace, situation: Situation) -> int | None:
    """When the delay runs out; None where none is running."""
    if pace.max_delay is None or _at_once(pace, situation):
        return None
    if pace.delay_from == "oldest":
        return None if situation.oldest is None else situation.oldest + pace.max_delay
    first_look, last_run = situation.since
    begun = first_look if last_run is None else last_run
    return situation.now if begun > situation.now else begun + pace.max_delay  # a clock may be set back


def _at_once(pace: Pace, situation: Situation) -> bool:
    """Whether it is a first run that waits for nothing."""
    return pace.min_offsets is None and pace.delay_from == "last_run" and situation.since.last_run is None


def _decided(pace: Pace, situation: Situation, due: int | None) -> tuple[bool, str]:
    if situation.offsets == 0:
        return False, _nothing(situation, due)
    if pace.max_delay is not None and _at_once(pace, situation):
        return True, f"{_available(situation)}, and the first run does not wait for the delay"
    if pace.enough is not None and situation.offsets >= pace.enough:
        enough = "" if pace.min_offsets is None else f", {pace.min_offsets:,} are enough"
        return True, f"{_available(situation)}{enough}"
    if pace.max_delay is not None and due is not None and situation.now >= due:
        over = f"the delay of {shown_duration(pace.max_delay)} ran out"
        return True, f"{_available(situation, pace.min_offsets)}, and {over}"
    none = "no delay is set" if pace.max_delay is None else "no record among them"
    delay = none if due is None else _delay(situation, due)
    return False, f"{_available(situation, pace.min_offsets)}, {delay}" + _behind_transactions(situation)


def until(due: int, now: int) -> Verdict:
    left = due - now
    wait = f" in {shown_duration(left)}" if left > 0 else ""
    return Verdict(run=left <= 0, reason=f"it is time{wait}", due=due)


def _nothing(situation: Situation, due: int | None) -> str:
    young = f" yet, {counted(situation.young, 'offset')} too young" if situation.young else ""
    delay = "" if due is None else f", {_delay(situation, due)}"
    return f"nothing to load{young}{delay}" + _behind_transactions(situation)


def _available(situation: Situation, asked: int | None = None) -> str:
    if asked is not None:
        return f"{situation.offsets:,} of {asked:,} offsets are there"
    return f"{counted(situation.offsets, 'offset')} {'is' if situation.offsets == 1 else 'are'} there"


def _delay(situation: Situation, due: int) -> str:
    left = due - situation.now
    return f"the delay runs out in {shown_duration(left)}" if left > 0 else "the delay ran out"


def _behind_transactions(situation: Situation) -> str:
    if not situation.held_back:
        return ""
    return f"; open transactions hold {counted(situation.held_back, 'offset')} back"


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


LONGEST = 3_600_000
"""The longest wait between two starts for one revision, in milliseconds."""

UNSEEN = 5
"""How many times longer to wait for a run that was never seen than for one that has ended."""

NO_LEDGER = "before the first look"

FIRST = "0"
"""The revision that the first look writes."""


@dataclass(frozen=True, slots=True)
class WatcherState(Document):
    """The last run that a watcher started: for which revision, when, and how many it started for that revision.

    `owner` is the last owner of an open range that it saw at that revision.
    """

    revision: str
    fired_at: int
    times: int
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a watcher sees: the ledger, whether its open range has an active owner, whether the row limit is reached."""

    ledger: Ledger | None
    owner_active: bool
    limit_reached: bool
    now: int

    @property
    def revision(self) -> str:
        return NO_LEDGER if self.ledger is None else str(self.ledger.revision)

    @property
    def owner(self) -> str | None:
        return None if self.ledger is None or self.ledger.open is None else self.ledger.open.owner


def noticed(watch: WatcherState | None, seen: Seen) -> WatcherState | None:
    if watch is not None and (watch.revision, seen.revision) == (NO_LEDGER, FIRST):
        # The run that makes the first look has started, and opens its range in a moment.
        return WatcherState(FIRST, seen.now, watch.times, seen.owner or NO_LEDGER)
    if watch is None or watch.revision != seen.revision or seen.owner in {None, watch.owner}:
        return watch
    return WatcherState(watch.revision, watch.fired_at, watch.times, seen.owner)


def silent(watch: WatcherState | None, seen: Seen, backoff: int) -> str | None:
    """Why not to start a run now, whatever Kafka has; None if it depends on Kafka."""
    if seen.owner is not None and seen.owner_active:
        return f"owned by {seen.owner}"
    if seen.limit_reached:
        return "row limit reached"
    if watch is None or watch.revision != seen.revision:
        return None
    waited = seen.now - watch.fired_at
    if waited < 0 or waited >= patience(watch, seen, backoff):  # a clock may be set back
        return None
    return f"started a run {waited // 1000} s ago"


def patience(watch: WatcherState, seen: Seen, backoff: int) -> int:
    """How long to wait before another run is started for the same revision."""
    ended = seen.owner is not None or watch.owner is not None
    return int(min(backoff * (1 if ended else UNSEEN) * 2 ** min(watch.times - 1, 20), LONGEST))


def fired(watch: WatcherState | None, seen: Seen) -> WatcherState:
    times = watch.times if watch is not None and watch.revision == seen.revision else 0
    return WatcherState(seen.revision, seen.now, times + 1)


class WayOut(NamedTuple):
    """Phrases for errors about a log that has changed: who was reading it, and what a person can do."""

    who: str
    created_again: str
    records_gone: str
    log_parts: str
    left_out: str = ""


NEW_CHECKPOINT: Final = WayOut(
    "the stream",
    "to read the new one, start with a new checkpoint",
    "start again with a new checkpoint",
    "start again with a new checkpoint, and startingOffsets={to}",
    "to go on without it, start with a new checkpoint",
)


def rewinding(load: str, subscription: Subscription) -> WayOut:
    """The ways out of a load with a ledger in Airflow, which may drop a topic at any time."""
    left_out = ""
    if isinstance(subscription, Matching):
        pattern = subscription.pattern.replace("{", "{{").replace("}", "}}")
        left_out = (
            f"if it is gone for good, let the pattern leave it out: topics=re.compile(r'(?!{{topic}}$)(?:{pattern})')"
        )
    rewind = f"`orderedkafka ledger rewind {load} --topic {{topic}} --to"
    return WayOut(
        f"load {load!r}",
        f'begin in the new one with {rewind} earliest --reason "created again"`',
        f'go on from its end with {rewind} latest --reason "records are gone"`',
        f"load that, too, with {rewind} '{{to}}' --reason truncated`",
        left_out,
    )


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of ranges. Times and durations are in milliseconds, None means no bound.

    `end` is an explicit end, `end_time` and `grace` bound how young records may be, and `transaction_wait` is how long
    to wait for an open transaction.
    """

    load: str
    subscription: Subscription
    start: Start
    transaction_wait: int
    future_tolerance: int
    isolation: Isolation
    on_data_loss: OnDataLoss
    include_headers: bool
    pace: Pace
    end: Start | None = None
    end_time: int | None = None
    grace: int | None = None
    max_offsets: int | None = None
    batch_offsets: int | None = None
    row_limit: int | None = None
    way_out: WayOut = NEW_CHECKPOINT
