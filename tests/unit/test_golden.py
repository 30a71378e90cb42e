"""What was written down by any version is read as it was meant, and what is written now changes only on purpose."""

import json
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from support.documents import DOCUMENTS, LATER_ORDERS, LEDGER, OLDER, RANGE, REFUNDS, Values, texts
from support.messages import naming

from airflow_provider_orderedkafka import core, job
from airflow_provider_orderedkafka.core.codec import OLDEST, VERSION, Document
from airflow_provider_orderedkafka.errors import DocumentError
from airflow_provider_orderedkafka.kafka.lookup.topics import GroupOffset
from airflow_provider_orderedkafka.kafka.provenance import HEADER, read_provenance
from airflow_provider_orderedkafka.loads import mirror
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.spark.connector import stream
from airflow_provider_orderedkafka.spark.connector.stream import INITIAL, StreamOffset

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = [f"v{version}" for version in range(OLDEST, VERSION + 1)]
NEWEST = VERSIONS[-1]


def golden(version, name):
    return (GOLDEN / version / name).read_text(encoding="utf-8").removesuffix("\n")


@pytest.mark.parametrize(("version", "name"), [(version, name) for version, those in OLDER.items() for name in those])
def test_a_document_of_an_older_version_says_what_it_said(version, name):
    document = OLDER[version][name]
    assert type(document).from_text(golden(version, f"{name}.json")) == document


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_says_what_was_written(name):
    document = DOCUMENTS[name]
    assert type(document).from_text(golden(NEWEST, f"{name}.json")) == document


@pytest.mark.parametrize("name", texts())
def test_a_format_changes_only_on_purpose(name):
    assert texts()[name] == golden(NEWEST, name), "meant? Then run: python scripts/golden.py"


def test_nothing_else_is_golden():
    assert sorted(texts()) == sorted(path.name for path in (GOLDEN / NEWEST).iterdir())
    assert sorted(VERSIONS) == sorted(path.name for path in GOLDEN.iterdir())


def test_every_kind_of_document_is_golden():
    for module in walk_packages(core.__path__, f"{core.__name__}."):
        import_module(module.name)
    ours = (core.__name__, job.__name__, stream.__name__)
    kinds = {kind.__name__ for kind in Document.__subclasses__() if kind.__module__.startswith(ours)}
    assert {type(document).__name__ for document in DOCUMENTS.values()} == kinds


@pytest.mark.parametrize(
    ("version", "name"),
    [*((version, name) for version, those in OLDER.items() for name in those), *((NEWEST, n) for n in DOCUMENTS)],
)
def test_a_field_of_a_later_release_is_refused_by_name(version, name):
    text = json.dumps({**json.loads(golden(version, f"{name}.json")), "of_tomorrow": None})
    with pytest.raises(DocumentError, match="'of_tomorrow'"):
        type(DOCUMENTS[name]).from_text(text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_whatever_a_later_release_wrote_is_refused_with_the_way_out(name):
    text = json.dumps({**json.loads(golden(NEWEST, f"{name}.json")), "version": VERSION + 1})
    with pytest.raises(DocumentError, match=naming(f"'version' ... {VERSION}, ... {VERSION + 1}")):
        type(DOCUMENTS[name]).from_text(text)


def test_positions_and_floors_are_where_they_were():
    found = type(RANGE).from_text(golden("v1", "range.json"))
    assert (found.start.offsets[LATER_ORDERS], found.end.offsets[REFUNDS]) == (0, 7)
    assert found.end.floor.time == 1_769_860_800_000
    assert type(LEDGER).from_text(golden("v1", "ledger.json")).place.floor.split == LATER_ORDERS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stream_begins_with_a_constant_that_no_version_changes(version):
    assert json.loads('{"initial": true, "version": 1}') == INITIAL
    assert StreamOffset.from_json(INITIAL) is None
    assert StreamOffset.from_json(json.loads(golden(version, "stream.json"))) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ledger_in_parts_is_put_together(version):
    values = Values(json.loads(golden(version, "parts.json")))
    assert len(values) > 2
    assert LedgerStore(LEDGER.load, values).ledger() == LEDGER


@pytest.mark.parametrize("version", VERSIONS)
def test_a_mirror_says_where_the_ledger_stood(version):
    told = golden(version, "mirror.json")
    found = mirror._mirrored(
        {partition: GroupOffset(offset, told) for partition, offset in LEDGER.place.offsets.items()}
    )
    assert (found.instance, found.revision, found.rows) == (LEDGER.instance, LEDGER.revision, LEDGER.rows_emitted)
    assert (found.place, found.whole) == (LEDGER.place, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_header_says_where_a_row_came_from(version):
    told = [bytes.fromhex(line) for line in golden(version, "provenance.hex").splitlines()]
    from_a_record, from_none = (read_provenance([(HEADER, value)]) for value in told)
    assert (from_a_record.source, from_a_record.offset) == (("refünds", 2), 5)
    assert from_a_record.order_time == 1_769_860_800_000
    assert from_a_record.range_id == RANGE.id
    assert from_a_record.ordinal == (0 if version == "v1" else 70_000)
    assert (from_none.source, from_none.offset) == (None, None)
