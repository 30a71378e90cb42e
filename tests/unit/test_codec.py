"""What documents say comes back as it was written, whatever their fields are."""

import json

import pytest
from support.plain import plain_report

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.core.documents import DOUBTS, Claim, Outcome, Report
from airflow_provider_orderedkafka.errors import DocumentError


@pytest.mark.parametrize("placed", [None, "murmur2"])
def test_one_of_some_words_or_nothing_is_read_back(placed):
    setup = Setup("frames", 1, "key", placed, "orders-ordered", None, "a reason")
    assert Setup.from_text(setup.to_text()) == setup


def test_another_word_is_refused_with_those_that_it_may_be():
    text = Setup("frames", 1, "key", "crc32", "orders-ordered", None, "a reason").to_text()
    with pytest.raises(DocumentError, match=r"'placed'.*'murmur2', 'crc32'.*'md5'"):
        Setup.from_text(text.replace("crc32", "md5"))


def report_text(**changes):
    value = {**json.loads(plain_report().to_text()), **changes}
    return json.dumps({name: each for name, each in value.items() if each is not ...})


def test_a_document_of_an_older_version_has_defaults_where_it_lacks_a_field():
    found = Report.from_text(report_text(version=1, advice=...))
    assert found.advice == ""


def test_an_outcome_of_an_older_version_counted_nothing_that_is_in_doubt():
    outcome = Outcome("committed", "a", 1, "d/r", 0, "because", 5, 1)
    value = json.loads(Claim(None, (outcome,)).to_text())
    for name in DOUBTS:
        del value["outcomes"][0][name]
    assert Claim.from_text(json.dumps({**value, "version": 1})).outcomes == (outcome,)


def test_a_document_of_this_version_lacks_nothing():
    with pytest.raises(DocumentError, match="'advice'"):
        Report.from_text(report_text(advice=...))


def test_an_older_document_still_has_what_no_default_stands_for():
    with pytest.raises(DocumentError, match="'stop'"):
        Report.from_text(report_text(version=1, stop=...))


@pytest.mark.parametrize("version", [0, 4, None, "3", True])
def test_a_version_that_this_release_does_not_read_is_refused(version):
    with pytest.raises(DocumentError, match=f"'version'.*{version!r}"):
        Report.from_text(report_text(version=version))
