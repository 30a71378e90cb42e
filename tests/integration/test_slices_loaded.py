"""A range of very many small slices, loaded."""

from typing import Any

import pytest
from support.applications import IN_THE_DIRECT_LANE, Application, source_and_output
from support.outputs import expected_of, stamp
from support.records import Records
from support.topics import Topics

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


def as_they_are(frame: Any) -> Any:
    """A transform that changes nothing."""
    return frame.where("true")


@pytest.mark.parametrize("transform", [None, as_they_are], ids=["direct lane", "DataFrame lane"])
def test_a_range_of_many_slices_of_two_records_is_loaded_whole(
    app: Application, topics: Topics, records: Records, transform: Any
) -> None:
    source, output = source_and_output(topics, records, 2_000)
    asked = ["--option", f"subscribe={source}", "--option", "startingOffsets=earliest", "--option", "sliceOffsets=2"]
    report = app.run("--output-topic", output, *asked, *IN_THE_DIRECT_LANE, transform=transform)
    assert (report.rows_emitted, report.may_be_doubled, report.may_be_out_of_order) == (2_000, 0, 0)
    found = [stamp(each).source for each in records.read(output)]
    assert sorted(found) == sorted(each.position for each in expected_of(records, source))
