"""What was written down is read as it was meant, and what is written changes only on purpose."""

import json
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from support.documents import DOCUMENTS, LEDGER, ORDERS, RANGE, texts
from support.keeping import Values
from support.messages import naming

from airflow_provider_orderedkafka import core, job
from airflow_provider_orderedkafka.core.codec import VERSION, Document
from airflow_provider_orderedkafka.errors import DocumentError
from airflow_provider_orderedkafka.kafka.lookup.topics import GroupOffset
from airflow_provider_orderedkafka.kafka.provenance import HEADER, read_provenance
from airflow_provider_orderedkafka.loads import mirror
from airflow_provider_orderedkafka.loads.ledger import LedgerStore
from airflow_provider_orderedkafka.spark.connector import stream
from airflow_provider_orderedkafka.spark.connector.stream import INITIAL, StreamOffset

GOLDEN = Path(__file__).parents[1] / "golden" / f"v{VERSION}"


def golden(name):
    return (GOLDEN / name).read_text(encoding="utf-8").removesuffix("\n")


def changed(name, **fields):
    return json.dumps({**json.loads(golden(f"{name}.json")), **fields})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_says_what_was_written(name):
    document = DOCUMENTS[name]
    assert type(document).from_text(golden(f"{name}.json")) == document


@pytest.mark.parametrize("name", texts())
def test_a_format_changes_only_on_purpose(name):
    assert texts()[name] == golden(name), "meant? Then run: python scripts/golden.py"


def test_nothing_else_is_golden():
    assert sorted(texts()) == sorted(path.name for path in GOLDEN.iterdir())
    assert list(GOLDEN.parent.iterdir()) == [GOLDEN]


def test_every_kind_of_document_is_golden():
    for module in walk_packages(core.__path__, f"{core.__name__}."):
        import_module(module.name)
    ours = (core.__name__, job.__name__, stream.__name__)
    kinds = {kind.__name__ for kind in Document.__subclasses__() if kind.__module__.startswith(ours)}
    assert {type(document).__name__ for document in DOCUMENTS.values()} == kinds


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_field_that_is_not_known_is_refused_by_name(name):
    with pytest.raises(DocumentError, match="'of_tomorrow'"):
        type(DOCUMENTS[name]).from_text(changed(name, of_tomorrow=None))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_field_that_is_missing_is_refused_by_name(name):
    written = json.loads(golden(f"{name}.json"))
    for field in written:
        left = {other: value for other, value in written.items() if other != field}
        with pytest.raises(DocumentError, match=f"'{field}'"):
            type(DOCUMENTS[name]).from_value(left)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_whatever_a_later_release_wrote_is_refused_with_the_way_out(name):
    with pytest.raises(DocumentError, match=naming(f"'version' ... {VERSION}, ... {VERSION + 1}")):
        type(DOCUMENTS[name]).from_text(changed(name, version=VERSION + 1))


def test_a_stream_begins_with_a_constant():
    assert json.loads('{"initial": true, "version": 1}') == INITIAL
    assert StreamOffset.from_json(INITIAL) is None
    assert StreamOffset.from_json(json.loads(golden("stream.json"))) is not None


def test_a_ledger_in_parts_is_put_together():
    values = Values(json.loads(golden("parts.json")))
    assert len(values) > 2
    assert LedgerStore(LEDGER.load, values).ledger() == LEDGER


def test_a_mirror_says_where_the_ledger_stood():
    text = golden("mirror.json")
    found = mirror._mirrored(
        {partition: GroupOffset(offset, text) for partition, offset in LEDGER.place.offsets.items()}
    )
    assert (found.instance, found.revision, found.rows) == (LEDGER.instance, LEDGER.revision, LEDGER.rows_emitted)
    assert (found.dead_letters, found.place, found.whole) == (LEDGER.dead_letters, LEDGER.place, True)
    assert (found.reached.offsets[ORDERS], found.reached.floor) == (
        LEDGER.reached.offsets[ORDERS],
        LEDGER.reached.floor,
    )


def test_a_header_says_where_a_row_came_from():
    headers = [bytes.fromhex(line) for line in golden("provenance.hex").splitlines()]
    from_a_record, from_none = (read_provenance([(HEADER, value)]) for value in headers)
    assert (from_a_record.source, from_a_record.offset) == (("refünds", 2), 5)
    assert from_a_record.order_time == 1_769_860_800_000
    assert from_a_record.range_id == RANGE.id
    assert from_a_record.ordinal == 70_000
    assert (from_none.source, from_none.offset) == (None, None)
