"""What comes in, what comes out: ordered reads through Spark from a real broker."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.scenarios import World, called

from airflow_provider_orderedkafka.spark import register


@pytest.fixture
def world(topics, records) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(topics, records, stack)


@pytest.fixture
def read(spark, kafka, world):
    """Read the world as a batch, in slices of one offset unless told otherwise."""
    register(spark)

    def reading(**options):
        reader = spark.read.format("orderedkafka").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        given = {"subscribe": world.subscribe, "sliceOffsets": 1} | options
        return reader.options(**given).load()

    return reading


SCENARIOS = {
    "records of two partitions come out by time": (
        """
        a[0]: 1 4 5
        a[1]: 2 3 6
        """,
        "a0.1 a1.1 a1.2 a0.2 a0.3 a1.3",
    ),
    "ties go by topic, then partition, then offset": (
        """
        b[0]: 1 1
        a[0]: 1 1
        a[1]: 1 2
        a[10]: 1
        """,
        "a0.1 a0.2 a1.1 a10.1 b0.1 b0.2 a1.2",
    ),
    "a late record keeps its place behind the one before it, and is flagged": (
        """
        a[0]: 5 1 6
        a[1]: 4 5
        """,
        "a1.1 a0.1 a0.2! a1.2 a0.3",
    ),
    "a committed transaction's markers are no records, and hide none": (
        """
        a[0]: {1 3} 4
        a[1]: 2 {5} {6}
        """,
        "a0.1 a1.1 a0.2 a0.3 a1.2 a1.3",
    ),
    "markers newer than the data, between old records, hide nothing": (
        """
        a[0]: {1 3} {4 7} {8}
        a[1]: {2} {5 6}
        """,
        "a0.1 a1.1 a0.2 a0.3 a1.2 a1.3 a0.4 a0.5",
    ),
    "an aborted transaction is never seen": (
        """
        a[0]: 1 <2 3> 5
        a[1]: <1 9> 4
        """,
        "a0.1 a1.3 a0.4",
    ),
    "an open transaction ends what can be read": (
        """
        a[0]: 1 (2 3
        a[1]: 2 4
        """,
        "a0.1 a1.1 a1.2",
    ),
    "a time of the future counts for nothing: its record follows the one before it": (
        """
        a[0]: 1 F 3
        a[1]: 2 4
        """,
        "a0.1 a0.2 a1.1 a0.3 a1.2",
    ),
    "idle and empty partitions change nothing": (
        """
        a[0]: 7
        a[3]: 1 9
        """,
        "a3.1 a0.1 a3.2",
    ),
    "one partition far ahead waits for the others": (
        """
        a[0]: 100 101 102
        a[1]: 1 2 3 200
        """,
        "a1.1 a1.2 a1.3 a0.1 a0.2 a0.3 a1.4",
    ),
    "topics with different partition counts are one order": (
        """
        a[0]: 3
        a[1]: 1
        a[2]: 5
        b[0]: 2 4
        """,
        "a1.1 b0.1 a0.1 b0.2 a2.1",
    ),
}


@pytest.mark.parametrize("slice_offsets", [1, 100_000])
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name, slice_offsets, world, read):
    written, expected = SCENARIOS[name]
    world.write(written)
    assert called(read(sliceOffsets=slice_offsets).collect()) == expected
