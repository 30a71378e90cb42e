"""A range of very many small slices, loaded."""

import time

import pytest
from support.applications import Application, source_and_output
from support.records import Records
from support.topics import Topics

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


def plain(frame):
    """A transform that changes nothing."""
    return frame.where("true")


@pytest.mark.parametrize("lane", ["direct", "frames"])
def test_a_range_of_thousands_of_slices_is_loaded_in_order(
    app: Application, topics: Topics, records: Records, lane: str
) -> None:
    count = 2000
    source, output = source_and_output(topics, records, count)
    argv = ["--output-topic", output, "--option", f"subscribe={source}", "--option", "startingOffsets=earliest"]
    argv += ["--option", "sliceOffsets=2", "--sink-option", "keepOrder=none"]
    began = time.monotonic()
    report = app.run(*argv, transform=plain if lane == "frames" else None)
    print("TOOK", lane, time.monotonic() - began, report.rows_emitted)
    assert report.rows_emitted == count
