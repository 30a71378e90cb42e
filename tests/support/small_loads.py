"""Loads by hand as the models see them: their documents, and what is known of each from outside."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_orderedkafka.core.batches import Surplus
from airflow_provider_orderedkafka.core.documents import Ledger, Range, Report
from airflow_provider_orderedkafka.core.order.cuts import Place
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.spark.application import by_hand
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from support.memory_state import MemoryState


class Done(NamedTuple):
    """The last write of a batch that came to its end."""

    range_id: str
    start: Offsets
    end: Offsets
    write: int
    surplus: Surplus | None


@dataclass
class Load:
    """One load by hand: its documents, and what is known of it from outside.

    `first` is where the logs started when it was first looked at. `taken` are the records that were gone before their
    batch was counted, `expired` the offsets that retention took, `expiring` those that it took while an attempt ran,
    which may have read them.
    """

    name: str
    limit: int | None
    documents: dict[str, str] = field(default_factory=dict)
    first: Offsets = field(default_factory=Offsets)
    ranges: dict[str, Range] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    done: dict[tuple[str, int], Done] = field(default_factory=dict)
    taken: set[tuple[TopicPartition, int]] = field(default_factory=set)
    expired: set[tuple[TopicPartition, int]] = field(default_factory=set)
    expiring: set[tuple[TopicPartition, int]] = field(default_factory=set)

    def state(self, folder: str = "", touch: Callable[[str], None] = lambda _: None) -> MemoryState:
        return MemoryState(self.documents, f"{self.name}/{folder}".rstrip("/"), touch)

    def ledger(self) -> Ledger | None:
        return by_hand.store_of(self.state()).ledger() if self.documents else None

    def places(self) -> list[Place]:
        """Where it stands, and where its open range ends."""
        ledger, store = self.ledger(), by_hand.store_of(self.state())
        opened = None if ledger is None or ledger.open is None else store.range(ledger.open.range_id)
        return [*([] if ledger is None else [ledger.place]), *([] if opened is None else [opened.end])]

    def report(self, range_id: str) -> Report:
        """The report of a range that is loaded, as whoever asks later reads it."""
        found = Checkpoint(self.state(range_id)).report()
        assert found is not None
        return found

    def counted(self) -> Offsets:
        """Up to where batches were counted."""
        ledger = self.ledger()
        if ledger is None:
            return Offsets()
        if ledger.open is None:
            return ledger.place.offsets
        checkpoint = Checkpoint(self.state(ledger.open.range_id))
        found, counts = checkpoint.report(), checkpoint.counts()
        if found is not None and found.complete:
            return found.stop.offsets
        return ledger.place.offsets if counts is None else counts.end.offsets
