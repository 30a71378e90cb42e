"""Nothing is found in what real loads wrote, however they were interrupted and limited."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.applications import START, Application, dying_once, events, filtered, some_too_large
from support.audited import audited, counted
from support.planted import some
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.core.order.positions import LARGEST, TopicPartition
from airflow_provider_orderedkafka.spark.table_sink import table_sink
from airflow_provider_orderedkafka.spark.tables import table


def everything(*sources: str) -> list[str]:
    return ["--option", f"subscribe={','.join(sources)}", "--option", "startingOffsets=earliest"]


def in_pairs(records: Any) -> Any:
    """Two rows for each record, none for some."""
    return records.where("offset % 5 != 0").selectExpr("*", "explode(array(1, 2)) AS number").drop("number")


def clean(app: Application, capfd: Any) -> dict[str, Any]:
    code, found = audited(app.servers, app.checkpoint, capfd)
    assert (code, counted(found), found["others"], found["silent"]) == (0, {}, {}, 0)
    return found


def test_ranges_by_hand_with_a_row_limit_and_late_records_are_clean(
    app: Application, topics: Topics, records: Records, capfd: Any
) -> None:
    source, other, output = topics.create("a", 3), topics.create("b", 2), topics.create("out", 2)
    records.produce(source, events(120, 1))
    records.commit(other, events(40, 2, partitions=2))
    records.abort(other, events(10, 3, partitions=2))
    argv = ["--output-topic", output, *everything(source, other), "--option", "includeHeaders=true"]
    app.run(*argv, "--row-limit", "70", "--option", "maxOffsetsPerTrigger=40")
    app.run(*argv, "--row-limit", "300", "--sink-option", "writers=1")
    records.produce(source, events(30, 4))
    app.run(*argv, "--sink-option", "keepOrder=partition", "--sink-option", "usePartition=false")
    found = clean(app, capfd)
    assert [each["rows"] for each in found["ranges"]] == [70, 90, 30]
    assert found["late"] > 0
    check_that_the_ledger_is_walked(app, capfd, source)


def check_that_the_ledger_is_walked(app: Application, capfd: Any, source: str) -> None:
    """A folder that is gone, and a hole and an overlap between ranges, are told at the range."""
    first, second, third = sorted(each for each in app.checkpoint.iterdir() if each.name.startswith("range-"))
    second.rename(app.folder / "gone")
    code, found = audited(app.servers, app.checkpoint, capfd)
    verdicts = {each["range"]: each["verdict"] for each in found["ranges"]}
    assert (code, counted(found), verdicts.pop(second.name)) == (65, {"unknown": 90}, "unknown")
    assert verdicts == {first.name: "clean", third.name: "clean"}
    (app.folder / "gone").rename(second)
    whole = (third / "report.json").read_text()
    for moved, what in ((2, "missing"), (-2, "doubled")):
        report = Report.from_text(whole)
        at = TopicPartition(source, 0)
        start = report.range.start
        offsets = start.offsets.updated({at: start.offsets[at] + moved})
        wrong = replace(report, range=replace(report.range, start=replace(start, offsets=offsets)))
        (third / "report.json").write_text(wrong.to_text())
        code, found = audited(app.servers, app.checkpoint, capfd)
        edge = at.at(start.offsets[at] + min(moved, 0))
        findings = [(each["range"], each["what"]) for each in found["places"] if each["record"] == edge]
        assert (code, (third.name, what) in findings) == (65, True)


@pytest.mark.parametrize("lane", ["frames", "direct"])
def test_a_batch_that_died_and_was_written_again_is_clean(
    app: Application, topics: Topics, records: Records, capfd: Any, tmp_path: Path, lane: str
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2)
    records.produce(source, events(120, 1))
    mark = tmp_path / "died"
    report = app.run("--output-topic", output, *everything(source), **dying_once(mark)[lane])
    assert mark.exists()
    assert report.replayed >= 0
    assert clean(app, capfd)["ranges"][0]["rows"] == 120


def test_dead_letters_and_what_transforms_make_are_clean(
    app: Application, topics: Topics, records: Records, capfd: Any
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 2, {"max.message.bytes": 1_000})
    dead = topics.create("dead")
    records.produce(source, some_too_large(events(60, 1)))
    argv = ["--output-topic", output, *everything(source), "--bad-records", "1000", "--dead-letters", dead]
    app.run(*argv)
    records.produce(source, events(60, 2))
    app.run(*argv, transform=filtered)
    records.produce(source, events(60, 3))
    app.run(*argv, transform=in_pairs)
    found = clean(app, capfd)
    assert [(each["rows"], each["dead_letters"]) for each in found["ranges"]] == [(45, 15), (20, 0), (96, 0)]


def test_files_of_real_loads_are_clean(
    app: Application, topics: Topics, records: Records, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "FILE_BYTES", 600)
    source, dead = topics.create("a", 3), topics.create("dead")
    records.produce(source, events(90, 1))
    argv = [*everything(source), "--option", "includeHeaders=true", "--option", "maxOffsetsPerTrigger=40"]
    files = ["--output", f"parquet:{app.folder / 'table'}", "--bad-records", "1000", "--dead-letters", dead]
    app.run(*argv, *files, "--option", "sliceOffsets=10", sink=table_sink)
    assert len([*app.folder.glob("table/range_id=*/batch=1/*/part-*")]) > 1
    records.produce(source, events(30, 2))
    app.run(*argv, *files, "--row-limit", "100", sink=table_sink)
    app.run(*argv, *files, "--row-limit", "1000", sink=table_sink, transform=filtered)
    found = clean(app, capfd)
    assert [each["rows"] for each in found["ranges"]] == [90, 10, 5]


@pytest.mark.parametrize(
    ("kind", "unit", "found"),
    [("parquet", 1_000, {}), ("parquet", 1_000_000, {}), ("json", 1_000_000, {}), ("orc", 1_000, {"unknown": 2})],
)
def test_times_that_a_producer_gave_in_micro_or_nanoseconds_are_no_other_ones(
    app: Application, topics: Topics, records: Records, capfd: Any, kind: str, unit: int, found: dict[str, int]
) -> None:
    """What Arrow cannot read of ORC is not known."""
    source = topics.create("a", config={"message.timestamp.after.max.ms": LARGEST})
    records.produce(source, [Record(b"v", START), Record(b"v", START * unit)])
    app.run(*everything(source), "--output", f"{kind}:{app.folder / 'table'}", sink=table_sink)
    assert counted(audited(app.servers, app.checkpoint, capfd)[1]) == found


def spread(records: Any) -> Any:
    return (
        records.selectExpr("*", "cast(offset % 5 % 2 AS int) AS there")
        .drop("partition")
        .withColumnRenamed("there", "partition")
    )


@pytest.mark.parametrize(
    ("options", "transform", "counts"),
    [
        (["usePartition=true"], None, set()),
        (["usePartition=true", "keepOrder=partition"], spread, {"unknown"}),
        (["kafka.partitioner=consistent"], None, set()),
    ],
)
def test_where_rows_name_their_partition_a_copy_is_clean_and_keys_that_a_transform_spreads_are_unknown(
    app: Application, topics: Topics, records: Records, capfd: Any, options: list[str], transform: Any, counts: set[str]
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 3)
    records.produce(source, some())
    argv = [each for option in options for each in ("--sink-option", option)]
    app.run("--output-topic", output, *everything(source), *argv, transform=transform)
    assert set(counted(audited(app.servers, app.checkpoint, capfd)[1])) == counts
