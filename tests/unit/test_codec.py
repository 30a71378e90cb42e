"""What documents say comes back as it was written, whatever their fields are."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.plain import plain_report

from airflow_provider_orderedkafka.core.batches import Setup
from airflow_provider_orderedkafka.core.codec import Duration, Time, for_programs
from airflow_provider_orderedkafka.core.documents import Ledger, Range, Report
from airflow_provider_orderedkafka.core.notation.starts import Moment
from airflow_provider_orderedkafka.core.order.cuts import Floor, OrderTimes
from airflow_provider_orderedkafka.core.order.positions import Offsets, TopicPartition
from airflow_provider_orderedkafka.errors import DocumentError

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
MILLISECONDS = r"\b1[78]\d{11}\b"
NOW, SAID = 1_800_000_000_000, "2027-01-15T08:00:00.000Z"


@pytest.mark.parametrize("placed", [None, "murmur2"])
def test_one_of_some_words_or_nothing_is_read_back(placed):
    setup = Setup("frames", 1, "key", placed, None, "a reason")
    assert Setup.from_text(setup.to_text()) == setup


def test_another_word_is_refused_with_those_that_it_may_be():
    text = Setup("frames", 1, "key", "crc32", None, "a reason").to_text()
    with pytest.raises(DocumentError, match=r"'placed'.*'murmur2', 'crc32'.*'md5'"):
        Setup.from_text(text.replace("crc32", "md5"))


@pytest.mark.parametrize(("name", "kind"), [("ledger", Ledger), ("ledger-rewound", Ledger), ("range", Range)])
def test_a_document_that_a_command_prints_has_times_of_iso_8601(name, kind):
    stored = (GOLDEN / f"{name}.json").read_text("utf-8")
    assert re.search(MILLISECONDS, stored)
    assert re.findall(MILLISECONDS, json.dumps(kind.from_text(stored).for_programs())) == []


@dataclass(frozen=True)
class Printed:
    """Numbers of each meaning, with names that say another one."""

    due: int
    at: Mapping[str, int]
    born: Time | None
    future_tolerance: Duration
    first: Offsets
    floor: Floor


def test_what_a_command_prints_as_a_time_is_said_by_the_type_of_its_field_and_not_by_a_name():
    first = Offsets({TopicPartition("at", 0): NOW})
    floor = Floor(-1, None, OrderTimes({TopicPartition("due", 0): -1, TopicPartition("orders", 0): 5}))
    plain = {"due": NOW, "at": {"time": NOW}, "future_tolerance_ms": 5, "first": {"at": [NOW]}}
    printed = for_programs([Printed(NOW, {"time": NOW}, NOW, 5, first, Floor(NOW)), None, 0.5])
    assert printed == [{**plain, "born": SAID, "floor": {"time": SAID}}, None, 0.5]
    (rewound,) = for_programs([Printed(NOW, {"time": NOW}, None, 5, first, floor)])
    lower = {"due": [None], "orders": [str(Moment(5))]}
    assert rewound == {**plain, "born": None, "floor": {"time": None, "anew": lower}}


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
