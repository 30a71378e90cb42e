"""`orderedkafka audit` of topics: every fault that is planted is found with its place, and nothing else is."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.audited import Row, Written, counted
from support.planted import BASE, PLANTED, at, elsewhere, some, without, written_from
from support.records import Record, Records
from support.topics import Topics

from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.tools.cli import main

FOUND, NOT_YET, SETTING = 65, 75, 2


@pytest.fixture(scope="module")
def shared(kafka: Any, records: Records, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """36 records, and an output to which one test after the other adds rows."""
    return written_from(Topics(kafka.bootstrap_servers, "audit"), records, tmp_path_factory.mktemp("shared"))


@pytest.fixture
def written(shared: Written, tmp_path: Path) -> Written:
    return replace(shared, folder=tmp_path)


@pytest.fixture
def own(topics: Topics, records: Records, tmp_path: Path) -> Written:
    """The same for a test that takes something away."""
    return written_from(topics, records, tmp_path)


@pytest.mark.parametrize(("plant", "counts", "why"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_found_with_its_place(
    written: Written, audit: Any, plant: Any, counts: dict[str, int], why: str
) -> None:
    written.load(plant)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, counts)
    [source] = written.sources
    place = found["places"][0]
    assert place["what"] == next(iter(counts))
    assert place["record"].startswith((f"{source}[1]", "row 1 of", "a partition", f"{source}[0]"))
    assert why in place["why"]
    assert place["output"].startswith(f"{written.output}[") or place["what"] == "missing"


def test_nothing_is_found_where_nothing_is_wrong_and_rows_of_others_are_counted_apart(
    written: Written, audit: Any, records: Records
) -> None:
    records.produce(written.output, some(2, 3))
    written.load(name="r1")
    records.produce(written.output, [Record(b"", BASE, headers=[("orderedkafka", b"damaged")])])
    written.load(lambda rows: [replace(row, range_id="r2") for row in rows], name="r2")
    written.load(lambda rows: [replace(row, range_id="of another load") for row in rows], name="r3")
    (written.folder / "checkpoint" / "r3" / "report.json").unlink()
    (written.folder / "checkpoint" / "r3").rmdir()
    code, found = audit()
    assert (code, counted(found)) == (0, {})
    assert [(each["range"], each["verdict"], each["rows"], each["late"]) for each in found["ranges"]] == [
        ("r1", "clean", 36, 3),
        ("r2", "clean", 36, 3),
    ]
    assert found["others"] == {"a damaged header": 1, "of another load": 36}
    assert found["silent"] == 0


def test_a_row_that_lies_behind_those_of_a_later_range_is_out_of_order(
    written: Written, audit: Any, records: Records
) -> None:
    rows: list[Row] = []

    def but_the_last(found: list[Row]) -> list[Row]:
        rows.extend(found)
        return found[:-1]

    written.load(but_the_last)
    written.load(lambda found: [replace(row, range_id="r2") for row in found], name="r2", started_at=9)
    records.produce(written.output, [rows[-1].stamped()])
    topic, partition, offset = rows[-1].source.position
    place = ("r1", f"{topic}[{partition}]@{offset}", "it comes after a row of range r2, which was loaded later")
    for keep_order, ends, places in (("key", FOUND, [place]), ("partition", FOUND, [place]), ("none", 0, [])):
        for name in ("r1", "r2"):
            report = Report.from_text((written.folder / "checkpoint" / name / "report.json").read_text())
            written.report(replace(report, destination=replace(report.destination, keep_order=keep_order)))
        code, found = audit()
        assert (code, counted(found)) == (ends, {"out_of_order": 1} if places else {})
        assert [(each["range"], each["record"], each["why"]) for each in found["places"]] == places


def test_a_row_of_an_aborted_transaction_comes_from_nowhere(own: Written, audit: Any, records: Records) -> None:
    [source] = own.sources
    records.abort(source, [Record(b"never was", BASE + 200, 1, b"key-1-0")])
    records.produce(source, [Record(b"behind it", BASE + 210, 1, b"key-1-0")])
    own.load(elsewhere(12))
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"stray": 1})
    assert found["places"][0]["record"] == f"{source}[1]@12"


def test_a_dead_letter_is_not_missing_and_a_row_beside_it_is_doubled(
    written: Written, audit: Any, topics: Topics, records: Records
) -> None:
    dead = topics.create("dead")
    letters: list[Record] = []

    def plant(rows: list[Row]) -> list[Row]:
        first, second = rows[at(rows, 1, 5)], rows[at(rows, 0, 2)]
        letters.extend(replace(row, record=replace(row.record, partition=0)).stamped() for row in (first, second))
        return [row for row in rows if row is not first]

    report = written.load(plant, dead_letters=2)
    destination = replace(report.destination, dead_letters=f"topic:{dead}")
    written.report(replace(report, destination=destination, rows_emitted=35))
    records.produce(dead, letters)
    code, found = audit()
    [source] = written.sources
    assert (code, counted(found), found["dead_letters"]) == (FOUND, {"doubled": 1}, 2)
    assert found["places"][0]["record"] == f"{source}[0]@2"


def test_what_retention_took_from_the_source_is_unknown(own: Written, audit: Any, records: Records) -> None:
    own.load()
    records.delete_before(own.sources[0], {1: 4})
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"unknown": 4})
    assert found["ranges"][0]["verdict"] == "unknown"
    assert f"{own.sources[0]}[1]: " in found["ranges"][0]["reasons"][0]


def test_what_retention_took_from_the_output_is_unknown(own: Written, audit: Any, records: Records) -> None:
    own.load()
    records.delete_before(own.output, {1: 3})
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"unknown": 3})


def test_of_an_output_or_a_source_that_was_made_anew_nothing_is_known(own: Written, audit: Any, topics: Topics) -> None:
    own.load()
    topics.recreate(own.output, 2)
    code, found = audit()
    assert (code, counted(found)) == (FOUND, {"unknown": 36})
    topics.recreate(own.sources[0], 3)
    code, found = audit()
    assert code == FOUND
    assert set(counted(found)) == {"unknown"}
    topics.delete(own.sources[0])
    assert audit()[0] == FOUND


def test_without_what_a_proof_needs_the_verdict_is_unknown(written: Written, audit: Any) -> None:
    report = written.load()
    to = report.destination
    for destination, why in (
        (None, "report"),
        (replace(to, identity=False), "provenance"),
        (replace(to, output="topic:"), "outputTopics"),
    ):
        written.report(replace(report, destination=destination))
        code, found = audit()
        assert (code, found["ranges"][0]["verdict"], counted(found)) == (FOUND, "unknown", {"unknown": 36})
        assert why in found["ranges"][0]["reasons"][0]


def test_a_range_that_is_not_loaded_yet_is_open_and_the_others_are_audited(written: Written, audit: Any) -> None:
    written.load()
    (written.folder / "checkpoint" / "r9" / "notes").mkdir(parents=True)
    (written.folder / "checkpoint" / "r9" / "notes" / "0.json").touch()
    (written.folder / "checkpoint" / "ledger").mkdir()
    (written.folder / "checkpoint" / "ledger.json").write_text("{}")
    code, found = audit()
    assert code == NOT_YET
    assert [(each["range"], each["verdict"]) for each in found["ranges"]] == [("r1", "clean"), ("r9", "open")]
    assert audit("--range", "r1")[0] == 0


def test_what_cannot_be_meant_is_said_with_the_way_out(
    written: Written, capfd: Any, kafka: Any, tmp_path: Path
) -> None:
    option = ["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}"]
    written.load()
    for arguments, why in (
        ([*option], "--checkpoint"),
        (["--checkpoint", str(tmp_path / "nowhere"), *option], "there is no range at"),
        (["--checkpoint", str(tmp_path / "checkpoint"), *option, "--range", "r2"], "there is no range 'r2'"),
        (["--checkpoint", str(tmp_path / "checkpoint"), "--option", "nonsense"], "takes name=value"),
    ):
        assert main(["audit", *arguments]) == SETTING
        assert why in capfd.readouterr().err


def test_people_read_a_line_for_each_range_and_the_places_of_what_was_found(written: Written, capfd: Any) -> None:
    written.load(without)
    checkpoint = str(written.folder / "checkpoint")
    main(["audit", "--checkpoint", checkpoint, "--option", f"kafka.bootstrap.servers={written.servers}"])
    assert capfd.readouterr().out.splitlines() == [
        f"range r1: found: 35 rows in topic:{written.output}, 1 missing, 3 late",
        f"  missing: {written.sources[0]}[1]@5",
    ]


def test_the_command_of_the_documentation_runs(written: Written, capfd: Any) -> None:
    written.load()
    page = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text()
    [command] = re.findall(r"^orderedkafka (audit --checkpoint .*)$", page, re.MULTILINE)
    named = command.replace("/data/checkpoints/orders", str(written.folder / "checkpoint"))
    assert main(shlex.split(named.replace("localhost:9092", written.servers))) == 0
    assert capfd.readouterr().out == f"range r1: clean: 36 rows in topic:{written.output}, 3 late\n"
