"""What documents say comes back as it was written, whatever their fields are."""

import pytest

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.errors import DocumentError


@pytest.mark.parametrize("placed", [None, "murmur2"])
def test_one_of_some_words_or_nothing_is_read_back(placed):
    setup = Setup("frames", 1, "key", placed, "orders-ordered", None, "a reason")
    assert Setup.from_text(setup.to_text()) == setup


def test_another_word_is_refused_with_those_that_it_may_be():
    text = Setup("frames", 1, "key", "crc32", "orders-ordered", None, "a reason").to_text()
    with pytest.raises(DocumentError, match="'placed' must be one of 'murmur2', 'crc32', found 'md5'"):
        Setup.from_text(text.replace("crc32", "md5"))
