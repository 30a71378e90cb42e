"""A small world in which runs of one load live: a store, a log that grows, applications, kills."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_orderedkafka import steps
from airflow_provider_orderedkafka.core import moves
from airflow_provider_orderedkafka.core.cuts import Floor, Place
from airflow_provider_orderedkafka.core.documents import Ledger, Range, Report
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.ledger import LedgerStore

if TYPE_CHECKING:
    from collections.abc import Callable

LOAD = "orders"
PARTITION = TopicPartition("orders", 0)
TOPICS = {"orders": "topic-id"}


class Killed(BaseException):
    """The process is gone: nobody catches it."""


class DictStore:
    """The port by hand: values under keys. `before` is called before each write, and may kill or wait."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.before: Callable[[str], None] = lambda _: None

    def get(self, key: str) -> Any:
        self.before(f"get {key}")
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.before(f"set {key}")
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.before(f"delete {key}")
        self.values.pop(key, None)


def place(offset: int) -> Place:
    return Place(Offsets({PARTITION: offset}), Floor())


def a_range(range_id: str, revision: int, start: int, end: int, load: str = LOAD) -> Range:
    return Range(
        id=range_id,
        load=load,
        kind="incremental",
        reason="because",
        ledger_revision=revision,
        topics=TOPICS,
        start=place(start),
        end=place(end),
        planned_at=revision + 1,
        future_tolerance=0,
        on_data_loss="fail",
        include_headers=True,
        isolation="read_committed",
        cluster_id="cluster",
        batch_offsets=None,
        rows_left=None,
        digest="",
    )


def a_report(loaded: Range, attempt: int, *, complete: bool = True) -> Report:
    return Report(
        range_id=loaded.id,
        attempt=attempt,
        complete=complete,
        limit_spent=False,
        stop=loaded.end,
        batches=1,
        rows_read=loaded.offsets,
        rows_emitted=loaded.offsets,
        late=0,
        replayed=0,
        lost=0,
        dead_letters=0,
        may_be_doubled=0,
        bytes_read=0,
        started_at=0,
        ended_at=1,
        error=None if complete else "killed",
    )


@dataclass
class MirrorByHand:
    """The consumer group: what was shown last."""

    shown: list[int] = field(default_factory=list)

    def check(self, ledger: Ledger | None) -> None:
        if ledger is None:
            assert not self.shown, "a mirror without a ledger"
            return
        assert not self.shown or self.shown[-1] <= ledger.revision, "a mirror ahead of its ledger"
        if not self.shown or self.shown[-1] < ledger.revision:
            self.shown.append(ledger.revision)

    def write(self, ledger: Ledger) -> None:
        self.shown.append(ledger.revision)


@dataclass
class World:
    """Everything that outlives a process."""

    store: DictStore = field(default_factory=DictStore)
    mirror: MirrorByHand = field(default_factory=MirrorByHand)
    high: int = 0
    active: set[str] = field(default_factory=set)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    written: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What each checkpoint's application wrote, from and to: its replays leave out what is there."""
    events: list[int] = field(default_factory=list)
    planned: int = 0

    def run(self, name: str) -> "Run":
        self.active.add(name)
        return Run(self, name)

    @property
    def ledger(self) -> Ledger | None:
        return LedgerStore(LOAD, DictView(self.store.values)).ledger()


@dataclass(frozen=True)
class DictView:
    """Looks at a store without being killed."""

    values: dict[str, Any]

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


class Skipped(Exception):  # noqa: N818 - a skip is no error
    """The step skipped."""


@dataclass
class Run:
    """One DAG run; its steps can be called in any order and as often as a person clears them."""

    world: World
    name: str

    @property
    def books(self) -> steps.Books:
        return steps.Books(
            store=LedgerStore(LOAD, self.world.store),
            run=self.name,
            is_active=lambda owner: owner in self.world.active,
            now=lambda: 1,
            report=self.world.reports.get,
        )

    def resolve(self) -> str:
        memory = _Memory(self.world.memories.setdefault(self.name, {}))
        ledger = steps.look(self.books, self.world.mirror, lambda: steps.First(place(0), TOPICS), home="d")
        resolved = steps.resolve(self.books, memory, ledger, self._plan)
        if resolved.range is None:
            raise Skipped(resolved.reason)
        return resolved.range.id

    def load(self, range_id: str | None, *, die: bool = False) -> None:
        """Write the range; `die` leaves it half written, without a complete report."""
        todo = steps.load(self.books, range_id, lambda loaded, times: f"{loaded.id}/{times}")
        if todo.action is Action.SKIP:
            raise Skipped(todo.reason)
        if todo.action is Action.REFUSE:
            raise LifecycleError(todo.reason)
        if todo.report is None:
            assert todo.range is not None
            assert todo.checkpoint is not None
            start, end = todo.range.start.offsets[PARTITION], todo.range.end.offsets[PARTITION]
            self.world.written[todo.checkpoint] = (start, end)
            self.world.reports[todo.checkpoint] = a_report(todo.range, todo.attempt, complete=not die)
            if die:
                raise Killed

    def commit(self, range_id: str | None) -> None:
        committed = steps.commit(self.books, range_id, self.world.mirror)
        if committed.action is Action.SKIP:
            raise Skipped(committed.reason)
        if committed.outcome is None:
            raise LifecycleError(committed.reason)
        self.world.events.append(committed.outcome.revision)

    def whole(self) -> None:
        """The steps one after the other, as a scheduler runs them."""
        try:
            range_id = self.resolve()
            self.load(range_id)
            self.commit(range_id)
        except Skipped:
            pass
        self.end()

    def end(self) -> None:
        self.world.active.discard(self.name)

    def _plan(self, ledger: Ledger) -> Range:
        start = ledger.place.offsets[PARTITION]
        if self.world.high <= start:
            raise steps.NothingToLoad("nothing to load")
        self.world.planned += 1
        return a_range(f"range-{self.world.planned}", ledger.revision, start, self.world.high)


@dataclass(frozen=True)
class _Memory:
    values: dict[str, Any]

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


def abandon(world: World, reason: str = "because") -> None:
    """A person gives the open range up."""
    store = LedgerStore(LOAD, world.store)
    ledger = store.ledger()
    assert ledger is not None
    assert ledger.open is not None
    if ledger.open.owner in world.active:
        raise LifecycleError("its owner is active")
    store.save(moves.abandoned(ledger, "a person", reason, 1), ledger)


def rewind(world: World, to: int) -> None:
    """A person moves the ledger."""
    store = LedgerStore(LOAD, world.store)
    ledger = store.ledger()
    assert ledger is not None
    store.save(moves.rewound(ledger, replace(place(to)), "a person", "because", 1), ledger)
    after = store.ledger()
    assert after is not None
    world.mirror.write(after)
