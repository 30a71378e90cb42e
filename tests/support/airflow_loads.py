"""A load of a running Airflow, with its topics: written to, started, and looked at from all sides."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from airflow_provider_orderedkafka.core.documents import Ledger
from support.airflow_rest import AirflowRest
from support.audited import prove
from support.outputs import FLAWLESS, check, expected_of
from support.records import Record, Records, Seen
from support.topics import Topics

PARTITIONS = 2
KEYS = 7


@dataclass(frozen=True)
class Mirrored:
    """What the consumer group says: where it stands, and the revision beside that."""

    offsets: list[int]
    revisions: set[int]


class LoadInAirflow:
    """One load; the DAG, the load and the topics have its name."""

    def __init__(
        self, name: str, rest: AirflowRest, records: Records, topics: Topics, orders: Path, home: Path
    ) -> None:
        self.name, self.rest = name, rest
        self.checkpoint = home / "orderedkafka" / name
        self.source, self.output = f"{name}-in", f"{name}-out"
        self._records, self._topics = records, topics
        self._orders = orders / name
        self._written = 0
        for topic in (self.source, self.output):
            topics.create_named(topic, PARTITIONS)

    def write(self, count: int, begin: int | None = None) -> None:
        """Records a millisecond apart, from a moment on or else up to now; their keys choose the partitions."""
        begin = time.time_ns() // 1_000_000 - count if begin is None else begin
        self._records.produce(self.source, self._events(count, begin), partitioner="murmur2_random")
        self._written += count

    def order(self, *codes: int) -> None:
        """Let the application's next runs end with these exit codes before they begin."""
        self._orders.write_text("\n".join(map(str, codes)))

    def trigger(self) -> str:
        """Start a run; its id."""
        return self.rest.trigger(self.name)

    def task_id(self, step: str) -> str:
        """A step's whole name."""
        return f"{self.name}.{step}"

    def clear(self, run: str, *steps: str, downstream: bool = False) -> None:
        """Clear these steps of a run."""
        self.rest.clear(self.name, run, *map(self.task_id, steps), downstream=downstream)

    def ended(self, run: str) -> str:
        """The state that a run ends in."""
        return self.rest.wait_for_run(self.name, run)

    def states(self, run: str) -> dict[str, str | None]:
        """The states of a run's steps."""
        return {step: task["state"] for step, task in self.rest.tasks(self.name, run).items()}

    def log(self, run: str, step: str) -> str:
        """What a step wrote in its last attempt."""
        number = self.rest.tasks(self.name, run)[step]["try_number"]
        return "\n".join(self.rest.log(self.name, run, self.task_id(step), number))

    @property
    def ledger(self) -> Ledger:
        """The ledger as Airflow has it."""
        found = self.rest.asset_state(f"orderedkafka://ledger/{self.name}", "ledger")
        assert found is not None, f"{self.name} has no ledger"
        return Ledger.from_text(json.dumps(found))

    @property
    def mirrored(self) -> Mirrored:
        """The mirror, read without the package."""
        consumer = Consumer({"bootstrap.servers": self._records.servers, "group.id": f"orderedkafka.{self.name}"})
        try:
            found = consumer.committed([TopicPartition(self.source, p) for p in range(PARTITIONS)], timeout=30)
        finally:
            consumer.close()
        return Mirrored([p.offset for p in found], {json.loads(p.metadata)["revision"] for p in found})

    @property
    def emitted(self) -> int:
        """How many records the output has."""
        return sum(self._records.ends(self.output).values())

    def rows(self, topic: str) -> list[Seen]:
        """What a topic has."""
        return self._records.read(topic)

    def stands_at(self, revision: int, offsets: Iterable[int] | None = None) -> None:
        """Ledger and mirror are at this revision, at these offsets or else at the end of all that was written."""
        ledger, mirrored = self.ledger, self.mirrored
        ends = list(self._records.ends(self.source).values()) if offsets is None else list(offsets)
        found = ledger.revision, list(ledger.place.offsets.values())
        assert found == (revision, ends), f"the ledger is at {found}, not at {revision, ends}"
        assert mirrored == Mirrored(ends, {revision}), f"the ledger is at {found}, its mirror at {mirrored}"

    def is_whole(self, revision: int) -> None:
        """Every record that was written is in the output once and in order; audit, ledger and mirror say so."""
        findings = check(expected_of(self._records, self.source), self._records.read(self.output))
        assert findings == FLAWLESS, findings
        prove(self._records.servers, self.checkpoint)
        ledger = self.ledger
        assert (ledger.open, ledger.rows_emitted) == (None, self._written), ledger
        self.stands_at(revision)

    def _events(self, count: int, begin: int) -> Iterable[Record]:
        for number in range(count):
            yield Record(b"%d" % (self._written + number), begin + number, -1, b"key-%d" % (number % KEYS))
