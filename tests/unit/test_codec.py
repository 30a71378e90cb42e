"""What documents say comes back as it was written, whatever their fields are."""

import json

import pytest
from support.plain import plain_report

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.core.documents import Report
from airflow_provider_orderedkafka.errors import DocumentError


@pytest.mark.parametrize("placed", [None, "murmur2"])
def test_one_of_some_words_or_nothing_is_read_back(placed):
    setup = Setup("frames", 1, "key", placed, None, "a reason")
    assert Setup.from_text(setup.to_text()) == setup


def test_another_word_is_refused_with_those_that_it_may_be():
    text = Setup("frames", 1, "key", "crc32", None, "a reason").to_text()
    with pytest.raises(DocumentError, match=r"'placed'.*'murmur2', 'crc32'.*'md5'"):
        Setup.from_text(text.replace("crc32", "md5"))


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
