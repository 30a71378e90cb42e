"""Ranges without Airflow: resolved by the application itself, from its options and what lies under its checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.applications import Application, events, some_too_large, source_and_output
from support.messages import says
from support.outputs import expected_of, stamp
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.batches import Overtaken
from airflow_provider_orderedkafka.core.documents import Ledger, Range
from airflow_provider_orderedkafka.kafka.lookup.topics import committed
from airflow_provider_orderedkafka.spark.application import by_hand
from airflow_provider_orderedkafka.spark.state.checkpoint import Checkpoint
from airflow_provider_orderedkafka.storage import LocalState
from broker import LocalKafka


def ledger_of(checkpoint: Path) -> Ledger:
    ledger = by_hand.store_of(LocalState(checkpoint)).ledger()
    assert ledger is not None
    return ledger


def everything(source: str) -> list[str]:
    return ["--option", f"subscribe={source}", "--option", "startingOffsets=earliest"]


def copying(topics: Topics, records: Records) -> tuple[str, str, list[str]]:
    """A topic with 60 records, another one, and the command line that copies all of the first to it."""
    source, output = source_and_output(topics, records, 60)
    return source, output, ["--output-topic", output, *everything(source)]


@pytest.mark.versions
def test_by_hand_ranges_follow_each_other_and_nothing_new_is_nothing_to_do(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output, argv = copying(topics, records)
    first = app.run(*argv, "--option", "maxOffsetsPerTrigger=25")
    records.produce(source, events(40, 2))
    second = app.run(*argv)
    Checkpoint(LocalState(app.checkpoint / second.range_id)).put_overtaken(Overtaken(attempt=1, batch=1, rows=7))
    third = app.run(*argv)
    assert [each.may_be_doubled for each in ledger_of(app.checkpoint).outcomes] == [0, 7]
    assert (first.rows_emitted, first.batches, second.rows_emitted, third) == (60, 3, 40, None)
    assert len({stamp(each).source for each in records.read(output)}) == 100
    assert app.left() == sorted(["ledger", first.range_id, second.range_id])
    assert first.range_id.startswith("range-000001-")
    assert second.range_id.startswith("range-000002-")


def test_by_hand_order_times_go_on_from_range_to_range_and_what_is_older_is_late(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = topics.create("a", 2), topics.create("out")
    argv = ["--output-topic", output, *everything(source)]
    records.produce(source, [Record(b"A", 100, 0)])
    first = app.run(*argv)
    records.produce(source, [Record(b"B", 60, 0), Record(b"C", 80, 1), Record(b"D", 120, 0)])
    second = app.run(*argv)
    assert (first.late, second.late) == (0, 2)
    assert (first.stop.floor.time, second.stop.floor.time) == (100, 120)


def exploded(frame: Any) -> Any:
    """Two rows for a record."""
    from pyspark.sql import functions as f

    return frame.withColumn("copy", f.explode(f.sequence(f.lit(1), f.lit(2))))


@pytest.mark.parametrize(("transform", "times"), [(None, 1), (exploded, 2)], ids=["direct", "frames"])
def test_by_hand_a_row_limit_counts_the_dead_letters_of_all_runs(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], transform: Any, times: int
) -> None:
    source, dead = topics.create("a", 3), topics.create("dead")
    output = topics.create("out", 2, {"max.message.bytes": 1_000})
    argv = ["--output-topic", output, *everything(source), "--bad-records", "1000", "--dead-letters", dead]
    argv += [] if transform else ["--sink-option", "keepOrder=none"]  # for the direct lane
    records.produce(source, some_too_large(events(60, 1)))
    reports = [app.run(*argv, "--row-limit", limit, transform=transform) for limit in ("30", "30", "50")]
    assert [each and each.rows_emitted + each.dead_letters for each in reports] == [30, None, 20]
    assert reports[0].dead_letters > 0
    said = capsys.readouterr().out
    assert said.count("by the DataFrame lane" if transform else "by the direct lane") == 2
    assert says(said, f"30 rows ... {reports[0].rows_emitted} ... {reports[0].dead_letters} ")
    found = [stamp(each).source for topic in (output, dead) for each in records.read(topic)]
    order = [each.position for each in expected_of(records, source) for _ in range(times)]
    assert sorted(found) == sorted(order[:50])


def open_range(app: Application) -> Path:
    """The file of the range that is open."""
    [file] = app.checkpoint.glob("range-*.json")
    return file


def failing(_: object) -> object:
    raise ValueError("not today")


@pytest.mark.versions
def test_by_hand_a_run_that_failed_takes_the_same_range_up_again(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output, argv = copying(topics, records)
    with pytest.raises(SystemExit) as caught:
        app.run(*argv, transform=failing)
    assert caught.value.code == 65
    printed = capsys.readouterr().err
    assert says(printed, "ValueError: ... - at test_by_hand.py:")
    assert 'raise ValueError("not today")' in printed
    begun = Range.from_text(open_range(app).read_text())
    records.produce(source, events(40, 2))
    resumed, following = app.run(*argv), app.run(*argv)
    assert f"range {begun.id}: " in capsys.readouterr().out
    assert (resumed.range_id, resumed.attempt, resumed.stop, resumed.rows_emitted) == (begun.id, 2, begun.end, 60)
    assert following.rows_emitted == 40
    assert len({stamp(each).source for each in records.read(output)}) == 100
    assert not list(app.checkpoint.glob("range*.json"))


def test_by_hand_an_open_range_whose_document_is_lost_is_refused(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = source_and_output(topics, records, 6)
    for _ in range(2):
        with pytest.raises(SystemExit):
            app.run("--output-topic", output, *everything(source), transform=failing)
        for lost in app.checkpoint.glob("range-*.json"):
            lost.unlink()
    assert f" {lost.name}, " in capsys.readouterr().err


def test_by_hand_a_group_shows_how_far_it_has_come(
    app: Application, topics: Topics, records: Records, config: dict[str, str]
) -> None:
    source, _, argv = copying(topics, records)
    group = f"shown-{source}"
    app.run(*argv, "--option", f"commitGroup={group}", "--row-limit", "25")
    stands = ledger_of(app.checkpoint).place.offsets
    assert stands.since({}) < 60
    assert committed(config, group, stands) == stands


@pytest.mark.parametrize("way", ["a pattern", "chosen partitions"])
def test_by_hand_topics_are_found_by_a_pattern_and_partitions_are_chosen(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    source, output = topics.create("in-a", 2), topics.create("out", 1)
    records.produce(source, events(10, 2, partitions=2))
    pattern = source.replace("in-a", "in-.*").replace("-1-", "-[0-9]+-")
    chosen = f"subscribePattern={pattern}" if way == "a pattern" else f'assign={{"{source}": [1]}}'
    argv = ["--output-topic", output, "--option", "startingOffsets=earliest", "--option"]
    first = app.run(*argv, chosen)
    there = len(records.read(source)) if way == "a pattern" else records.ends(source)[1]
    assert first.rows_emitted == there
    if way == "a pattern":
        later = topics.create("in-b", 1)
        records.produce(later, events(4, 1, partitions=1))
        assert app.run(*argv, chosen).rows_emitted == 4
        assert repr(later) in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit) as refused:
            app.run(*argv, f"subscribe={source}")
        assert refused.value.code == 65
        assert says(capsys.readouterr().err, "chosen ... whole ... --to latest")


def test_by_hand_only_what_is_new_is_loaded_where_the_start_is_not_said_of_a_topic_that_is_added_too(
    app: Application, topics: Topics, records: Records
) -> None:
    old, added, output = topics.create("a", 3), topics.create("b", 3), topics.create("out", 2)
    for topic in (old, added):
        records.produce(topic, events(10, 1))
    first, both = (["--output-topic", output, "--option", f"subscribe={each}"] for each in (old, f"{old},{added}"))
    assert app.run(*first) is None
    assert app.run(*both) is None
    records.produce(added, events(5, 2))
    assert app.run(*both).rows_emitted == 5


def test_by_hand_a_range_of_another_cluster_is_refused_before_anything_is_read(
    app: Application, topics: Topics, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    _, output, argv = copying(topics, records)
    with pytest.raises(SystemExit):
        app.run(*argv, transform=failing)
    written = open_range(app)
    begun = Range.from_text(written.read_text())
    assert begun.cluster_id
    theirs = replace(begun, cluster_id="another-cluster")
    for path in (written, app.checkpoint / begun.id / "range.json"):
        path.write_text(theirs.to_text())
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        app.run(*argv)
    assert caught.value.code == 2
    assert "'another-cluster'" in capsys.readouterr().err
    assert records.read(output) == []


def test_by_hand_an_output_on_another_cluster_than_a_batch_was_begun_on_is_refused(
    app: Application, topics: Topics, records: Records, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = source_and_output(topics, records, 60)
    argv = ["--output-topic", output, *everything(source), "--option", "maxOffsetsPerTrigger=25"]
    large = replace(events(61, 1)[-1], value=b"x" * 2_000)
    records.produce(source, [large])
    with LocalKafka(tmp_path / "elsewhere") as elsewhere:
        Topics(elsewhere.bootstrap_servers, "test").create_named(output, 2, {"max.message.bytes": 1_000})
        there = ["--sink-option", f"kafka.bootstrap.servers={elsewhere.bootstrap_servers}"]
        with pytest.raises(SystemExit):
            app.run(*argv, *there)
        assert Records(elsewhere.bootstrap_servers).read(output)
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            app.run(*argv)
        assert caught.value.code == 2
        assert says(capsys.readouterr().err, f"'{elsewhere.cluster_id}'")
        assert records.read(output) == []


def test_by_hand_a_checkpoint_without_a_ledger_but_not_empty_is_refused(
    app: Application, topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    (app.checkpoint / "range-000001").mkdir(parents=True)
    with pytest.raises(SystemExit) as caught:
        app.run("--output-topic", topics.create("out"), *everything(topics.create("a")))
    assert caught.value.code == 2
    assert "range-000001" in capsys.readouterr().err


def test_by_hand_records_of_aborted_transactions_are_loaded_where_that_is_asked_for(
    app: Application, topics: Topics, records: Records
) -> None:
    source, output = topics.create("a", 3), topics.create("out", 1)
    records.produce(source, events(10, 1))
    records.abort(source, events(5, 2))
    argv = ["--output-topic", output, *everything(source)]
    report = app.run(*argv, "--option", "kafka.isolation.level=read_uncommitted")
    assert report.rows_emitted == 15
