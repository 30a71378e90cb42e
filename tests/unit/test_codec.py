"""What documents say comes back as it was written, whatever their fields are."""

import json
import re
from pathlib import Path

import pytest
from support.plain import plain_report

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.core.codec import for_programs
from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.errors import DocumentError

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
MILLISECONDS = r"\b1[78]\d{11}\b"


@pytest.mark.parametrize("placed", [None, "murmur2"])
def test_one_of_some_words_or_nothing_is_read_back(placed):
    setup = Setup("frames", 1, "key", placed, None, "a reason")
    assert Setup.from_text(setup.to_text()) == setup


def test_another_word_is_refused_with_those_that_it_may_be():
    text = Setup("frames", 1, "key", "crc32", None, "a reason").to_text()
    with pytest.raises(DocumentError, match=r"'placed'.*'murmur2', 'crc32'.*'md5'"):
        Setup.from_text(text.replace("crc32", "md5"))


@pytest.mark.parametrize("kind", ["ledger", "ledger-rewound", "range"])
def test_a_document_that_a_command_prints_has_times_of_iso_8601(kind):
    stored = (GOLDEN / f"{kind}.json").read_text("utf-8")
    assert re.search(MILLISECONDS, stored)
    assert re.findall(MILLISECONDS, json.dumps(for_programs(json.loads(stored)))) == []


def test_times_are_printed_as_people_read_them_whatever_a_topic_is_called():
    found = {"at": 1_800_000_000_000, "time": -1, "due": None, "future_tolerance": 5, "share": 0.5, "last": "x"}
    odd = {"offsets": {"at": [1_800_000_000_000], "anew": [1]}, "anew": {"orders": [1_800_000_000_000, None]}}
    assert for_programs({**found, **odd}) == {
        "at": "2027-01-15T08:00:00.000Z",
        "time": None,
        "due": None,
        "future_tolerance_ms": 5,
        "share": 0.5,
        "last": "x",
        "offsets": odd["offsets"],
        "anew": {"orders": ["2027-01-15T08:00:00.000Z", None]},
    }


def report_text(**changes):
    value = {**json.loads(plain_report().to_text()), **changes}
    return json.dumps({name: each for name, each in value.items() if each is not ...})


def test_a_document_lacks_nothing():
    with pytest.raises(DocumentError, match="'advice'"):
        Report.from_text(report_text(advice=...))


@pytest.mark.parametrize("version", [0, 2, None, "1", True])
def test_a_version_that_this_release_does_not_read_is_refused(version):
    with pytest.raises(DocumentError, match=f"'version'.*{version!r}"):
        Report.from_text(report_text(version=version))
