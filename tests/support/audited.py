"""Loads whose output is written here, row by row, so that anything can be wrong with it; and what an audit says."""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from airflow_provider_orderedkafka.audit.auditing import Audit, Clusters, audit
from airflow_provider_orderedkafka.core.commits import TableVersion
from airflow_provider_orderedkafka.core.documents import Destination, Ends, Range, Report
from airflow_provider_orderedkafka.core.notation.subscriptions import Named
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.core.status import COUNTED
from airflow_provider_orderedkafka.kafka.clients.config import KafkaConfig
from airflow_provider_orderedkafka.kafka.lookup.topics import discover
from airflow_provider_orderedkafka.locations import reports_at
from airflow_provider_orderedkafka.tools.cli import main
from support.outputs import Expected, in_order
from support.plain import plain_report
from support.ranges import whole_range
from support.records import Record, Records
from support.topics import Topics

RANGE = "r1"
IDENTITY = pa.struct(
    [
        ("range_id", pa.string()),
        ("batch", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ordinal", pa.int32()),
    ]
)
"""The type of the column that says which row one is."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row to write: the record that it says to be of, and what it has."""

    source: Expected
    record: Record
    ordinal: int = 0
    range_id: str = RANGE
    order_time: int | None = None

    def stamped(self) -> Record:
        """With the header, by its documented layout."""
        topic, partition, offset = self.source.position
        time = self.source.order_time if self.order_time is None else self.order_time
        name = self.range_id.encode()
        header = bytes([1, len(name)]) + name + struct.pack(">iiqq", self.ordinal, partition, offset, time)
        return replace(self.record, headers=[*self.record.headers, ("orderedkafka", header + topic.encode())])

    def but(self, **changes: Any) -> "Row":
        """The row with another key, value, timestamp or headers."""
        return replace(self, record=replace(self.record, **changes))


Plant = Callable[[list[Row]], Sequence[Row]]


@dataclass(frozen=True)
class Written:
    """A source and an output that is written here; everything is under one folder."""

    servers: str
    topics: Topics
    records: Records
    folder: Path
    sources: tuple[str, ...]
    output: str

    def expected(self, loaded: Range) -> list[Row]:
        """The rows of a plain copy in order, each in its partition of the output."""
        records = [
            each
            for topic in self.sources
            for each in self.records.read(topic, loaded.isolation)
            if each.offset < loaded.end.offsets[TopicPartition(topic, each.partition)]
        ]
        return [
            Row(each, Record(each.record.value, each.record.timestamp, each.record.partition % 2, each.record.key,
                             each.record.headers))
            for each in in_order(records)
        ]  # fmt: skip

    def load(self, plant: Plant = list, name: str = RANGE, **changes: Any) -> Report:
        """Write what a load would, with something planted, and its report."""
        loaded = whole_range(self.servers, *self.sources, name=name, include_headers=True)
        before = self.ends()
        rows = self.expected(loaded)
        self.records.produce(self.output, [row.stamped() for row in plant(rows)])
        read: dict[TopicPartition, int] = {}
        for row in rows:
            partition = TopicPartition(*row.source.position[:2])
            read[partition] = read.get(partition, 0) + 1
        said = plain_report(
            stop=loaded.end,
            batches=1,
            rows_read=len(rows),
            rows_emitted=len(rows),
            range=loaded,
            destination=Destination(f"topic:{self.output}", copied=True, keep_order="key", placed_by="key"),
            before=before,
            after=self.ends(),
            read_in=Offsets(read),
        )
        return self.report(replace(said, **changes))

    def load_files(
        self,
        plant: Plant = list,
        batches: int = 2,
        kind: str = "parquet",
        write: Callable[[pa.Table, Path], object] = parquet.write_table,
        **changes: Any,
    ) -> Report:
        """Write what a load into files would, with something planted, and its report."""
        report = self.load(lambda _: [])
        assert report.range is not None
        rows = list(plant(self.expected(report.range)))
        path, each = self.folder / "files", -(-len(rows) // batches)
        for batch in range(1, batches + 1):
            name = f"range_id={RANGE}/batch={batch}/token/part-0.{kind}"
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write(as_table(rows[(batch - 1) * each : batch * each]), path / name)
            manifest = path / "_orderedkafka" / RANGE / f"{batch}.json"
            manifest.parent.mkdir(parents=True, exist_ok=True)
            manifest.write_text(json.dumps({"version": 1, "name": "n", "rows": each, "files": [name]}))
        to = Destination(f"{kind}:{path}", copied=True, identity=False, called=RANGE)
        return self.report(replace(report, destination=to, before=Ends(), after=Ends(), **changes))

    def load_table(
        self, write: Callable[[pa.Table], tuple[str, str, str]], plant: Plant = list, **changes: Any
    ) -> Report:
        """Write what a load into a table would, with something planted, and its report.

        `write` gives the name of the table, its id, and where it lies if its name does not say that.
        """
        report = self.load(lambda _: [])
        assert report.range is not None
        name, table_id, location = write(self.identified(plant(self.expected(report.range))))
        to = Destination(name, copied=True, called=RANGE, location=location)
        before = Ends(table=TableVersion(table_id, None))
        return self.report(replace(report, destination=to, before=before, after=Ends(), **changes))

    def identified(self, rows: Sequence[Row]) -> pa.Table:
        """Rows as a table has them, with their identities."""
        identities = [
            dict(zip(("topic", "partition", "offset"), row.source.position, strict=True))
            | {"range_id": row.range_id, "batch": 1, "ordinal": row.ordinal}
            for row in rows
        ]
        return as_table(rows).append_column("_orderedkafka", pa.array(identities, IDENTITY))

    def ends(self) -> Ends:
        """Where the output ends now."""
        found = discover({"bootstrap.servers": self.servers}, Named((self.output,)))
        ends = {TopicPartition(self.output, p): end for p, end in self.records.ends(self.output).items()}
        return Ends(Offsets(ends), found.ids)

    def report(self, report: Report) -> Report:
        """Put a report where the application does."""
        path = self.folder / "checkpoint" / report.range_id / "report.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report.to_text(), encoding="utf-8")
        return report


def as_table(rows: Sequence[Row]) -> pa.Table:
    """Rows as a plain copy into a table has them."""
    moment = pa.timestamp("us", "UTC")
    places = [row.source.position for row in rows]
    times = [row.source.order_time if row.order_time is None else row.order_time for row in rows]
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [[{"key": name, "value": value} for name, value in row.record.headers] for row in rows]
    return pa.table(
        {
            "key": pa.array([row.record.key for row in rows], pa.binary()),
            "value": pa.array([row.record.value for row in rows], pa.binary()),
            "topic": pa.array([place[0] for place in places], pa.string()),
            "partition": pa.array([place[1] for place in places], pa.int32()),
            "offset": pa.array([place[2] for place in places], pa.int64()),
            "timestamp": pa.array([(row.record.timestamp or 0) * 1_000 for row in rows], pa.int64()).cast(moment),
            "timestampType": pa.array([0] * len(rows), pa.int32()),
            "headers": pa.array(headers, pairs),
            "order_time": pa.array([time * 1_000 for time in times], pa.int64()).cast(moment),
            "late": pa.array([(row.source.record.timestamp or 0) < row.source.order_time for row in rows], pa.bool_()),
        }
    )


def audit_of(servers: str, checkpoint: Path) -> Audit:
    """The audit of everything that was loaded there."""
    cluster, reports = KafkaConfig({"bootstrap.servers": servers}), reports_at(str(checkpoint))
    assert reports, f"nothing was loaded at {checkpoint}"
    return audit(reports, Clusters(cluster, cluster))


def prove(servers: str, checkpoint: Path) -> None:
    """Everything that was loaded there is in its output as it was promised."""
    found = audit_of(servers, checkpoint)
    assert found.exit_code == 0, found.text


def audited(servers: str, checkpoint: Path, capfd: Any, *more: str) -> tuple[int, dict[str, Any]]:
    """What the command says, and ends with."""
    option = ("--option", f"kafka.bootstrap.servers={servers}")
    capfd.readouterr()
    code = main(["audit", "--checkpoint", str(checkpoint), *option, "--json", *more])
    out, err = capfd.readouterr()
    assert out, err
    found: dict[str, Any] = json.loads(out)
    return code, found


def counted(found: dict[str, Any]) -> dict[str, int]:
    """The counts of findings that are not 0."""
    return {name: found[name] for name in COUNTED if found[name]}
