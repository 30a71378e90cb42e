"""The whole way of some records: waited for, planned, loaded, looked for after a worker's death, mirrored."""

import time
from dataclasses import dataclass, replace

from airflow_provider_orderedkafka import OrderedLoad
from airflow_provider_orderedkafka.core import lifecycle
from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.survey import Brokers
from airflow_provider_orderedkafka.loads import ranges
from airflow_provider_orderedkafka.loads.mirror import GroupMirror, group_of
from support.applications import Application, dying_once, events
from support.outputs import FLAWLESS, check, expected_of
from support.records import Records
from support.topics import Topics

COUNT = 120


@dataclass(frozen=True)
class WholeWay:
    """Records to load, and where to."""

    source: str
    output: str
    load: OrderedLoad

    @classmethod
    def of(cls, topics: Topics, records: Records) -> "WholeWay":
        """New topics, with records in one of them."""
        source, output = topics.create("in", 3), topics.create("out", 2)
        records.produce(source, events(COUNT, 1))
        return cls(source, output, OrderedLoad(f"load-{output}", topics=[source], start="earliest"))

    @property
    def group(self) -> str:
        """The load's consumer group."""
        return group_of(self.load.name)

    def go(self, config: KafkaConfig, app: Application, lane: str) -> Report:
        """Wait, plan, load, mirror; a worker dies on the way, so that the outputs are searched for what has landed."""
        now, kafka = time.time_ns() // 1_000_000, Brokers(config)
        first = ranges.first_look(kafka, self.load.terms, now)
        ledger = lifecycle.first_look(
            self.load.name, instance="one", home_dag="d", place=first.place, topics=first.topics, now=now
        )
        for known in (False, True):  # a sensor's first look, and its later ones
            seen = ranges.verdict(kafka, self.load.terms, ledger, now, known=known)
            assert (seen.run, seen.waiting) == (True, COUNT), seen.reason
        loaded = ranges.plan(kafka, self.load.terms, ledger, now=now)
        flags = ("--output-topic", self.output, "--option", "sliceOffsets=20", "--sink-option", "writers=1")
        report = app.load(loaded, *flags, **dying_once(app.folder / "died")[lane])
        assert (app.folder / "died").exists()
        mirror = GroupMirror(config, self.load.name)
        mirror.write(replace(ledger, place=report.stop, revision=1))
        mirrored = mirror.read(report.stop.offsets)
        assert mirrored is not None
        assert mirrored.place.offsets == report.stop.offsets
        return report

    def check(self, records: Records, report: Report) -> None:
        """Everything is there, once and in order."""
        assert check(expected_of(records, self.source), records.read(self.output)) == FLAWLESS
        assert (report.complete, report.rows_emitted, report.may_be_doubled) == (True, COUNT, 0)
