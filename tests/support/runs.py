"""A small world in which runs of one load live: a store, a mirror, a log that grows, applications, persons."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import Ledger, Range, Report
from airflow_provider_orderedkafka.core.lifecycle import Action
from airflow_provider_orderedkafka.core.next_range import NothingToLoad
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.cuts import Floor, Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import LifecycleError
from airflow_provider_orderedkafka.job import Job
from airflow_provider_orderedkafka.loads import ledger_operations, loading, resolving
from airflow_provider_orderedkafka.loads.books import Books, First, Home, look
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.loads.mirror import Mirrored
from support.interleaving import Killed, touch
from support.keeping import DictStore, FolderStore, Values
from support.plain import plain_range, plain_report

LOAD = "orders"
PARTITION = TopicPartition("orders", 0)
TOPICS = {"orders": "topic-id"}


def place(offset: int) -> Place:
    return Place(Offsets({PARTITION: offset}), Floor())


FIRST = lifecycle.first_look(LOAD, instance="i", home_dag="d", place=place(0), topics=TOPICS, now=0)
"""The ledger of a load that was looked at once."""


def a_range(range_id: str, revision: int, start: int, end: int, load: str = LOAD) -> Range:
    return plain_range(
        id=range_id,
        load=load,
        reason="because",
        ledger_revision=revision,
        topics=TOPICS,
        start=place(start),
        end=place(end),
        planned_at=revision + 1,
        include_headers=True,
        cluster_id="cluster",
    )


def a_report(loaded: Range, attempt: int, *, complete: bool = True) -> Report:
    return plain_report(
        range=loaded,
        attempt=attempt,
        complete=complete,
        stop=loaded.end,
        batches=1,
        rows_read=loaded.offsets,
        rows_emitted=loaded.offsets,
        ended_at=1,
        error=None if complete else "killed",
    )


@dataclass
class MirrorByHand:
    """The consumer group: what was shown last. It refuses what the real one refuses."""

    shown: Mirrored | None = None

    def check(self, ledger: Ledger | None) -> None:
        touch("read the mirror")
        found = self.shown
        if found is None:
            return None if ledger is None else self.write(ledger)
        if ledger is None or found.instance != ledger.instance:
            raise LifecycleError("a mirror of another ledger")
        if found.revision > ledger.revision:
            raise LifecycleError("a mirror ahead of its ledger")
        return self.write(ledger) if found.revision < ledger.revision else None

    def write(self, ledger: Ledger) -> None:
        touch("write the mirror")
        rows, dead = ledger.rows_emitted, ledger.dead_letters
        self.shown = Mirrored(
            ledger.instance, ledger.revision, rows, ledger.place, dead, reached=ledger.reached, begun=ledger.begun
        )


@dataclass
class World:
    """Everything that outlives a process."""

    store: DictStore | FolderStore = field(default_factory=DictStore)
    mirror: MirrorByHand = field(default_factory=MirrorByHand)
    high: int = 0
    active: set[str] = field(default_factory=set)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    written: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What each checkpoint's application wrote, from and to: its replays leave out what is there."""
    bound: set[str] = field(default_factory=set)
    """The checkpoints where a range lies, or has lain."""
    events: list[tuple[int, str]] = field(default_factory=list)
    """The revision and the range of each event that went out."""
    planned: int = 0
    settle: Callable[[], None] = lambda: None

    def run(self, name: str) -> "Run":
        self.active.add(name)
        return Run(self, name)

    def bind(self, checkpoint: str, loaded: Range) -> None:
        touch("write the range")
        self.bound.add(checkpoint)

    @property
    def ledger_store(self) -> LedgerStore:
        return self.store.opened(LOAD, self.settle)

    @property
    def ledger(self) -> Ledger | None:
        """The ledger, without touching it."""
        return self.store.watched(LOAD).ledger()


class Skipped(Exception):  # noqa: N818 - a skip is no error
    """The step skipped."""


@dataclass
class Run:
    """One DAG run; its steps can be called in any order and as often as a person clears them."""

    world: World
    name: str
    machine: str = "here"

    @property
    def books(self) -> Books:
        return Books(
            store=self.world.ledger_store,
            run=self.name,
            is_active=lambda owner: owner in self.world.active,
            now=lambda: 1,
            report=self.world.reports.get,
            noted=lambda checkpoint: checkpoint in self.world.written,
            bound=lambda checkpoint: checkpoint in self.world.bound,
            bind=self.world.bind,
            machine=self.machine,
        )

    def resolve(self, job: Job | None = None) -> str:
        memory = self.world.memories.setdefault(self.name, Values())
        first = First(place(0), TOPICS)
        ledger = look(self.books, self.world.mirror, lambda _: first, Named(tuple(TOPICS)), home=Home("d"))
        resolved = resolving.resolve(self.books, memory, ledger, self._plan, job)
        if resolved.range is None:
            raise Skipped(resolved.reason)
        return resolved.range.id

    def load(self, range_id: str | None, *, die: bool = False, job: Job | None = None) -> None:
        """Write the range; `die` leaves it half written, without a complete report."""
        todo = loading.load(self.books, range_id, lambda loaded, times: f"{loaded.id}/{times}", job)
        if todo.action is Action.SKIP:
            raise Skipped(todo.reason)
        if todo.action is Action.REFUSE:
            raise LifecycleError(todo.reason)
        if todo.report is None:
            assert todo.range is not None
            assert todo.checkpoint is not None
            start, end = todo.range.start.offsets[PARTITION], todo.range.end.offsets[PARTITION]
            touch("write rows")
            self.world.written[todo.checkpoint] = (start, end)
            touch("write the report")
            self.world.reports[todo.checkpoint] = a_report(todo.range, todo.attempt, complete=not die)
            if die:
                raise Killed

    def commit(self, range_id: str | None) -> None:
        committed = loading.commit(self.books, range_id, self.world.mirror)
        if committed.action is Action.SKIP:
            raise Skipped(committed.reason)
        if committed.outcome is None:
            raise LifecycleError(committed.reason)
        touch("emit the event")
        self.world.events.append((committed.outcome.revision, committed.outcome.range_id))

    def whole(self) -> None:
        """The steps one after the other, as a scheduler runs them."""
        with suppress(Skipped):
            range_id = self.resolve()
            with suppress(Skipped):  # the commit runs all the same, where the resolve did not skip
                self.load(range_id)
            self.commit(range_id)
        self.end()

    def end(self) -> None:
        self.world.active.discard(self.name)

    def _plan(self, ledger: Ledger) -> Range | NothingToLoad:
        start = ledger.place.offsets[PARTITION]
        if self.world.high <= start:
            return NothingToLoad("nothing to load")
        self.world.planned += 1
        return a_range(f"range-{self.world.planned}", ledger.revision, start, self.world.high)


def a_person(world: World) -> ledger_operations.Person:
    return ledger_operations.Person("a person", "because", 1, lambda owner: owner in world.active)


def abandon(world: World) -> None:
    """A person gives the open range up."""
    store = world.ledger_store
    ledger_operations.abandon(store, a_person(world), ledger_operations.ledger_of(store))


def rewind(world: World, to: int) -> None:
    """A person moves the ledger."""
    store = world.ledger_store
    ledger_operations.rewind(store, world.mirror, a_person(world), ledger_operations.ledger_of(store), place(to))


def restore(world: World) -> None:
    """A person takes the ledger up again from its mirror."""
    ledger_operations.restore(world.ledger_store, world.mirror, a_person(world), world.mirror.shown, TOPICS)
